# What differs from cluster to cluster: the one file to edit. Every job reads it; read it as well in
# the shell that you submit from, in the checkout's top folder:
#
#   source slurm/env.sh
#
# sbatch takes the SBATCH_ variables in the place of a script's #SBATCH lines, and options on its
# command line in the place of both:
#
#   sbatch $on_gpu --time=4:00:00 slurm/serve_gemma.sh

# For every job. Uncomment what your site asks for.
# export SBATCH_ACCOUNT=my_project
# export SBATCH_QOS=normal

# For jobs that serve a model, and for those that only talk to one.
on_gpu="--gres=gpu:1"                 # such as "--partition=gpu --gres=gpu:h200:1"
on_cpu=""                             # such as "--partition=cpu"

# Programs that compute nodes have by name only.
# module load cuda/12.8

# Where weights were fetched to on a login node; home folders are often too small.
# export HF_HOME=/scratch/$USER/huggingface

# Seconds that requests under way have once a server is to end. Slurm kills what is left of a job
# after its KillWait (scontrol show config), 30 by itself: stay well below.
export TACIT_GRACE=${TACIT_GRACE:-20}

# Interview jobs that run out of time, or are preempted, queue again and go on, at most so often;
# and so often one job waits for servers that are queued again.
export TACIT_REQUEUES=${TACIT_REQUEUES:-20}
