#!/usr/bin/env bash
# Serve the interviewer's model until cancelled, idle for an hour, or out of time.
#
#   source slurm/env.sh
#   sbatch $on_gpu slurm/serve_gemma.sh                          # Gemma 3 27B on one card of 80 GB
#   sbatch $on_gpu slurm/serve_gemma.sh serving=both             # with the personas on the same card
#   sbatch $on_gpu slurm/serve_gemma.sh serving=gemma_int4       # a card of 24 to 48 GB
#   sbatch $on_gpu --gres=gpu:2 slurm/serve_gemma.sh servers.gemma.replicas=2
#   sbatch $on_cpu --gres=gpu:0 slurm/serve_gemma.sh serving=cpu # two processors, a tiny model
#
# Submit from the checkout's top folder. Arguments go to serving.launch. The server is found by
# endpoints/gemma.json, which holds its key. scancel ends it: requests under way finish first.
# A preempted job queues again and serves anew; one whose time is up does not.
#
#SBATCH --job-name=tacit-gemma
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=96G
#SBATCH --time=12:00:00
#SBATCH --output=slurm/%x-%j.log
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
source slurm/env.sh
source slurm/job.sh

start .venv/bin/python -m serving.launch serving=gemma lifecycle.grace="$TACIT_GRACE" "$@"
attend
if [ "$stopped" = USR1 ] && preempted; then
    requeue
fi
exit "$code"
