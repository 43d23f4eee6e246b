# Everything a newcomer needs: make run, make test, make lint.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: run test lint setup lock clean
.DELETE_ON_ERROR:

run: setup  ## the main job: 20 offline interviews with persona 7, no model, no network
	$(BIN)/python -m src.run experiment=offline persona=7

test: setup  ## every test
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: setup  ## style, types, import direction, size
	$(BIN)/ruff check src serving tests
	$(BIN)/ruff format --check src serving tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/size.py

setup: $(VENV)/ready

$(VENV)/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lock: setup  ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --no-header --upgrade --extra dev -o requirements.lock pyproject.toml

clean:  ## remove the environment; outputs stay
	rm -rf $(VENV)
