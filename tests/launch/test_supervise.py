"""The life of servers, seen from outside: real processes that fail in the ways of real servers."""

import contextlib
import http.client
import json
import os
import re
import signal
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from launching import ask, command, endpoint, launcher, until

from serving import probe
from src.llm.endpoints import publish

GREETING = {"model": "gemma-model", "messages": [{"role": "user", "content": "Hello!"}]}


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
        lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in run.left()]
        assert len(lines) == 3
        assert not [line for line in lines if ready.key in line]
        run.process.terminate()
        code, out, err = run.ended()
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == "gemma: ended, on SIGTERM"
        ended = run.when("ended")
        assert (ended.key, ended.log) == ("", ready.log)
        assert not run.left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_server_ends_gracefully_while_it_starts(tmp_path: Path, number: signal.Signals) -> None:
    told = command("gemma", never_ready=True), command("personas")  # whose turn does not come
    with launcher(tmp_path, *told) as run:
        until(lambda: len(run.left()) == 2)
        run.process.send_signal(number)
        run.process.send_signal(number)
        code, out, err = run.ended()
        assert (code, err) == (0, "")
        assert out.endswith(f"gemma, personas: ended, on {number.name}\n")
        run.when("ended")
        run.when("ended", "personas")
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
    with launcher(tmp_path, told, grace=0.3) as run:
        ready, outcome = run.when("ready"), []

        def client() -> None:
            try:
                outcome.append(ask(ready, "/v1/chat/completions", post=GREETING))
            except (http.client.HTTPException, OSError) as error:
                outcome.append(type(error).__name__.encode())

        asking = threading.Thread(target=client)
        asking.start()
        until(lambda: "a request hangs" in Path(ready.log).read_text())
        run.process.terminate()
        code, out, _ = run.ended()
        asking.join(timeout=5)
        assert code == 0
        assert out.endswith("on SIGTERM; not in time, so killed: gemma\n")
        assert outcome in ([b"RemoteDisconnected"], [b"ConnectionResetError"])
        assert not run.left()


def test_a_start_that_takes_too_long_is_told_with_the_way_on(tmp_path: Path) -> None:
    told = command("gemma", never_ready=True, flags=("--tensor-parallel-size", "2"))
    with launcher(tmp_path, told, start_timeout=0.5) as run:
        code, _, err = run.ended()
        assert code == 3
        assert "gemma: not ready after 0.5 s (lifecycle.start_timeout)" in err
        assert "NCCL_DEBUG=INFO" in err
        assert not run.left()


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"promised": ["gemma-model", "other"]}, "it serves gemma-model, not gemma-model, other;"),
        ({"says_nothing": ["gemma-model"]}, "gemma-model answers nothing to a greeting"),
        (
            {"served": ["base", "persona-07"], "says_nothing": ["persona-07"]},
            "persona-07 answers nothing to a greeting",
        ),
    ],
)
def test_a_server_is_not_ready_before_it_answers_as_it_should(
    tmp_path: Path, plan: dict[str, Any], words: str
) -> None:
    with launcher(tmp_path, command("gemma", **plan)) as run:
        code, out, err = run.ended()
        assert code == 3
        assert words in err
        assert "gemma: ready" not in out
        run.when("ended")
        assert not run.left()


def test_of_two_servers_the_second_starts_after_the_first_and_both_end_with_one(
    tmp_path: Path,
) -> None:
    with launcher(tmp_path, command("gemma"), command("personas")) as run:
        assert run.when("starting", "personas")
        personas = run.when("ready", "personas")
        gemma = run.when("ready")
        assert gemma.port != personas.port
        assert gemma.key != personas.key
        assert gemma.changed < personas.changed
        with contextlib.suppress(http.client.HTTPException, OSError):
            ask(gemma, "/die")
        code, out, err = run.ended()
        assert code == 3
        assert out.index("gemma: ready") < out.index("personas: starting")
        assert "gemma: the server ended by itself" in err
        assert err.count("the server ended") == 1
        run.when("ended")
        run.when("ended", "personas")
        assert not run.left()


def test_servers_end_when_none_has_been_asked_for_long_enough(tmp_path: Path) -> None:
    told = command("gemma"), command("personas")
    with launcher(tmp_path, *told, idle_shutdown=1.0) as run:
        ready = run.when("ready", "personas")
        for _ in range(7):  # the other one is idle all the while
            ask(ready, "/v1/chat/completions", post=GREETING)
            time.sleep(0.2)
        assert run.process.poll() is None
        code, out, err = run.ended()
        assert (code, err) == (0, "")
        assert "ended, no request for 1 s (lifecycle.idle_shutdown)" in out
        assert not run.left()


def test_a_server_that_counts_nothing_is_never_idle(tmp_path: Path) -> None:
    with launcher(tmp_path, command("gemma", counts=False), idle_shutdown=0.1) as run:
        run.when("ready")
        time.sleep(0.3)
        assert run.process.poll() is None
        run.process.terminate()
        assert run.ended()[0] == 0


def test_below_nohup_a_hangup_changes_nothing(tmp_path: Path) -> None:
    with launcher(tmp_path, command("gemma"), below=("nohup",)) as run:
        run.when("ready")
        run.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        run.process.terminate()
        assert "gemma: ended, on SIGTERM" in run.ended()[1]


def test_a_start_whose_file_was_replaced_by_another_gives_way(tmp_path: Path) -> None:
    flag = tmp_path / "clashed"  # the first start of two ends, which leaves time in between
    with launcher(tmp_path, command("gemma", clash=str(flag))) as run:
        run.when("starting")
        publish(run.folder, endpoint())
        code, _, err = run.ended()
        assert code == 2
        assert "another start has replaced this file" in err
        found = run.endpoint()
        assert found is not None
        assert (found.start, found.state) == ("other", "ready")
        assert not run.left()


def test_a_port_that_was_taken_meanwhile_is_replaced_once(tmp_path: Path) -> None:
    with launcher(tmp_path, command("gemma", clash=str(tmp_path / "clashed"))) as run:
        run.when("ready")
        run.process.terminate()
        code, out, _ = run.ended()
        assert code == 0
        assert re.search(r"gemma: another program took port \d+; starting again", out)
        assert not run.left()


class Stranger(BaseHTTPRequestHandler):
    """Answers like a server that is ready, and keeps whatever key it is shown."""

    shown: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.shown.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_whoever_takes_the_port_first_is_shown_no_key(tmp_path: Path) -> None:
    port = tmp_path / "port"
    with launcher(tmp_path, command("gemma", slow=str(port))) as run:
        taken = int(until(lambda: port.read_text() if port.exists() else None))
        with ThreadingHTTPServer(("127.0.0.1", taken), Stranger) as stranger:
            threading.Thread(target=stranger.serve_forever).start()
            try:
                ready = run.when("ready")
            finally:
                stranger.shutdown()
        assert ready.port != taken
        assert Stranger.shown
        assert set(Stranger.shown) == {None}
        run.process.terminate()
        code, out, _ = run.ended()
        assert code == 0
        assert f"gemma: another program took port {taken}; starting again at another" in out
        assert not run.left()


def test_when_the_launcher_is_killed_its_servers_end(tmp_path: Path) -> None:
    told = command("gemma", child="session", ignores_term=True)
    with launcher(tmp_path, told, grace=0.3) as run:
        run.when("ready")
        assert len(run.left()) == 3
        run.process.kill()
        run.process.wait()
        until(lambda: not run.left())


def test_when_the_guard_is_killed_the_server_ends(tmp_path: Path) -> None:
    with launcher(tmp_path, command("gemma")) as run:
        run.when("ready")
        (guard,) = (pid for pid in run.left() if b"guard.py" in line_of(pid))
        os.kill(guard, signal.SIGKILL)
        code, _, err = run.ended(seconds=5)
        assert code == 3
        assert "gemma: the server " in err
        until(lambda: not run.left())


def line_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_second_start_of_a_server_that_is_there_is_refused(tmp_path: Path) -> None:
    publish(tmp_path / "endpoints", endpoint(pid=os.getpid()))
    with launcher(tmp_path, command("gemma")) as run:
        code, out, err = run.ended()
        assert (code, out) == (2, "")
        assert f"process {os.getpid()} serves this (ready); end it, or" in err
        found = run.endpoint()
        assert found is not None
        assert found.start == "other"


@pytest.mark.parametrize(
    "stale", [{"pid": 2**22 - 1}, {"changed": datetime(2020, 1, 1, tzinfo=UTC)}]
)
def test_the_file_of_a_server_that_is_gone_is_replaced(
    tmp_path: Path, stale: dict[str, object]
) -> None:
    folder = tmp_path / "endpoints"
    folder.mkdir()
    path = folder / "gemma.json"  # as it was written then, its time included
    path.write_text(endpoint(**stale).model_dump_json())
    with launcher(tmp_path, command("gemma", never_ready=True)) as run:
        until(lambda: (found := run.endpoint()) and found.start != "other")


def test_within_a_job_the_name_under_which_the_node_was_reached_is_published(
    tmp_path: Path,
) -> None:
    job = {"SLURM_JOB_ID": "42", "SLURMD_NODENAME": "localhost"}
    with launcher(tmp_path, command("gemma"), environment=job) as run:
        ready = run.when("ready")
        assert (ready.job, ready.host) == ("42", "localhost")
        assert Path(ready.log).name == "gemma-42.log"
        assert b"gemma-model" in ask(ready, "/v1/models")
        run.process.terminate()
        assert run.ended()[0] == 0


def test_link_local_and_unknown_names_are_no_candidates() -> None:
    here = probe.candidates({"SLURMD_NODENAME": "no-such-node"}, listening=probe.EVERYWHERE)
    assert "no-such-node" not in here
    assert probe.candidates({}, listening="127.0.0.1") == ("127.0.0.1",)
    mixed = ["fe80::1%eth0", "169.254.7.7", "127.0.1.1", "192.0.2.7"]
    assert probe.useful(mixed, loopback=False) == ["192.0.2.7"]
    assert probe.useful(["fe80::1"]) == []
