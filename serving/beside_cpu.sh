#!/usr/bin/env bash
# Run a command while the CPU tier's server is up, which ends with it: serving/beside_cpu.sh COMMAND...
# Serves what stand_ins.sh made. Told to end, it ends the command first, then the server.
set -euo pipefail
cd "$(dirname "$0")/.."

command=""
end() { # exit code
  trap '' INT TERM
  for pid in $command $server; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
  trap - EXIT
  exit "$1"
}

printf '\n== %s\n' 'The server'
.venv/bin/python -m serving.launch serving=cpu 'persona=[7,8]' &
server=$!
trap 'end $?' EXIT
trap 'end 130' INT
trap 'end 143' TERM
until grep -qs "\"pid\": $server," endpoints/cpu.json; do # a file of an earlier server does not count
  kill -0 "$server" 2>/dev/null || exit 3
  sleep 0.2
done
.venv/bin/python -m serving.wait 'endpoints=[cpu]' timeout=900

"$@" & # bash heeds a signal in `wait` alone
command=$!
wait "$command"
