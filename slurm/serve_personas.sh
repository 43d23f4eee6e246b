#!/usr/bin/env bash
# Serve the personas: Llama 3 8B Instruct with one LoRA adapter each.
#
#   source slurm/env.sh
#   sbatch $on_gpu slurm/serve_personas.sh               # every adapter in models/adapters
#   sbatch $on_gpu slurm/serve_personas.sh persona=[7,8]
#
# Submit from the checkout's top folder. Arguments go to serving.launch. The server is found by
# endpoints/personas.json, which holds its key. It ends as serve_gemma.sh does.
#
#SBATCH --job-name=tacit-personas
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH --time=12:00:00
#SBATCH --output=slurm/%x-%j.log
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
source slurm/env.sh
source slurm/job.sh

start .venv/bin/python -m serving.launch serving=personas lifecycle.grace="$TACIT_GRACE" "$@"
attend
if [ "$stopped" = USR1 ] && preempted; then
    requeue
fi
exit "$code"
