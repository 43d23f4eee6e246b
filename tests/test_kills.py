"""A run with models that is killed again and again, or asked to stop, and what it cost."""

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_plan import Fault, Plan
from fake_process import ServerProcess, fake_process
from model_runs import (
    NO_SIGNALS,
    Ended,
    Lines,
    bodies,
    chats,
    ended,
    endings,
    journal,
    labels,
    result,
    run,
    start,
    tagged,
    turns,
)

PLAN = Plan(latency=(0.002, 0.02))
SHORT = (
    "experiment=hybrid", "persona=7", "samples=6", "orchestrator.max_messages=6", NO_SIGNALS,
)  # fmt: skip
KILLS, SEED = 10, 2026
PERSONA = "persona-07"


@dataclass
class Killed:
    """One subject's interviews, killed ten times, beside the same without a kill."""

    server: ServerProcess
    folder: Path
    other_server: ServerProcess
    whole: Path
    printed: Ended
    done: list[tuple[int, set[tuple[int, int]]]] = field(default_factory=list)
    """At each kill: requests that the server had seen, and the turns that were finished."""


def wait_for(process: "subprocess.Popen[str]", folder: Path, *, lines: int) -> None:
    """Wait until the journal has grown to so many lines."""
    path = folder / "journal.jsonl"
    for _ in range(20_000):
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    raise AssertionError(f"no {lines} lines in {path}")


def finished(folder: Path) -> set[tuple[int, int]]:
    return {(turn["sample"], turn["number"]) for turn in turns(folder)}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    outputs, others = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("whole")
    folder, draw = outputs / "hybrid" / PERSONA, random.Random(SEED)
    with fake_process(PLAN) as server, fake_process(PLAN) as other:
        uninterrupted = start(other.url, others, *SHORT, "run=whole")
        done = []
        for _ in range(KILLS):
            seen = len(journal(folder))
            process = start(server.url, outputs, *SHORT)
            wait_for(process, folder, lines=seen + draw.randint(2, 30))
            time.sleep(draw.uniform(0, 0.02))
            process.kill()
            process.communicate()
            assert process.returncode == -signal.SIGKILL  # else it was over before
            time.sleep(0.03)  # the server sees the connection end
            done.append((len(server.log()), finished(folder)))
        printed = run(server.url, outputs, *SHORT)
        assert ended(uninterrupted).returncode == 0
        yield Killed(server, folder, other, others / "whole" / PERSONA, printed, done)


def held(folder: Path) -> dict[int, Any]:
    """Return each sample's turns and ending without the calls, whose times differ."""
    found: dict[int, Any] = {n: [without_calls(end)] for n, end in endings(folder).items()}
    for turn in turns(folder):
        found[turn["sample"]].append(without_calls(turn))
    return found


def without_calls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_calls(part) for key, part in value.items() if key != "calls"}
    return [without_calls(part) for part in value] if isinstance(value, list) else value


def test_ten_kills_leave_the_interviews_of_an_uninterrupted_run(killed: Killed) -> None:
    assert killed.printed.returncode == 0, killed.printed.stderr
    assert held(killed.folder) == held(killed.whole)
    one, other = (result(folder)["result"] for folder in (killed.folder, killed.whole))
    assert one == other


def test_the_kills_fell_into_interviews_under_way(killed: Killed) -> None:
    counts = [len(turns) for _, turns in killed.done]
    assert len(set(counts)) >= 4
    assert 0 < counts[-1] < len(finished(killed.folder))


def test_no_finished_turn_is_asked_twice(killed: Killed) -> None:
    entries = killed.server.log()
    for seen, done in killed.done:
        again = {(e["sample"], e["turn"]) for e in entries[seen:] if e["path"] == "chat"}
        assert not again & done


def test_the_ledger_counts_what_the_server_delivered(killed: Killed) -> None:
    """A response under way at a kill may have left the server: nobody here knows it."""
    ledger = result(killed.folder)["ledger"]
    delivered = labels(tagged(killed.folder, "call"))
    in_flight = labels(tagged(killed.folder, "asked")) - delivered
    answered = labels([entry for entry in chats(killed.server) if entry["answered"]])
    assert ledger["unknown"] == in_flight.total() > 0
    assert sum(role["delivered"] for role in ledger["roles"].values()) == delivered.total()
    assert not delivered - answered
    assert not answered - delivered - in_flight
    assert f"{ledger['unknown']} calls were cut off by a kill" in killed.printed.stdout


def test_the_ledger_has_the_servers_tokens(killed: Killed) -> None:
    by_label: dict[tuple[Any, ...], dict[str, Any]] = {
        (e["sample"], e["turn"], e["role"]): e for e in chats(killed.server) if e["answered"]
    }  # the same request gets the same answer, however often it is sent
    calls: Lines = tagged(killed.folder, "call")
    for line in calls:
        entry = by_label[line["sample"], line["turn"], line["call"]["role"]]
        assert line["call"]["input_tokens"] == entry["prompt_tokens"]
        assert line["call"]["output_tokens"] == entry["completion_tokens"]
    roles = result(killed.folder)["ledger"]["roles"]
    for role, account in roles.items():
        own = [line["call"] for line in calls if line["call"]["role"] == role]
        assert account["input_tokens"] == sum(call["input_tokens"] for call in own)
        assert account["output_tokens"] == sum(call["output_tokens"] for call in own)


def test_without_a_kill_nothing_is_unknown_and_all_counts_agree(killed: Killed) -> None:
    ledger = result(killed.whole)["ledger"]
    entries = [entry for entry in chats(killed.other_server) if entry["answered"]]
    assert ledger["unknown"] == 0
    for role, account in ledger["roles"].items():
        own = [entry for entry in entries if entry["role"] == role]
        assert (account["delivered"], account["failed"]) == (len(own), 0)
        for kind, told in (("input", "prompt"), ("cached", "cached"), ("output", "completion")):
            assert account[f"{kind}_tokens"] == sum(entry[f"{told}_tokens"] for entry in own)


def test_what_is_sent_hangs_on_the_conversation_alone(killed: Killed) -> None:
    """No clock, no name of a run, nothing of an earlier process: the bytes are the same."""
    sent: list[dict[tuple[Any, ...], set[str]]] = []
    for server in (killed.server, killed.other_server):
        found: dict[tuple[Any, ...], set[str]] = {}
        for entry, body in bodies(server, PERSONA):
            label = (entry["sample"], entry["turn"], entry["role"])
            found.setdefault(label, set()).add(json.dumps(body))
        sent.append(found)
    assert sent[0] == sent[1]
    assert {len(one) for one in sent[0].values()} == {1}


# asked to stop ------------------------------------------------------------------------------


def test_one_interrupt_lets_the_turns_in_flight_finish(killed: Killed, tmp_path: Path) -> None:
    folder = tmp_path / "hybrid" / PERSONA
    process = start(killed.other_server.url, tmp_path, *SHORT)
    wait_for(process, folder, lines=60)
    process.send_signal(signal.SIGINT)
    stopped = ended(process)
    assert stopped.returncode == 130
    assert stopped.stderr.count("\n") == 1
    assert "the same command goes on from here" in stopped.stderr
    asked, calls = tagged(folder, "asked"), tagged(folder, "call")
    assert labels(asked) == labels(calls)
    assert {line["call"]["outcome"] for line in calls} == {"ok"}
    done = finished(folder)
    assert {(line["sample"], line["turn"]) for line in asked} == done
    assert len(endings(folder)) < 6

    finish = run(killed.other_server.url, tmp_path, *SHORT)
    assert finish.returncode == 0, finish.stderr
    assert held(folder) == held(killed.whole)
    assert result(folder)["ledger"]["unknown"] == 0


def test_a_second_interrupt_ends_at_once(killed: Killed, tmp_path: Path) -> None:
    folder = tmp_path / "hybrid" / PERSONA
    killed.other_server.set_faults(Fault(kind="hang", turn=2, role="patient"))
    process = start(killed.other_server.url, tmp_path, *SHORT)
    wait_for(process, folder, lines=1 + 6 * (2 * 2 + 1 + 1))  # all wait for the second answer
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    began = time.monotonic()
    stopped = ended(process)
    assert time.monotonic() - began < 3
    assert stopped.returncode == 130
    assert {n for _, n in finished(folder)} == {1}
    outcomes = [line["call"]["outcome"] for line in tagged(folder, "call")]
    assert outcomes.count("cancelled") == 6
