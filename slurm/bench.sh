#!/usr/bin/env bash
# Measure how well interviews fill the served models; this job itself needs no GPU.
#
#   source slurm/env.sh
#   gemma=$(sbatch --parsable $on_gpu slurm/serve_gemma.sh)
#   personas=$(sbatch --parsable $on_gpu slurm/serve_personas.sh)
#   sbatch $on_cpu --dependency=after:$gemma:$personas slurm/bench.sh jobs=[$gemma,$personas] gpu=H100-80GB
#
# Submit from the checkout's top folder. gpu= names what the models run on; jobs= and servers= say
# what to wait for, as in interview.sh; all other arguments go to src.bench. The figures are written
# to tests/results/bench_gpu.json, from where `make results` brings them into README.md. Nobody else
# should ask the servers meanwhile.
#
#SBATCH --job-name=tacit-bench
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=2:00:00
#SBATCH --output=slurm/%x-%j.log
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
source slurm/env.sh
source slurm/job.sh

awaited=() gpu=""
choices=(cast=local "parts=[saturation,cache]" calls=null saturation.interviews=256
    out=tests/results/bench_gpu.json)
for argument in "$@"; do
    case $argument in
        jobs=*) awaited+=("$argument") ;;
        servers=*) awaited+=("endpoints=${argument#*=}") ;;
        endpoints=*) awaited+=("folder=${argument#*=}") choices+=("$argument") ;;
        gpu=*) gpu=${argument#*=} ;;
        *) choices+=("$argument") ;;
    esac
done
if [ -z "$gpu" ]; then
    echo "say what the models run on, such as gpu=H100-80GB: figures without it mean nothing" >&2
    exit 2
fi

# bash before 4.4 takes an empty list for an unset one
start .venv/bin/python -m serving.wait until=ready ${awaited[@]+"${awaited[@]}"}
attend
[ "$code" -eq 0 ] || exit "$code"

start .venv/bin/python -m src.bench "${choices[@]}" "gpu=$gpu"
attend
exit "$code"
