"""What is proved of a server before a run relies on it, once for each of its starts."""

import asyncio
import json
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_plan import Fault, Plan, Served, adapter, served
from fake_process import ServerProcess, fake_process
from model_runs import NO_SIGNALS

from serving.preflight import preflight
from src.errors import InputError, ServerError
from src.llm.endpoints import Endpoint, endpoint_path, publish, read_endpoint
from src.llm.proofs import Check, Proofs, prove
from src.llm.servers import door_of, refuse_remote
from src.run import run
from src.settings import ModelSettings

GEMMA, LLAMA = served("google/gemma-3-27b-it"), served("meta-llama/Meta-Llama-3-8B-Instruct")
KEY = "the-servers-own-key"
PLAN = Plan(key=KEY, models=(GEMMA, LLAMA, *(served(adapter(n)) for n in (7, 8))))
LOCAL = ("experiment=local", "samples=1", "orchestrator.max_messages=2", NO_SIGNALS)
KINDS = ("cache", "canary", "compare", "ending", "reply")


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with fake_process(PLAN) as running:
        yield running


def told(url: str, folder: Path, start: str = "one", **changes: object) -> list[str]:
    """Write endpoint files of both servers; return the arguments that find them."""
    port = int(url.removesuffix("/v1").rpartition(":")[2])
    usual = {
        "state": "ready", "host": "127.0.0.1", "port": port, "key": KEY, "job": "12", "pid": 1,
        "start": start, "identity": "abc", "log": "server.log", "changed": datetime.now(UTC),
        "served": tuple(model.name for model in PLAN.models),
    }  # fmt: skip
    for name in ("gemma", "personas"):
        publish(folder, Endpoint.model_validate(usual | {"name": name} | changes))
    return [f"endpoints={folder}"]


def twin_of(name: str) -> Plan:
    """Return a server whose second adapter has another model's weights."""
    return PLAN.model_copy(
        update={"models": (GEMMA, LLAMA, served(adapter(7)), served(adapter(8), weights=name))}
    )


def asked(server: ServerProcess) -> dict[str, int]:
    """Return how often each check was asked."""
    kinds = [entry["role"] for entry in server.log() if entry["subject"] == "preflight"]
    return {kind: kinds.count(kind) for kind in KINDS}


def test_a_run_finds_its_servers_by_their_endpoint_files_and_proves_them_once(
    server: ServerProcess, tmp_path: Path
) -> None:
    found = [*told(server.url, tmp_path / "endpoints"), f"outputs={tmp_path}"]
    run([*LOCAL, *found, "persona=7"])
    assert asked(server) == {"cache": 4, "canary": 1, "compare": 4, "ending": 5, "reply": 1}
    run([*LOCAL, *found, "persona=7", "run=again"])
    assert asked(server) == {"cache": 4, "canary": 1, "compare": 4, "ending": 5, "reply": 1}
    told(server.url, tmp_path / "endpoints", start="two")
    run([*LOCAL, *found, "persona=[7,8]", "run=third"])
    assert asked(server) == {"cache": 8, "canary": 2, "compare": 8, "ending": 15, "reply": 2}
    written = b"".join(f.read_bytes() for f in (tmp_path / "local").rglob("*") if f.is_file())
    assert KEY.encode() not in written


def test_the_manifest_keeps_a_hash_of_a_personas_prompt_as_its_server_renders_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    (tmp_path / "system.md").write_text("Be somebody.", encoding="utf-8")
    found = [*told(server.url, tmp_path / "endpoints"), f"outputs={tmp_path}", "persona=7"]
    system = f"patient.system_prompt={tmp_path / 'system.md'}"
    kept = []
    for more in (["run=a"], ["run=b"], ["run=c", system]):
        run([*LOCAL, *found, *more])
        manifest = tmp_path / more[0].removeprefix("run=") / "persona-07" / "manifest.json"
        kept.append(json.loads(manifest.read_text(encoding="utf-8"))["rendered"])
    assert len(kept[0]) == 64
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize(
    ("changes", "hint"),
    [({"state": "starting"}, "serving.wait endpoints=[gemma]"), ({"state": "ended"}, "server.log")],
)
def test_a_server_that_is_not_ready_is_one_line(
    changes: dict[str, object], hint: str, tmp_path: Path
) -> None:
    found = told("http://127.0.0.1:9/v1", tmp_path / "endpoints", "one", **changes)
    with pytest.raises(ServerError, match=r"job 12") as error:
        run([*LOCAL, *found, f"outputs={tmp_path / 'outputs'}"])
    assert hint in str(error.value)
    assert not (tmp_path / "outputs").exists()


def test_a_server_that_was_never_started_says_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"serving\.launch serving=gemma"):
        run([*LOCAL, f"endpoints={tmp_path}", f"outputs={tmp_path / 'outputs'}"])


def test_the_host_of_an_endpoint_file_counts_as_local(tmp_path: Path) -> None:
    told("http://127.0.0.1:9/v1", tmp_path, host="gpu17")
    settings = ModelSettings.model_validate(GEMMA_SETTINGS)
    assert door_of(settings, tmp_path).settings.base_url == "http://gpu17:9/v1"
    refuse_remote([settings], [])
    elsewhere = settings.model_copy(update={"base_url": "http://gpu17:8000/v1"})
    assert door_of(elsewhere, tmp_path).settings.base_url == "http://gpu17:8000/v1"
    with pytest.raises(InputError, match="gpu17"):
        refuse_remote([elsewhere], [])


GEMMA_SETTINGS = {
    "name": "gemma", "base_url": None, "endpoint": "gemma", "backend": "vllm", "key_env": None,
    "calls": 1, "context": 100, "accepts": (), "tools": "schema", "effort": None, "efforts": (),
    "rate": {"requests": None, "tokens": None, "seconds": 1.0},
    "retry": {"tries": 1, "first_wait": 0.0, "longest_wait": 1.0},
    "restart_wait": 0.0, "kv_bytes_per_token": None,
}  # fmt: skip


def test_an_endpoint_file_is_its_owners_alone_and_is_replaced_whole(tmp_path: Path) -> None:
    told("http://127.0.0.1:9/v1", tmp_path)
    told("http://127.0.0.1:9/v1", tmp_path, host="::1")
    path = endpoint_path(tmp_path, "gemma")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(f.name for f in tmp_path.iterdir()) == ["gemma.json", "personas.json"]
    found = read_endpoint(tmp_path, "gemma")
    assert found
    assert found.base_url == "http://[::1]:9/v1"
    assert KEY not in repr(found)


@pytest.mark.parametrize("text", ["", "{", '{"name": "gemma"}', "[]"])
def test_a_broken_endpoint_file_is_one_line(text: str, tmp_path: Path) -> None:
    endpoint_path(tmp_path, "gemma").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"gemma\.json") as error:
        read_endpoint(tmp_path, "gemma")
    assert len(str(error.value).splitlines()) == 1


def small(model: Served) -> Served:
    return model.model_copy(update={"context": 5000})


FAULTS: dict[str, tuple[Plan, list[str], str]] = {
    "an adapter like another": (
        twin_of(adapter(7)), [], f"{adapter(8)}: answers exactly as {adapter(7)}"
    ),
    "an adapter like its base": (
        twin_of(LLAMA.name), [], f"{adapter(8)}: answers exactly as {LLAMA.name}"
    ),
    "replies without an end": (
        PLAN.model_copy(update={"faults": (Fault(kind="cut_off", role="ending", times=2),)}),
        [],
        "2 of 5 replies were cut off",
    ),
    "no schema": (
        PLAN.model_copy(update={"faults": (Fault(kind="prose", role="canary"),)}),
        [],
        "does not enforce JSON schemas",
    ),
    "nothing generated": (
        PLAN.model_copy(update={"faults": (Fault(kind="empty", role="reply"),)}),
        [],
        "generates nothing",
    ),
    "too small a window": (PLAN, ["models.persona.context=6000"], "a window of 6000 tokens"),
    "a smaller window than is configured": (
        PLAN.model_copy(update={"models": tuple(map(small, PLAN.models))}),
        [],
        "a window of 5000 tokens",
    ),
    "another key": (PLAN.model_copy(update={"key": "changed"}), [], "401"),
    "a persona missing": (PLAN, ["persona=[7,9]"], "persona-09: no adapter of it is served"),
    "another list": (
        PLAN.model_copy(update={"models": (*PLAN.models, served(adapter(3)))}),
        [],
        "start it again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", FAULTS)
def test_each_failure_is_one_line_of_the_preflight(
    why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, more, hint = FAULTS[why]
    with fake_process(plan) as server:
        found = told(server.url, tmp_path)
        with pytest.raises(ServerError, match="failed"):
            preflight(["experiment=local", "persona=[7,8]", *found, *more])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert any(hint in line for line in lines), lines


def test_a_preflight_asks_nothing_that_held_since_the_servers_start(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(server.url, tmp_path)
    preflight(["experiment=local", "persona=[7,8]", *found])
    first = asked(server)
    assert first == {"cache": 4, "canary": 1, "compare": 4, "ending": 10, "reply": 1}
    preflight(["experiment=local", "persona=[7,8]", *found])
    assert asked(server) == first
    assert "held before" in capsys.readouterr().out


def test_servers_without_an_endpoint_file_are_asked_the_canary_alone(
    server: ServerProcess, tmp_path: Path
) -> None:
    plan = PLAN.model_copy(update={"key": None})
    with fake_process(plan) as other:
        urls = [f"models.{model}.base_url={other.url}" for model in ("gemma", "persona")]
        run([*LOCAL, *urls, f"outputs={tmp_path}", "persona=7"])
        assert asked(other) == dict.fromkeys(KINDS, 0) | {"canary": 1}


def test_who_asks_for_the_checks_gets_them_all_of_servers_without_an_endpoint_file(
    tmp_path: Path,
) -> None:
    with fake_process(PLAN.model_copy(update={"key": None})) as other:
        urls = [f"models.{model}.base_url={other.url}" for model in ("gemma", "persona")]
        arguments = ["experiment=local", "persona=7", *urls, f"endpoints={tmp_path}"]
        preflight(arguments)
        once = asked(other)
        assert once == {"cache": 4, "canary": 1, "compare": 4, "ending": 5, "reply": 1}
        preflight(arguments)
        assert asked(other) == {kind: 2 * count for kind, count in once.items()}


def test_runs_that_begin_at_once_make_each_check_once(tmp_path: Path) -> None:
    told("http://127.0.0.1:9/v1", tmp_path)
    endpoint = read_endpoint(tmp_path, "gemma")
    made = []

    async def act() -> None:
        made.append(1)
        await asyncio.sleep(0.3)

    async def begin() -> None:
        check = Check(what="it answers", endpoint=endpoint, act=act)
        await asyncio.gather(*(prove([check], Proofs(tmp_path)) for _ in range(8)))

    asyncio.run(begin())
    assert made == [1]


def test_where_nothing_can_be_written_or_locked_checks_are_made_all_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "proofs").touch()  # no folder can be made here
    made = []

    async def act() -> None:
        made.append(1)

    told("http://127.0.0.1:9/v1", tmp_path)
    endpoint = read_endpoint(tmp_path, "gemma")
    check = Check(what="it answers", endpoint=endpoint, act=act)
    for _ in range(2):
        assert asyncio.run(prove([check], Proofs(tmp_path))) == []
    assert made == [1, 1]


def test_a_server_without_a_prefix_cache_is_a_warning_each_time_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_process(PLAN.model_copy(update={"caches": False})) as server:
        found = [*told(server.url, tmp_path / "endpoints"), "persona=7"]
        both = (preflight, ["experiment=local"]), (run, [*LOCAL, f"outputs={tmp_path}"])
        for command, arguments in both:
            command([*arguments, *found])
            shown = " ".join(capsys.readouterr().out.split())
            assert f"{GEMMA.name}: its server keeps no prefix cache" in shown
            assert f"{LLAMA.name}: its server keeps no prefix cache" in shown


def test_everything_that_a_run_may_need_is_listed(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(server.url, tmp_path)
    publish(tmp_path, gone := read_endpoint(tmp_path, "personas") or pytest.fail("no file"))
    publish(tmp_path, gone.model_copy(update={"state": "ended"}))
    preflight(["where=true", "python=no/such/python", f"adapters={tmp_path}", *found])
    told_lines = capsys.readouterr().out
    for part in (
        "no python in",
        "gemma: ready, job 12, answers at 127.0.0.1",
        "personas: ended, job 12, log server.log",
        "OPENAI_API_KEY",
        "needs consent",
    ):
        assert part in told_lines
    assert KEY not in told_lines
