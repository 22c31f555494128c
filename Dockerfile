# The service alone: docker build -t recommender . ; docs/serving.md has the rest.
FROM python:3.11-slim
# Where pip finds PyTorch without CUDA, which is much smaller: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir torch==2.13.0 numpy "pandas>=2,<3" scipy pyarrow "duckdb>=2" tqdm "fastapi>=0.165" "uvicorn>=0.54" prometheus_client
COPY . /source
RUN pip install --no-cache-dir --no-deps /source
USER nobody
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["python", "-m", "recbole_bert4rec", "serve", "--host=0.0.0.0"]
