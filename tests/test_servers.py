"""Which servers a run needs, which model plays, and who may see text: settled before anything."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_plan import Fault, FaultKind, Plan, adapter, served
from fake_process import ServerProcess, fake_process
from model_runs import (
    ENVIRONMENT,
    KEY,
    NO_SIGNALS,
    at,
    chats,
    manifest,
    result,
    run,
    tagged,
)
from terminal import tacit

from src.errors import TacitError
from src.run import run as command

GEMMA, NANO = served("google/gemma-3-27b-it"), served("gpt-5-nano")
LUNAS = (served("gpt-5.6-luna"), served("gpt-6-luna"))
FEWER = Plan(models=(GEMMA, *LUNAS, *(served(adapter(n)) for n in (1, 2, 3, 7))))
DOUBLED = Plan(
    models=(GEMMA, NANO, served("persona-07-0a1b2c3d"), served("persona-07-4e5f6a7b")),
)
SHORT = ("samples=3", "orchestrator.max_messages=2", NO_SIGNALS)
REMOTE = "models.persona.base_url=http://gpu.example:8001/v1"


class Servers(NamedTuple):
    every: ServerProcess
    fewer: ServerProcess
    """Lists no GPT-5-nano and four adapters."""
    doubled: ServerProcess
    """Lists GPT-5-nano alone of the paid models, and two adapters of one persona."""
    locked: ServerProcess
    """Takes no key but its own."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with (
        fake_process() as every,
        fake_process(FEWER) as fewer,
        fake_process(DOUBLED) as doubled,
        fake_process(Plan(key="another")) as locked,
    ):
        yield Servers(every, fewer, doubled, locked)


def closed_port() -> str:
    """Return an address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def refused_commands(servers: Servers) -> dict[str, tuple[str, list[str]]]:
    """Return by what is wrong: the server, and the rest of the command."""
    every = servers.every.url
    return {
        "key refused": (every, [f"models.gpt5nano.base_url={servers.locked.url}"]),
        "model not listed": (servers.fewer.url, ["scorer=gpt5nano"]),
        "adapter not listed": (servers.fewer.url, ["persona=9"]),
        "two adapters": (servers.doubled.url, []),
        "remote host": (every, ["privacy=local", REMOTE]),
        "paid model in local": (every, ["experiment=local", "scorer=gpt", *paid("api.example")]),
        "remote host named": (every, ["privacy=local", "local_hosts=[gpu.example]", REMOTE]),
    }


def paid(host: str) -> list[str]:
    models = ("gpt5nano", "gpt56luna", "gpt6luna")
    return [f"models.{model}.base_url=https://{host}/v1" for model in models]


REFUSALS = {
    "key refused": (3, "401"),
    "model not listed": (3, "no server lists gpt-5-nano"),
    "adapter not listed": (3, "persona-09: no adapter of it is served; served are: persona-01"),
    "two adapters": (3, "two adapters are served, persona-07-0a1b2c3d and persona-07-4e5f6a7b"),
    "remote host": (2, "local_hosts=[gpu.example]"),
    "paid model in local": (2, "set privacy=remote"),
    "remote host named": (3, "http://gpu.example:8001/v1"),  # allowed, and not there
}


@pytest.mark.parametrize("why", REFUSALS)
def test_what_is_not_right_is_one_line_before_anything_is_written(
    why: str,
    servers: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    url, more = refused_commands(servers)[why]
    usual = ["experiment=hybrid", NO_SIGNALS, *at(url), f"outputs={tmp_path / 'outputs'}"]
    code, hint = REFUSALS[why]
    with pytest.raises(TacitError) as refused:
        command([*usual, *more])
    assert refused.value.exit_code == code
    assert hint in str(refused.value)
    assert KEY not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("key", "hint"), [(ENVIRONMENT, "connect"), ({}, "no OPENAI_API_KEY is set")]
)
def test_without_server_or_key_a_run_says_the_ways_on_within_5_seconds(
    key: dict[str, str], hint: str, tmp_path: Path
) -> None:
    began = time.monotonic()
    found = tacit("src.run", *at(closed_port()), f"outputs={tmp_path / 'o'}", environment=key)
    assert time.monotonic() - began < 5
    assert (found.returncode, found.stdout) == (3, "")
    assert found.stderr.count("\n") == 1
    for way in (hint, "start the servers", "scorer=lexical", "experiment=offline"):
        assert way in found.stderr
    assert not (tmp_path / "o").exists()


def test_the_first_listed_model_is_chosen_and_stays(servers: Servers, tmp_path: Path) -> None:
    folder = tmp_path / "baseline" / "persona-07"
    arguments = ("experiment=baseline", *SHORT)
    first = run(servers.fewer.url, tmp_path, *arguments)
    assert first.returncode == 0, first.stderr
    assert "interviewer gpt-5.6-luna" in first.stdout.splitlines()[1]
    assert "scorer gpt-5.6-luna" in first.stdout.splitlines()[1]
    held = manifest(folder)
    assert held["models"] == {
        "interviewer": "gpt56luna", "patient": "persona", "scorer": "gpt56luna",
    }  # fmt: skip
    assert held["served"]["patient"] == adapter(7)
    assert held["identity"]["scorer.model"] == "gpt-5.6-luna"

    more = run(servers.every.url, tmp_path, *arguments, "samples=4")  # lists GPT-5-nano too
    assert more.returncode == 0, more.stderr
    asked = {line["call"]["asked"] for line in tagged(folder, "call")}
    assert asked == {"gpt-5.6-luna", adapter(7)}
    sent = {entry["model"] for entry in chats(servers.every, "persona-07")}
    assert sent == asked

    before = (folder / "journal.jsonl").read_bytes()
    gone = run(servers.doubled.url, tmp_path, *arguments, "samples=5")
    assert gone.returncode == 3
    assert "gpt-5.6-luna" in gone.stderr
    assert "run=NAME" in gone.stderr
    assert (folder / "journal.jsonl").read_bytes() == before


def test_all_means_every_served_adapter_and_names_the_missing(
    servers: Servers, tmp_path: Path
) -> None:
    found = run(servers.fewer.url, tmp_path, "experiment=hybrid", "persona=all", *SHORT)
    assert found.returncode == 0, found.stderr
    there = [f"persona-{n:02d}" for n in (1, 2, 3, 7)]
    assert sorted(path.name for path in (tmp_path / "hybrid").iterdir()) == there
    (told,) = [line for line in found.stdout.splitlines() if line.startswith("not there:")]
    assert told.count("persona-") == 16
    assert not [name for name in there if name in told]


def test_hosts_stand_in_the_first_line_the_manifest_and_the_result(
    servers: Servers, tmp_path: Path
) -> None:
    """A local run needs no key, and asks no server but those that it names."""
    seen = len(servers.locked.log())
    elsewhere = [
        f"models.persona.base_url={servers.fewer.url}",
        f"models.gpt5nano.base_url={servers.locked.url}",
    ]
    arguments = (*at(servers.every.url), *elsewhere, "experiment=local", *SHORT)
    found = tacit("src.run", *arguments, f"outputs={tmp_path}")
    assert found.returncode == 0, found.stderr
    hosts = [s.url.removeprefix("http://").removesuffix("/v1") for s in servers[:2]]
    assert found.stdout.splitlines()[0] == f"Text of the conversations goes to {', '.join(hosts)}."
    folder = tmp_path / "local" / "persona-07"
    assert manifest(folder)["hosts"] == result(folder)["hosts"] == hosts
    assert len(servers.locked.log()) == seen


@pytest.mark.parametrize(
    ("kind", "module"), [("prose", "src.run"), ("bad_request", "src.run"), ("prose", "src.score")]
)
def test_a_local_server_that_does_not_prove_its_schemas_is_refused(
    kind: FaultKind, module: str, tmp_path: Path
) -> None:
    out = tmp_path / "outputs"
    canary = Fault(kind=kind, role="canary")
    with fake_process(Plan(faults=(canary,))) as server:
        own = {
            "src.run": ("experiment=local", f"outputs={out}", *SHORT),
            "src.score": ("tests/examples/interactions_run1.json", "scorer=gemma"),
        }
        ended = tacit(module, *own[module], *at(server.url), environment=ENVIRONMENT)
        asked = {entry["role"] for entry in server.log()} - {""}
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "scorer=lexical" in ended.stderr
    assert asked == {"canary"}
    assert not out.exists()
