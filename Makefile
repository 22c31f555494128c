.PHONY: run test install lint type pages docs verify slow coverage bench gpu

# README's first two: everything goes into .venv, nothing else is needed but Python (PYTHON=python3.13 takes another).
run: .venv/plain
	.venv/bin/python run.py --model=BERT4Rec --dataset=ml-100k
test: .venv/test
	.venv/bin/python -m pytest

PYTHON = python3
# What those leave in .venv is used by all targets below; without it, the environment that is active.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
.venv/plain: requirements.txt setup.cfg
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -q -r requirements.txt
	.venv/bin/python -m pip install -q --no-deps recbole==1.2.1
	touch $@
.venv/test: .venv/plain
	.venv/bin/python -m pip install -q -e ".[test]"
	touch $@
.venv/dev: .venv/plain
	.venv/bin/python -m pip install -q -e ".[dev]"
	touch $@
install: .venv/dev
lint:
	ruff check .
	ruff format --check .
type:
	mypy
# The property files and the page of options, from the table of options.
pages:
	python docs/site/pages.py
# The documentation as a site, in site/.
docs:
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict -f docs/site/mkdocs.yml
# README's and the leaderboard's figures against the results, and README's first run against a new one.
verify:
	python benchmarks/verify.py
slow:
	python -m pytest -m slow
coverage:
	python -m pytest --cov --cov-report=
	python -m pytest -m slow --cov --cov-append --cov-report=
	coverage report --fail-under=90
bench:
	python benchmarks/time_to_mark.py --data_path dataset
# What runs on a GPU, and how fast: its tests, and pages in benchmarks/results. DATA holds ml-1m; the pages compare with
# other libraries, in environments that benchmarks/training_speed.py describes.
DATA = dataset
gpu:
	python -m pytest tests/plugin/test_devices.py
	python benchmarks/training_speed.py --device=cuda --data_path=$(DATA)
	python benchmarks/time_to_mark.py --data_path=$(DATA)
