"use strict";
// A history is put together; the service is asked what comes next, what is similar, and why.

const LENGTH = 10;
const byId = (id) => document.getElementById(id);
const names = new Map(); // what is known of items, by id
let checkpoints = [];
let history = [];
let asked = 0; // the last question of each kind; answers to earlier ones come too late
let searched = 0;

async function ask(path, question) {
  const options = question && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  };
  const answer = await fetch(path, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.detail);
  return content;
}

function tell(error) {
  byId("mistake").textContent = error ? error.message : "";
  byId("mistake").hidden = !error;
}

function guarded(action) {
  return async (...values) => {
    try {
      await action(...values);
      tell(null);
    } catch (error) {
      tell(error);
    }
  };
}

const nameOf = (shown) => shown.name || shown.item;

function row(shown, more, actions) {
  names.set(shown.item, shown);
  const line = byId("item").content.firstElementChild.cloneNode(true);
  line.dataset.item = shown.item;
  line.querySelector(".name").textContent = nameOf(shown);
  line.querySelector(".more").textContent = [shown.name && `id ${shown.item}`, more].filter(Boolean).join(" · ");
  for (const [word, action] of Object.entries(actions)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = word;
    button.setAttribute("aria-label", `${word}: ${nameOf(shown)}`);
    button.addEventListener("click", guarded(() => action(line)));
    line.querySelector(".buttons").append(button);
  }
  return line;
}

function below(line, kind, ...content) {
  const place = line.querySelector(".below");
  place.hidden = !place.hidden && place.dataset.kind === kind;
  place.dataset.kind = kind;
  place.replaceChildren(...content);
}

function paragraph(text) {
  const element = document.createElement("p");
  element.textContent = text;
  return element;
}

async function similar(item, compared, line) {
  const { answers } = await ask("similar", { items: [item], k: LENGTH, compared });
  const list = document.createElement("ul");
  list.className = "items";
  for (const shown of answers[0]) list.append(row(shown, shown.score.toFixed(2), { add: () => add(shown) }));
  below(line, "similar", paragraph("Most similar:"), list);
}

async function why(item, compared, line) {
  const { reasons, score } = await ask("explain", { history, item, compared });
  const widest = Math.max(...reasons.map((reason) => Math.abs(reason.influence)), 1e-9);
  const table = document.createElement("div");
  table.className = "why";
  for (const reason of [...reasons].sort((a, b) => b.influence - a.influence)) {
    const [name, bar, value] = ["span", "div", "span"].map((tag) => document.createElement(tag));
    name.textContent = nameOf(reason);
    bar.className = reason.influence < 0 ? "bar less" : "bar";
    bar.style.width = `${(100 * Math.abs(reason.influence)) / widest}%`;
    value.className = "value";
    value.textContent = `${reason.influence < 0 ? "−" : "+"}${Math.abs(reason.influence).toFixed(2)}`;
    table.append(name, bar, value);
  }
  below(line, "why", paragraph(`Score ${score.toFixed(2)}. It is by so much higher for each item of the history:`), table);
}

function drawHistory() {
  const lines = history.map((item, place) =>
    row(names.get(item) || { item }, "", {
      ...(place && { earlier: () => move(place, place - 1) }),
      remove: () => change(history.filter((_, other) => other !== place)),
    }),
  );
  byId("history").replaceChildren(...lines);
  byId("clear").hidden = !history.length;
  const hash = history.length ? `#${history.map(encodeURIComponent).join(",")}` : location.pathname;
  window.history.replaceState(null, "", hash);
}

async function drawNext() {
  const mine = ++asked;
  const question = { histories: [history], k: LENGTH };
  const found = await Promise.all(
    checkpoints.map((_, which) => ask("recommend", { ...question, compared: which === 1 })),
  );
  if (mine !== asked) return;
  const lists = found.map(({ answers: [answer] }, which) => {
    const other = found.filter((_, place) => place !== which).flatMap((one) => one.answers[0].items.map((i) => i.item));
    const section = byId("list").content.firstElementChild.cloneNode(true);
    const about = checkpoints[which];
    const compared = which === 1;
    section.querySelector("h2").textContent = found.length > 1 ? about.file : history.length ? "Next" : "Popular";
    section.querySelector(".about").textContent = [
      answer.unknown && `${answer.unknown} of the history unknown here`,
      about.viewed,
    ].filter(Boolean).join("; ").replace(/^./, (first) => first.toUpperCase());
    answer.items.forEach((shown, place) => {
      const there = other.indexOf(shown.item) + 1;
      const more = shown.score.toFixed(2) + (there ? ` · other list: ${there}` : "");
      const line = row(shown, more, {
        add: () => add(shown),
        ...(history.length > answer.unknown && { why: (where) => why(shown.item, compared, where) }),
        similar: (where) => similar(shown.item, compared, where),
      });
      line.querySelector(".name").prepend(`${place + 1}. `);
      section.querySelector(".items").append(line);
    });
    return section;
  });
  byId("lists").replaceChildren(...lists);
}

async function change(items) {
  history = items;
  drawHistory();
  await drawNext();
}

const add = (shown) => change([...history, shown.item]);

function move(from, to) {
  const items = [...history];
  items.splice(to, 0, ...items.splice(from, 1));
  return change(items);
}

async function search() {
  const mine = ++searched;
  const text = byId("text").value.trim();
  const { items } = text ? await ask(`search?text=${encodeURIComponent(text)}`) : { items: [] };
  if (mine !== searched) return;
  const lines = items.map((shown) => row(shown, "", { add: () => add(shown) }));
  byId("found").replaceChildren(...(text && !lines.length ? [paragraph("No item has this in its name or id.")] : lines));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that was cut or written by hand
  }
}

async function start() {
  checkpoints = (await ask("health")).checkpoints;
  byId("about").textContent = checkpoints.map((one) => `${one.file}: ${one.model}, ${one.items.toLocaleString("en")} items`).join(" · ");
  const items = location.hash.slice(1).split(",").filter(Boolean).map(decoded);
  for (const item of new Set(items)) {
    if (item.length > byId("text").maxLength) continue; // it is shown by its id
    const { items: found } = await ask(`search?most=1&text=${encodeURIComponent(item)}`);
    if (found.length && found[0].item === item) names.set(item, found[0]);
  }
  await change(items);
}

let typed;
byId("text").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(guarded(search), 150);
});
byId("clear").addEventListener("click", guarded(() => change([])));
guarded(start)();
