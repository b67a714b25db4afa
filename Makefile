# One environment in .venv; each target first adds what it needs, so that a fresh clone needs one command.
PYTHON ?= python3
VENV := .venv
DOCS_VENV := .venv-docs
BIN := $(VENV)/bin
# The small CPU build of torch, for machines without a GPU and where this index answers; else the default build.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

# A stamp counts only where the environment was made: its programs contain its path.
moved := $(shell grep -qsF "\"$$PWD/$(VENV)\"" $(VENV)/.made.json || rm -f $(VENV)/.ready*)
# The stamp of what a target needs; where everything is installed, that serves all of them.
ready = $(VENV)/.ready$(if $(wildcard $(VENV)/.ready),,-$(1))
install = $(PYTHON) tools/make_env.py $(VENV) $(1) "$(TORCH_CPU_INDEX)"

.PHONY: demo quickstart test test-all check house bench docs reference wheel env clean

demo: $(call ready,demo)
	$(BIN)/assay demo
	@echo "With trainings: make quickstart"

quickstart: $(call ready,quickstart)
	$(BIN)/assay doctor
	$(BIN)/assay run examples/quickstart/suite.yaml --report build/quickstart.html
	@echo "The same in a browser, with logs and comparisons: $(BIN)/assay serve"

test: $(call ready,test)
	$(BIN)/python tools/run_tests.py

test-all: $(call ready,test)
	$(BIN)/python tools/run_tests.py --all

check: $(call ready,check)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py --check

# How large the house is, room by room, next to other projects.
house:
	@$(PYTHON) tools/house.py

bench: $(call ready,test)
	$(BIN)/python benchmarks/all.py

# The wheel and the source archive in dist/; the wheel is tried in an empty environment.
wheel:
	$(PYTHON) tools/try_wheel.py

# The site needs neither Assay nor torch, so it has a small environment of its own, made in seconds.
docs: $(DOCS_VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build
	@echo "build/site/index.html"

# The pages of docs/reference that are made from the code.
reference: $(call ready,test)
	$(BIN)/python tools/reference

$(DOCS_VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import tomllib' 2>/dev/null || { echo "needs Python 3.11 or newer: make PYTHON=python3.12 docs"; exit 1; }
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' > $(DOCS_VENV)/docs.txt
	$(DOCS_VENV)/bin/python -m pip install --disable-pip-version-check --quiet --requirement $(DOCS_VENV)/docs.txt
	touch $@

env: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml tools/make_env.py
	$(call install,all)
	touch $@

$(VENV)/.ready-%: pyproject.toml tools/make_env.py
	$(call install,$*)
	touch $@

clean:
	rm -rf $(VENV) $(DOCS_VENV) build dist .pytest_cache .mypy_cache .ruff_cache
