.PHONY: install lint type pages test bench

install:
	python -m pip install -r requirements-dev.txt
lint:
	ruff check .
	ruff format --check .
pages:
	python -m recbole_bert4rec.options.pages
type:
	mypy
test:
	python -m pytest
bench:
	python benchmarks/time_to_quality.py
