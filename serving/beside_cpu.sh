#!/usr/bin/env bash
# Run a command while the CPU tier's server is up, which ends with it: serving/beside_cpu.sh COMMAND...
# Serves what stand_ins.sh made.
set -euo pipefail
cd "$(dirname "$0")/.."

printf '\n== %s\n' 'The server'
.venv/bin/python -m serving.launch serving=cpu 'persona=[7,8]' &
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
"$@"
