"""Waiting for servers: with a process that can be seen, and with a queue that can be asked."""

import http.client
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from launching import ask, command, endpoint, launcher

from serving.jobs import Life, life_of
from serving.wait import CLEARS_WITHIN, PATIENCE, WaitSettings, Watch, wait
from src import config
from src.errors import InputError, ServerError
from src.llm.endpoints import Endpoint, publish

SQUEUE = """#!/bin/sh
[ "$1 $2 $4 $5" = "-h -j -o %T" ] || [ "$1" = --version ] || exit 9
state=$(cat {folder}/$3 2>/dev/null) || {{
    echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }}
[ "$state" = DOWN ] && {{ echo 'Unable to contact slurm controller' >&2; exit 1; }}
[ -z "$state" ] || echo "$state"
"""
SCONTROL = """#!/bin/sh
[ "$1 $2 $3" = "show job -o" ] || exit 9
echo "JobId=$4 JobName=serve StdErr={folder}/none StdIn=/dev/null StdOut={folder}/job $4.out Power="
"""
GONE = 2**22 - 1
"""A process id that no Linux gives."""


class Queue:
    """A Slurm of two programs: what `squeue` says of a job is what was said here last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in {"squeue": SQUEUE, "scontrol": SCONTROL}.items():
            (folder / name).write_text(text.format(folder=folder))
            (folder / name).chmod(0o700)

    def says(self, job: str, state: str) -> None:
        (self.folder / job).write_text(state)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return made


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def told(folder: Path, *more: str) -> list[str]:
    return ["endpoints=[gemma]", f"folder={folder}", "poll=0.02", "timeout=5", *more]


def watching(folder: Path, *more: str) -> tuple[Watch, Clock]:
    settings = config.read_settings("wait", WaitSettings, told(folder, *more))
    clock = Clock()
    return Watch(settings, clock=clock), clock


def written(folder: Path, **changed: Any) -> Endpoint:
    publish(folder, made := endpoint(**changed))
    return made


def test_it_returns_once_every_server_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with launcher(tmp_path, command("gemma"), command("personas")) as run:
        wait(["endpoints=[gemma,personas]", f"folder={run.folder}", "poll=0.02", "timeout=10"])
        lines = capsys.readouterr().out.splitlines()
        gemma, personas = run.when("ready"), run.when("ready", "personas")
        assert lines[0].startswith("gemma: no file ")
        assert gemma.node == socket.gethostname()
        places = f"{gemma.host}:{gemma.port}", f"{personas.host}:{personas.port}"
        assert lines[-1] == f"gemma: ready at {places[0]}; personas: ready at {places[1]}"
        assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("how", ["server", "launcher"])
def test_beside_a_driver_it_ends_soon_after_the_server_has(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with launcher(tmp_path, command("gemma", writes=60)) as run:
        ready, died = run.when("ready"), []

        def end() -> None:
            time.sleep(0.1)
            if how == "launcher":
                run.process.kill()
                run.process.wait()
            else:
                with suppress(http.client.HTTPException, OSError):
                    ask(ready, "/die")
            died.append(time.monotonic())

        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(ServerError, match=r"^gemma: the server has ended; its log: /") as error:
            wait(told(run.folder, "until=ended"))
        ending.join()
        assert error.value.exit_code == 3
        assert time.monotonic() - died[0] < 5
        assert capsys.readouterr().err.splitlines() == [f"line {n}" for n in range(11, 61)]


def test_what_says_it_is_ready_and_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(ServerError, match=r"waited for 0.1 s; gemma: does not answer at 127"):
        wait(told(tmp_path, "timeout=0.1"))


def test_what_says_it_is_ready_and_cannot_be_reached_is_not_waited_for_for_ever(
    tmp_path: Path,
) -> None:
    written(tmp_path)
    watch, clock = watching(tmp_path, "unreachable=60")
    assert "does not answer" in watch.sight("gemma").text
    clock.now += 59
    assert "does not answer" in watch.sight("gemma").text
    clock.now += 1
    with pytest.raises(ServerError, match=r"not answered .* for 60 s: .*refused.*lifecycle\.host="):
        watch.sight("gemma")


def test_a_server_that_is_started_again_has_its_time_anew(tmp_path: Path) -> None:
    watch, clock = watching(tmp_path, "unreachable=60")
    for state, start in (("ready", "1"), ("starting", "1"), ("ready", "1"), ("ready", "2")):
        written(tmp_path, state=state, start=start)
        watch.sight("gemma")
        clock.now += 59
    with pytest.raises(ServerError, match="not answered"):
        clock.now += 1
        watch.sight("gemma")


def test_a_server_that_refuses_the_key_is_another_one_and_not_waited_for(tmp_path: Path) -> None:
    with launcher(tmp_path, command("gemma")) as run:
        publish(run.folder, run.when("ready").model_copy(update={"key": "another"}))
        with pytest.raises(ServerError, match=r"gemma\.json: .* refuses the key: another server"):
            wait(told(run.folder))


@pytest.mark.parametrize("gone", [{"state": "ended", "key": ""}, {"pid": GONE}])
def test_a_server_that_has_ended_before_is_not_waited_for(
    tmp_path: Path, gone: dict[str, object]
) -> None:
    written(tmp_path, **gone)
    with pytest.raises(ServerError, match="has ended"):
        wait(told(tmp_path))


def test_a_process_that_took_over_the_number_of_another_is_not_that_one(tmp_path: Path) -> None:
    old = endpoint(changed=datetime(2020, 1, 1, tzinfo=UTC))
    (tmp_path / "gemma.json").write_text(old.model_dump_json())
    with pytest.raises(ServerError, match="has ended"):
        wait(told(tmp_path))


@pytest.mark.parametrize("state", ["", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"])
def test_with_a_job_the_queue_says_whether_a_server_is_there(
    tmp_path: Path, queue: Queue, state: str
) -> None:
    written(tmp_path, job="12", pid=GONE)
    watch, clock = watching(tmp_path, "until=ended")
    queue.says("12", "RUNNING")
    assert watch.sight("gemma").ready
    queue.says("12", "DOWN")  # Slurm's controller does not answer: nothing is known
    clock.now += 5
    assert watch.sight("gemma").ready
    queue.says("12", state)
    clock.now += 5
    assert watch.sight("gemma").ended == Path("/dev/null")


def test_a_job_that_nobody_knows_any_more_has_ended(tmp_path: Path, queue: Queue) -> None:
    written(tmp_path, job="13")
    watch, _ = watching(tmp_path)
    assert watch.sight("gemma").ended


@pytest.mark.parametrize("state", ["ready", "ended"])
def test_a_job_that_is_queued_again_is_waited_for_until_its_next_start_writes(
    tmp_path: Path, queue: Queue, state: str
) -> None:
    written(tmp_path, job="12", state=state)
    watch, clock = watching(tmp_path, "until=ended")
    for said in ("COMPLETING", "COMPLETING", "PENDING", "RUNNING", "RUNNING"):
        queue.says("12", said)
        clock.now += 20  # an epilog takes its time
        assert not watch.sight("gemma").ended, said
    assert watch.sight("gemma").text == "job 12 is queued again"
    written(tmp_path, job="12", start="next")
    assert watch.sight("gemma").ready


def test_a_server_that_ended_within_a_job_that_goes_on_has_ended_after_a_while(
    tmp_path: Path, queue: Queue
) -> None:
    written(tmp_path, job="12", state="ended")
    watch, clock = watching(tmp_path)
    queue.says("12", "RUNNING")
    assert not watch.sight("gemma").ended
    clock.now += PATIENCE
    assert watch.sight("gemma").ended


def test_a_job_that_runs_after_its_node_was_cleared_was_queued_again_between_two_looks(
    tmp_path: Path, queue: Queue
) -> None:
    written(tmp_path, job="12", state="ended")
    watch, clock = watching(tmp_path)
    for said in ("COMPLETING", "RUNNING", "RUNNING"):
        queue.says("12", said)
        clock.now += 20
        assert not watch.sight("gemma").ended, said
    assert watch.sight("gemma").text == "job 12 is queued again"


@pytest.mark.parametrize(("then", "after"), [("CANCELLED", 2), ("COMPLETING", CLEARS_WITHIN)])
def test_while_a_node_is_cleared_the_end_of_its_server_is_not_final(
    tmp_path: Path, queue: Queue, then: str, after: float
) -> None:
    written(tmp_path, job="12", state="ended")
    watch, clock = watching(tmp_path)
    queue.says("12", "COMPLETING")
    assert not watch.sight("gemma").ended
    queue.says("12", then)
    clock.now += after
    assert watch.sight("gemma").ended


@pytest.mark.parametrize(
    ("job", "nodes", "life"),
    [("12", "1", Life.GONE), ("12", "2", Life.UNKNOWN), (None, "1", Life.UNKNOWN)],
)
def test_a_process_id_of_another_node_says_nothing_but_that_a_job_of_one_node_left_it(
    monkeypatch: pytest.MonkeyPatch, job: str | None, nodes: str, life: Life
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", nodes)
    elsewhere = endpoint(job=job, pid=1, node="node-a", host="127.0.0.1")
    assert life_of(elsewhere) is life
    assert life_of(elsewhere.model_copy(update={"node": socket.gethostname()})) is Life.RUNNING


def test_the_file_of_an_older_job_counts_as_not_there(tmp_path: Path, queue: Queue) -> None:
    written(tmp_path, job="11")
    watch, clock = watching(tmp_path, "jobs=[12]")
    queue.says("12", "PENDING")
    assert "no file" in watch.sight("gemma").text
    assert watch.ended_job() is None
    queue.says("12", "RUNNING")
    clock.now += 5
    written(tmp_path, job="12", start="new", state="starting")
    assert watch.sight("gemma").text.startswith("starting")


def test_of_a_job_that_ended_before_it_wrote_a_file_its_own_output_is_shown(
    tmp_path: Path, queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.says("12", "")
    (queue.folder / "job 12.out").write_text("".join(f"line {n}\n" for n in range(1, 61)))
    with pytest.raises(ServerError, match=r"job 12 has ended; its log: /.*/job 12\.out"):
        wait(told(tmp_path, "jobs=[12]"))
    assert capsys.readouterr().err.splitlines() == [f"line {n}" for n in range(11, 61)]


def test_where_there_is_no_queue_its_jobs_cannot_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="squeue is not installed here"):
        wait(told(tmp_path, "jobs=[12]"))


@pytest.mark.parametrize("wrong", ["jobs=[-1]", "jobs=[gemma]", "endpoints=[]", "until=later"])
def test_what_it_is_told_wrongly_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong.partition("=")[0]):
        wait(told(tmp_path, wrong))
