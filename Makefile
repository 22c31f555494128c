.PHONY: install lint type test bench

install:
	python -m pip install -r requirements-dev.txt
lint:
	ruff check .
	ruff format --check .
type:
	mypy
test:
	python -m pytest
bench:
	python benchmarks/time_to_quality.py
