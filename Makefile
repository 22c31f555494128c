.PHONY: install lint py310 type stubs test bench

install:
	python -m pip install -r requirements-dev.txt
lint: py310
	ruff check .
	ruff format --check .
# Modules, functions and arguments that came after Python 3.10; syntax is ruff's part, methods of values are mypy's.
# Tensor.long looks like Python 2's `long`, and a file that seems to be for Python 2 would not be looked at.
py310:
	vermin --target=3.10- --violations --no-tips --exclude long recbole_bert4rec run.py run_hyper.py benchmarks tests stubs
	! vermin --no-tips --exclude long recbole_bert4rec run.py run_hyper.py benchmarks tests stubs 2>&1 | grep "incompatible versions:"
type:
	mypy
# Whether stubs/ says of RecBole what the installed one does.
stubs:
	MYPYPATH=stubs python -m mypy.stubtest recbole --ignore-missing-stub --allowlist stubs/allowed.txt
test:
	python -m pytest
bench:
	python benchmarks/time_to_quality.py
