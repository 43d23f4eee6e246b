# How our jobs begin and end. Each script reads this after slurm/env.sh.
#
# Slurm sends TERM to every process of a job (scancel, time limit, preemption, requeue) and KILL
# after a while; USR1 goes to the script alone, 120 s before the time is up (--signal=B:USR1@120).
# bash heeds a signal only between commands or in `wait`, so what a job runs is in the background.

stopped=""   # TERM or USR1, once Slurm sent it
running=""   # process id of what the job is about
trap 'stopped=TERM' TERM
trap 'stopped=USR1; [ -z "$running" ] || kill -TERM "$running" 2>/dev/null || true' USR1

# Wait for the end of $running and put its exit code into `code`. With a second process id, stop
# waiting when that process ends first; then it is still in `running`.
attend() {
    local beside=${1:-}
    code=0
    while kill -0 "$running" 2>/dev/null; do
        if [ -n "$beside" ] && [ -z "$stopped" ] && ! kill -0 "$beside" 2>/dev/null; then
            return
        fi
        sleep 0.5 &
        wait $! || true   # ends early when a signal comes
    done
    wait "$running" || code=$?
    running=""
}

# Whether the scheduler wants the node for somebody else, and left time to end.
preempted() {
    scontrol show job -o "$SLURM_JOB_ID" | grep -q 'PreemptTime=[0-9]'
}

# Put this job, or this task of an array, back into the queue, if it may be.
requeue() {
    local self=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}}
    local count=${SLURM_RESTART_COUNT:-0}
    if [ "$count" -ge "$TACIT_REQUEUES" ]; then
        echo "queued again $count times already: submit the same command to go on (TACIT_REQUEUES)"
        return
    fi
    echo "queueing again, to go on from here"
    scontrol requeue "${self:-$SLURM_JOB_ID}"
}
