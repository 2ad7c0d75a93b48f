# Everything a contributor or CI runs. The environment .venv makes itself, from PYTHON, with pinned packages.

PYTHON ?= python3
COV ?= 1
WORKERS ?= auto
ARGS ?=
# For make demo, and from the command line only: a variable of this name may be somebody else's.
MODEL =
BASE_URL =

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
DOCS_VENV := .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready
MODEL_VENV := .venv-local-model
MODEL_READY := $(MODEL_VENV)/.ready
PIP_FLAGS := --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-local-model check fix bench sim docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12  interpreter for a new $(VENV)    COV=0  tests without coverage    ARGS='-k name'  for pytest"
	@echo "  make demo MODEL=openai-compatible:NAME BASE_URL=http://HOST:PORT/v1    a model takes the decisions"
	@echo "  (a key it may need: RELEASE_DEMO_API_KEY in the environment)"

demo: $(READY) ## see a release agent survive everything (ARGS=--by-hand: be its operator yourself)
	@$(if $(MODEL),RELEASE_DEMO_MODEL='$(MODEL)') $(if $(BASE_URL),RELEASE_DEMO_BASE_URL='$(BASE_URL)') \
	  $(PY) -m examples.release_agent.demo $(ARGS)

test: $(READY) ## run the tests on all cores, with a coverage summary (COV=0: without; WORKERS=0: in one process)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(if $(filter 0,$(COV)),,--cov --cov-report=term) $(ARGS)

test-local-model: $(MODEL_READY) ## run agents on a small real model behind a real server (downloads 350 MB once)
	PROTOLINK_LOCAL_MODEL=1 $(MODEL_VENV)/bin/python -m pytest tests/local_model -v --durations=0 $(ARGS)

check: $(READY) ## format, lint, types and layers; changes nothing
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

fix: $(READY) ## format, and repair what the linter can repair
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(READY) ## run the benchmarks
	$(PY) -m benchmarks

sim: $(READY) ## run the long simulations
	$(PY) -m tests.sim

docs: $(DOCS_READY) ## build the documentation into site/
	$(DOCS_VENV)/bin/python -m mkdocs build --strict

clean: ## remove everything that was built, the environments too
	rm -rf $(VENV) $(DOCS_VENV) $(MODEL_VENV) site build dist src/*.egg-info .coverage .coverage.* htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Python too old, or without the modules that make an environment, is said before anything is written.
define require_python
	@$(PYTHON) -c 'pass' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' does not run. Install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: '$(PYTHON)' is $$($(PYTHON) -V 2>&1), protolink needs 3.11 or newer: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' lacks venv or ensurepip. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

# setuptools is one of the pins, so building the package itself downloads nothing more.
$(READY): requirements/base.txt requirements/dev.txt pyproject.toml src/protolink/_version.py
	$(require_python)
	@$(PY) -c 'pass' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install $(PIP_FLAGS) -r requirements/dev.txt
	$(PY) -m pip install $(PIP_FLAGS) --no-build-isolation --no-deps -e .
	@touch $@

$(DOCS_READY): requirements/docs.txt
	$(require_python)
	@$(DOCS_VENV)/bin/python -c 'pass' 2>/dev/null || $(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements/docs.txt
	@touch $@

$(MODEL_READY): requirements/base.txt requirements/dev.txt requirements/local-model.txt pyproject.toml src/protolink/_version.py
	$(require_python)
	@$(MODEL_VENV)/bin/python -c 'pass' 2>/dev/null || $(PYTHON) -m venv --clear $(MODEL_VENV)
	$(MODEL_VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements/dev.txt -r requirements/local-model.txt
	$(MODEL_VENV)/bin/python -m pip install $(PIP_FLAGS) --no-build-isolation --no-deps -e .
	@touch $@
