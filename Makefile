# make demo, make test, make test-all, make docs: each sets up .venv with what it needs (Python >= 3.11 is enough).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)

unexport PYTHONDONTWRITEBYTECODE  # tests start many processes, each of which would compile every module again

.PHONY: demo test test-all lint bench ledger docs site clean

demo: $(VENV)/.installed
	$(BIN)/diptych demo

test: $(VENV)/.installed
	$(BIN)/python -m conformance --tier first --numprocesses auto --dist worksteal

test-all: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]" || echo "no atheris here: readers are not fuzzed"
	$(BIN)/diptych warm
	$(BIN)/python -m conformance --examples 100 --seed 0 --numprocesses auto --dist worksteal
	.ci/wheel

lint: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m ruff check . && $(BIN)/python -m ruff format --check . && $(BIN)/python -m mypy

bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[benchmarks]"
	$(BIN)/python -m asv run --python=same --show-stderr

ledger: $(VENV)/.installed
	$(BIN)/python -m conformance.ledger > docs/LEDGER.md

docs: site
	$(BIN)/node docs/_ext/seen.js docs/_build/html

site: $(VENV)/.documented
	$(BIN)/python -m sphinx --builder html --fail-on-warning --jobs auto -d docs/_build/doctrees docs docs/_build/html

$(VENV)/.documented: $(VENV)/.installed docs/package.json
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/npm install --prefix docs --silent --no-package-lock
	touch $@

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "diptych needs Python >= 3.11, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[tests,plots]"
	touch $@

clean:
	rm -rf $(VENV) build dist demo docs/_build docs/api docs/benchmarks docs/read docs/step docs/node_modules
