"""The life of servers, seen from outside: real processes that fail in the ways of real servers."""

import contextlib
import http.client
import json
import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from launching import ask, command, launcher, until

from src.llm.endpoints import Endpoint

GREETING = {"model": "gemma-model", "messages": [{"role": "user", "content": "Hello!"}]}


def endpoint(**changed: object) -> Endpoint:
    usual: dict[str, object] = {
        "name": "gemma", "state": "ready", "host": "127.0.0.1", "port": 1, "key": "k", "job": None,
        "pid": os.getpid(), "start": "other", "identity": "abc", "served": ("gemma-model",),
        "log": "/dev/null", "changed": datetime.now(UTC),
    }  # fmt: skip
    return Endpoint.model_validate(usual | changed)


def test_a_server_starts_is_ready_and_ends_as_its_file_says(tmp_path: Path) -> None:
    served = ["gemma-model", "persona-07-00000007"]
    with launcher(tmp_path, command("gemma", served=served, child="group")) as run:
        starting = run.when("starting")
        assert (starting.host, starting.key, starting.pid) == ("", "", run.process.pid)
        ready = run.when("ready")
        assert ready.served == tuple(served)
        assert len(ready.key) > 40
        assert (ready.start, ready.log) == (starting.start, starting.log)
        assert Path(ready.log) == tmp_path / "logs" / f"gemma-{ready.start}.log"
        seen = json.loads(ask(ready, "/environment"))
        assert "VLLM_PORT" not in seen
        assert (seen["OWN"], seen["VLLM_API_KEY"]) == ("given", ready.key)
        run.process.terminate()
        code, out, err = run.ended()
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == "gemma: ended, on SIGTERM"
        ended = run.when("ended")
        assert (ended.key, ended.log) == ("", ready.log)
        assert not run.left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_server_ends_gracefully_while_it_starts(tmp_path: Path, number: signal.Signals) -> None:
    with launcher(tmp_path, command("gemma", never_ready=True)) as run:
        until(lambda: len(run.left()) == 2)
        run.process.send_signal(number)
        run.process.send_signal(number)
        code, out, err = run.ended()
        assert (code, err) == (0, "")
        assert f"ended, on {number.name}" in out
        run.when("ended")
        assert not run.left()


def test_of_a_server_that_dies_at_its_start_the_last_lines_are_shown(tmp_path: Path) -> None:
    with launcher(tmp_path, command("gemma", dies_at_start=True, writes=60)) as run:
        code, _, err = run.ended()
        assert code == 3
        assert err.splitlines()[:-1] == [f"line {n}" for n in range(11, 61)]
        assert "gemma: the server ended by itself with exit code 4; its log: " in err
        run.when("ended")
        assert not run.left()


@pytest.mark.parametrize("child", ["group", "session"])
def test_a_server_that_dies_ends_the_launcher_at_once_and_leaves_no_orphan(
    tmp_path: Path, child: str
) -> None:
    with launcher(tmp_path, command("gemma", child=child, ignores_term=True)) as run:
        ready = run.when("ready")
        with contextlib.suppress(http.client.HTTPException, OSError):
            ask(ready, "/die")
        code, _, err = run.ended(seconds=5)
        assert code == 3
        assert "exit code 7" in err
        run.when("ended")
        assert not run.left()


def test_requests_that_hang_end_with_the_grace(tmp_path: Path) -> None:
    told = command("gemma", ignores_term=True, child="group", hangs_after=1)
    with launcher(tmp_path, told, grace=0.5) as run:
        ready, outcome = run.when("ready"), []

        def client() -> None:
            try:
                outcome.append(ask(ready, "/v1/chat/completions", post=GREETING))
            except (http.client.HTTPException, OSError) as error:
                outcome.append(type(error).__name__.encode())

        asking = threading.Thread(target=client)
        asking.start()
        time.sleep(0.1)
        run.process.terminate()
        code, out, _ = run.ended(seconds=5)
        asking.join(timeout=5)
        assert code == 0
        assert out.endswith("on SIGTERM; not in time, so killed: gemma\n")
        assert outcome in ([b"RemoteDisconnected"], [b"ConnectionResetError"])
        assert not run.left()


def test_a_start_that_takes_too_long_is_told_with_the_way_to_find_out(tmp_path: Path) -> None:
    told = command("gemma", never_ready=True)
    told["argv"][1:1] = ["-X", "dev=0"]
    with launcher(tmp_path, told, start_timeout=1.0) as run:
        code, _, err = run.ended()
        assert code == 3
        assert "not ready after 1 s (lifecycle.start_timeout); its log" in err
        assert not run.left()
