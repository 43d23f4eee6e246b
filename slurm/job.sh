# How our jobs begin and end. Each script reads this after slurm/env.sh.
#
# TERM comes at scancel, time limit, preemption and requeue, and KILL a while later. Where Slurm
# tracks processes by cgroup, TERM goes to this script alone; where it tracks them by parent, to
# every process of the job. So the script hands it on, and what it started takes a TERM said twice
# for one. USR1 always goes to the script alone, 120 s before the time is up (--signal=B:USR1@120).
# bash heeds a signal only between commands or in `wait`, so what a job runs is in the background.

# Compute nodes have no way out, and nothing is reported to anyone.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1

INSIST=60    # seconds after which what still runs is told again: give up what is under way

stopped=""   # TERM or USR1, whichever Slurm sent first: it says why the job ends
owed=""      # a signal that was not handed on yet
insist_at="" # when to tell again
running=""   # process id of what the job is about; empty: nothing, or it has ended
trap 'stopped=${stopped:-TERM} owed=1' TERM
trap 'stopped=${stopped:-USR1} owed=1' USR1

# Start what the job is about, or what comes next, unless the job is to end.
start() {
    running=""
    [ -z "$stopped" ] || return 0
    "$@" &
    running=$!
}

# Wait for the end of $running and put its exit code into `code`, 143 if it was never started. With
# a second process id, stop waiting when that process ends first; then it is still in `running`.
attend() {
    local beside=${1:-}
    code=143
    [ -n "$running" ] || return 0
    while kill -0 "$running" 2>/dev/null; do
        if [ -n "$stopped" ]; then
            hand_on
        elif [ -n "$beside" ] && ! kill -0 "$beside" 2>/dev/null; then
            return 0
        fi
        sleep 0.5 &
        wait $! || true   # ends early when a signal comes
    done
    code=0
    wait "$running" || code=$?
    running=""
}

# Tell $running of every signal, and of the first one again when it takes too long to end.
hand_on() {
    if [ -n "$owed" ]; then
        owed="" insist_at=${insist_at:-$((SECONDS + INSIST))}
    elif [ "$SECONDS" -ge "$insist_at" ]; then
        insist_at=$((SECONDS + INSIST))
    else
        return 0
    fi
    kill -TERM "$running" 2>/dev/null || true
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
