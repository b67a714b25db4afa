# One environment in .venv; every target makes it first, so that a fresh clone needs one command.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The small CPU build of torch, for machines without a GPU and where this index answers; else the default build.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo test test-all check bench env clean

demo: env
	$(BIN)/assay doctor
	$(BIN)/assay run examples/quickstart/suite.yaml --report build/quickstart.html

test: env
	$(BIN)/python tools/run_tests.py

test-all: env
	$(BIN)/python tools/run_tests.py --all

check: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: env
	$(BIN)/python benchmarks/all.py

env: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml tools/make_env.py
	$(PYTHON) tools/make_env.py $(VENV) "$(TORCH_CPU_INDEX)"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
