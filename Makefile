.PHONY: install lint type test slow coverage bench

install:
	python -m pip install -r requirements-dev.txt
lint:
	ruff check .
	ruff format --check .
type:
	mypy
test:
	python -m pytest
slow:
	python -m pytest -m slow
coverage:
	python -m pytest --cov --cov-report=
	python -m pytest -m slow --cov --cov-append --cov-report=
	coverage report --fail-under=95
bench:
	python benchmarks/time_to_quality.py
