"""A plain training loop around Hugging Face's BertForMaskedLM: padded to N, logits at every position."""

import torch
import transformers
from common import Stopwatch, Task

task, watch = Task(), Stopwatch(transformers.__version__)
config = transformers.BertConfig(
    vocab_size=task.n_items + 2,  # padding first, [MASK] last
    hidden_size=task.hidden_size,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=4 * task.hidden_size,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=task.length,
)
model = transformers.BertForMaskedLM(config).to(task.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
table = torch.zeros(len(task.histories), task.length, dtype=torch.int64)
for row, history in enumerate(task.histories):
    table[row, : len(history)] = torch.from_numpy(history)
table = table.to(task.device)
model.train()
for _ in range(task.epochs):
    watch.start()
    for index in torch.randperm(len(table)).split(task.batch):
        items = table[index]
        present = items != 0
        masked = present & (torch.rand(items.shape, device=task.device) < task.mask_ratio)
        masked[torch.arange(len(items), device=task.device), present.sum(1) - 1] |= ~masked.any(1)
        watch.count(masked.sum())
        shown, labels = items.masked_fill(masked, task.n_items + 1), items.masked_fill(~masked, -100)
        optimizer.zero_grad()
        model(input_ids=shown, attention_mask=present.long(), labels=labels).loss.backward()
        optimizer.step()
    watch.stop()
