#!/usr/bin/env bash
# make run-cpu: the whole system on two CPU cores, with a real server, real adapters and a real model.
# Interviews what stand_ins.sh made.
set -euo pipefail
cd "$(dirname "$0")/.."

say() {
  printf '\n%s\n%s\n' \
    'A model of 135 million parameters asks, answers and scores. This shows that the machinery works' \
    '(server, adapters, JSON by schema, journal), not how well it screens: the scores mean nothing.'
}
trap say EXIT # however it ends
serving/beside_cpu.sh .venv/bin/python -m src.run experiment=cpu 'persona=[7,8]'
