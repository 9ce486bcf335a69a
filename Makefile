# `make demo` and `make test` set up all they need in .venv; a second run only runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test lint benchmark clean

demo: $(VENV)/.installed
	$(BIN)/python -m mxgemm demo

test: lint
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

benchmark: $(VENV)/.installed
	$(BIN)/python benchmarks/cpu.py --write reports/cpu

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	touch $@

# The test installation is an installation too: both stamps, so that `make demo` need not repeat it.
$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.installed
