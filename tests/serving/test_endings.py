"""A server that ends amid interviews: they fail by kind, and go on with the next server."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import until
from model_runs import endings, result, turns
from real_server import RealServer, Running, tacit_within
from terminal import ROOT, program, variables

SUBJECTS = ("persona-07", "persona-08")
SAMPLES = 2
TALK = (
    *("models=smollm2", "privacy=local", "persona=[7,8]", f"samples={SAMPLES}", "run=talk"),
    *("orchestrator.max_messages=6", "tree.turns_max=1", "scorer=lexical"),
    *("interviewer.models=[smollm2]", "interviewer.call.top_k=-1"),
    *("interviewer.call.max_tokens=64", "interviewer.call.timeout=120"),
    *("patient.models=[smollm2]", "patient.stop_token_ids=[2]"),
    *("patient.call.max_tokens=64", "patient.call.timeout=120", "models.smollm2.restart_wait=5"),
    "models.smollm2.retry={tries: 2, first_wait: 0.1, longest_wait: 1}",
    "preflight.truncated_max=1",
)
"""As experiment=cpu has it, but for a scorer without a model, and in a hurry to give up."""
PROOFS = "compared: How are you?\nreplies: [How are you?]\n"
"""Each server that is started has to be proved anew; the whole is another test's."""
NOTICED = 60.0
"""Seconds in which a run must notice that its server is gone for good."""
HELD = 300.0
LONG = 40
"""Tokens of an answer that is under way when the server is told to end."""


class Talk:
    """A run of interviews that are cut off and go on."""

    def __init__(self, server: RealServer, folder: Path) -> None:
        self.folder = folder / "talk"
        samples = folder / "preflight.yaml"
        samples.write_text(PROOFS, encoding="utf-8")
        own = (f"endpoints={server.endpoints}", f"preflight.samples={samples}")
        self.told = (*TALK, *own, f"outputs={folder}")
        self._run: subprocess.Popen[str] | None = None

    def start_until(self, *, turns: int) -> "subprocess.Popen[str]":
        """Start the run and return once so many turns are on disk."""
        self._run = subprocess.Popen(
            [*program("src.run"), *self.told], cwd=ROOT, env=variables(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

        def there() -> bool:
            assert self._run is not None
            assert self._run.poll() is None, self._run.communicate()
            return len(self.turns()) >= turns

        until(there, seconds=HELD)
        return self._run

    def close(self) -> None:
        """End the run where a failed test has left it."""
        if self._run is not None:
            self._run.kill()
            self._run.communicate()

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
def talk(server: RealServer, tmp_path: Path) -> Iterator[Talk]:
    if isinstance(server, Running):
        pytest.skip("the server was started by somebody else, who also ends it")
    talk = Talk(server, tmp_path)
    yield talk
    talk.close()


def test_a_server_that_is_told_to_end_answers_what_is_under_way_and_the_run_goes_on_with_the_next(
    talk: Talk, server: RealServer
) -> None:
    before = server.endpoint
    run = talk.start_until(turns=3)
    with server.streaming(long_request()) as parts:
        next(parts)
        server.send(signal.SIGTERM)
        *_, last = parts
    assert last["choices"][0]["finish_reason"] == "length"
    assert server.ended() == 0, server.printed
    assert "not in time" not in server.printed
    _cut_off(run, talk)
    assert server.processes == {}
    kept = talk.turns()
    server.start()
    after = server.endpoint
    assert before.port != after.port
    assert before.key != after.key
    _goes_on(talk, kept)


def test_a_server_that_is_killed_leaves_no_process_and_the_run_goes_on_with_the_next(
    talk: Talk, server: RealServer
) -> None:
    run = talk.start_until(turns=3)
    os.kill(server.api_process, signal.SIGKILL)
    assert server.ended() == 3
    assert "was ended by SIGKILL" in server.printed
    _cut_off(run, talk)
    assert server.processes == {}
    assert server.endpoint.state == "ended"
    kept = talk.turns()
    server.start()
    _goes_on(talk, kept)


def long_request() -> dict[str, Any]:
    hello = [{"role": "user", "content": "Tell me a long story."}]
    return {"model": "smollm2", "messages": hello, "max_tokens": LONG, "ignore_eos": True}


def _cut_off(run: "subprocess.Popen[str]", talk: Talk) -> None:
    """Expect a run to end by itself, soon, with nothing but failures that the next one mends."""
    out, errors = run.communicate(timeout=NOTICED)
    assert run.returncode in {1, 3}, f"{out}{errors}"
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    for failure in talk.failures():
        assert failure["transport"], failure
        assert "transport_failed" in f"{failure['kind']} {failure['text']}"


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
