#!/usr/bin/env bash
# Hold interviews with models that other jobs serve; this one needs no GPU.
#
#   source slurm/env.sh
#   gemma=$(sbatch --parsable $on_gpu slurm/serve_gemma.sh)
#   personas=$(sbatch --parsable $on_gpu slurm/serve_personas.sh)
#   after="--dependency=after:$gemma:$personas"
#   sbatch $on_cpu $after slurm/interview.sh jobs=[$gemma,$personas] experiment=local
#   sbatch $on_cpu $after --array=1-20%8 slurm/interview.sh jobs=[$gemma,$personas] experiment=local
#
# Submit from the checkout's top folder. Without persona= one job interviews all personas; a task of
# an array interviews the persona of its number, and all share one run folder. jobs= and servers=
# say what to wait for (serving.wait: by itself gemma and personas, whoever serves them); all other
# arguments go to src.run. As soon as a server's job has ended, this one ends as well: exit code 3,
# with the end of the server's log; one that is queued again is waited for. An interview job whose
# time is up, or that is preempted, queues again and goes on; after anything else the same command
# does.
#
#SBATCH --job-name=tacit-interview
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=12:00:00
#SBATCH --output=slurm/%x-%j.log
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
source slurm/env.sh
source slurm/job.sh

awaited=() choices=(persona=all) endpoints=endpoints
for argument in "$@"; do
    case $argument in
        jobs=*) awaited+=("$argument") ;;
        servers=*) awaited+=("endpoints=${argument#*=}") ;;
        endpoints=*) awaited+=("folder=${argument#*=}") choices+=("$argument") endpoints=${argument#*=} ;;
        *) choices+=("$argument") ;;
    esac
done
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    choices+=("persona=$SLURM_ARRAY_TASK_ID")
fi

# End with the exit code of what ran; out of time or preempted, queue again.
finish() {
    if [ "$stopped" = USR1 ] && [ "$code" -eq 143 ]; then
        requeue
    fi
    exit "$code"
}

# serving.wait for the servers of this job. bash before 4.4 takes an empty list for an unset one.
servers() {
    set -- .venv/bin/python -m serving.wait "$@" ${awaited[@]+"${awaited[@]}"}
    exec "$@"
}

# Hold the interviews beside the servers; put the exit code into `code`.
hold() {
    start servers until=ready
    attend
    [ "$code" -eq 0 ] || finish

    found=$(starts)
    servers until=ended &
    watcher=$!
    start .venv/bin/python -m src.run "${choices[@]}"
    attend "$watcher"

    if [ -n "$running" ]; then  # a server's job has ended, and the watcher has shown its log
        kill -TERM "$running" 2>/dev/null || true
        sleep 1.2 &  # a TERM that follows at once counts as the first one
        attend $!
        [ -z "$running" ] || kill -TERM "$running" 2>/dev/null || true  # gives up what is under way
        attend
        [ "$code" -eq 0 ] && exit 0  # the last interview was over
        wait "$watcher" || exit $?
        exit 3
    fi
    kill "$watcher" 2>/dev/null || true
}

# What tells every start of every server from all others, and whether it is ready.
starts() {
    grep -hs -e '"start"' -e '"state"' "$endpoints"/*.json || true
}

# Whether a run lost a server and owes interviews. One that has enough of them ends with 0 all the
# same; said again, it needs no server unless it owes some.
lost_one() {
    local before=$code same=""
    [ "$(starts)" != "$found" ] || same=yes
    case $before$same in
        0 | 1 | 3 | 1yes | 3yes) ;;
        *) return 1 ;;
    esac
    start servers until=ready timeout=0.1 >/dev/null 2>&1
    attend
    if [ "$code" -eq 0 ]; then  # all are ready, some perhaps again
        code=$before
        [ -z "$same" ]
        return
    fi
    if [ "$code" -eq 3 ] && [ "$before" -eq 0 ]; then
        start .venv/bin/python -m src.run "${choices[@]}"
        attend
    fi
    [ "$code" -eq 1 ] || [ "$code" -eq 3 ]
}

hold
for ((again = 0; again < TACIT_REQUEUES; again++)); do
    lost_one || break
    echo "a server was lost: if its job is queued again, it is waited for"
    hold
done
finish
