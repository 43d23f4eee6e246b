"""A server that ends amid interviews: they fail by kind, and go on with the next server."""

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from launching import until
from model_runs import endings, result, turns
from real_server import GRACE, RealServer, Running, tacit_within
from terminal import ROOT, program, variables

SUBJECTS = ("persona-07", "persona-08")
SAMPLES = 4
TALK = (
    *("experiment=cpu", "persona=[7,8]", f"samples={SAMPLES}", "run=talk", "scorer=lexical"),
    *("orchestrator.max_messages=8", "models.smollm2.restart_wait=5"),
    "models.smollm2.retry={tries: 2, first_wait: 0.1, longest_wait: 1}",
)
NOTICED = 60.0
"""Seconds in which a run must notice that its server is gone for good."""
HELD = 300.0
LONG = 60
"""Tokens of an answer that is under way when the server is told to end."""


class Talk:
    """A run of interviews that are cut off and go on."""

    def __init__(self, server: RealServer, folder: Path) -> None:
        self.folder = folder / "talk"
        self.told = (*TALK, f"endpoints={server.endpoints}", f"outputs={folder}")

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*program("src.run"), *self.told], cwd=ROOT, env=variables(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self) -> "subprocess.CompletedProcess[str]":
        return tacit_within(HELD, "src.run", *self.told)

    def turns(self) -> list[tuple[str, int, int]]:
        """Return every turn on disk: subject, sample, number."""
        found = []
        for subject in SUBJECTS:
            if (self.folder / subject).exists():
                kept = turns(self.folder / subject)
                found += [(subject, turn["sample"], turn["number"]) for turn in kept]
        return found

    def failures(self) -> list[dict[str, Any]]:
        ended = [one for subject in SUBJECTS for one in endings(self.folder / subject).values()]
        return [one["failure"] for one in ended if one["failure"]]


@pytest.fixture
def talk(server: RealServer, tmp_path: Path) -> Talk:
    if isinstance(server, Running):
        pytest.skip("the server was started by somebody else, who also ends it")
    return Talk(server, tmp_path)


def test_a_server_that_is_told_to_end_answers_what_is_under_way_and_the_run_goes_on_with_the_next(
    talk: Talk, server: RealServer
) -> None:
    before = server.endpoint
    run = talk.start()
    until(lambda: len(talk.turns()) >= 3 or died(run), seconds=120)
    with ThreadPoolExecutor() as pool:
        long = pool.submit(server.chat, long_request())
        until(lambda: server.counters()["vllm:num_requests_running"] >= 1)
        time.sleep(0.5)
        began = time.monotonic()
        assert server.end(signal.SIGTERM) == 0, server.printed
        assert time.monotonic() - began < GRACE
        answer = long.result(timeout=5)
    assert answer["usage"]["completion_tokens"] == LONG
    assert "not in time" not in server.printed
    _cut_off(run, talk)
    assert server.processes == {}
    kept = talk.turns()
    server.start()
    after = server.endpoint
    assert (before.port, before.key, before.start) != (after.port, after.key, after.start)
    assert before.key != after.key
    _goes_on(talk, kept)


def test_a_server_that_is_killed_leaves_no_process_and_the_run_goes_on_with_the_next(
    talk: Talk, server: RealServer
) -> None:
    run = talk.start()
    until(lambda: len(talk.turns()) >= 3 or died(run), seconds=120)
    os.kill(server.api_process, signal.SIGKILL)
    assert server.ended() == 3
    assert "was ended by SIGKILL" in server.printed
    _cut_off(run, talk)
    assert server.processes == {}
    assert server.endpoint.state == "ended"
    kept = talk.turns()
    server.start()
    _goes_on(talk, kept)


def died(run: "subprocess.Popen[str]") -> bool:
    assert run.poll() is None, run.communicate()
    return False


def long_request() -> dict[str, Any]:
    hello = [{"role": "user", "content": "Tell me a long story."}]
    return {"model": "smollm2", "messages": hello, "max_tokens": LONG, "ignore_eos": True}


def _cut_off(run: "subprocess.Popen[str]", talk: Talk) -> None:
    """Expect a run to end by itself, soon, with nothing but failures that the next one mends."""
    out, errors = run.communicate(timeout=NOTICED)
    assert run.returncode in {1, 3}, f"{out}{errors}"
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert all(f["transport"] and f["kind"] == "transport_failed" for f in talk.failures())


def _goes_on(talk: Talk, kept: list[tuple[str, int, int]]) -> None:
    """Expect the same command to finish, and to repeat none of the turns that were kept."""
    done = talk.finish()
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    every = talk.turns()
    assert len(every) == len({*every})
    assert {*kept} < {*every}
    assert talk.failures() == []
    for subject in SUBJECTS:
        assert result(talk.folder / subject)["n_valid"] == SAMPLES
