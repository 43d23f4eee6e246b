"""The score command keeps what a model read: a limit, a kill or another wish costs it once."""

import json
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_plan import Fault, Plan
from fake_process import ServerProcess, fake_process
from model_runs import ENVIRONMENT, IMPATIENT, NO_LIMITS, Ended, at, chats
from terminal import ROOT, program, tacit, variables

SAMPLES = "recorded"
PAID = ("scorer=gpt", "privacy=remote", "interviews=1")
SAID = (
    ("I lie awake most nights.", "I am worn out by noon.", "I keep to myself."),
    ("We had a day at the lake.", "I laughed a lot.", "I eat as I always did."),
    ("Work is as it is.", "I sleep well enough.", "My sister calls on Sundays."),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an official interactions file: three persons, three exchanges each."""
    conversations = [
        {"LLM": str(number), "conversation": [m for text in said for m in exchange(text)]}
        for number, said in enumerate(SAID, 1)
    ]
    path = tmp_path / "interactions_run1.json"
    path.write_text(json.dumps(conversations), encoding="utf-8")
    return path


def exchange(reply: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "message": "How have you been?"},
        {"role": "assistant", "message": reply},
    ]


def arguments(server: ServerProcess, *more: str) -> list[str]:
    return [*at(server.url), *NO_LIMITS, *IMPATIENT, *PAID, *more]


def score(server: ServerProcess, *more: str) -> Ended:
    return tacit("src.score", *arguments(server, *more), environment=ENVIRONMENT)


def rows(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))["conversations"]
    return found


def totals(out: Path) -> list[int | None]:
    return [row.get("total") for row in rows(out)]


def lines(out: Path) -> list[dict[str, Any]]:
    path = out.with_name(f"{out.name}.journal.jsonl")
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def readings(entries: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return which conversation was asked about after which turn."""
    return [(entry["sample"], entry["turn"]) for entry in entries]


def test_a_limit_ends_it_and_a_higher_one_goes_on_where_it_was(file: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out.json", tmp_path / "whole.json"
    with fake_process(Plan()) as server:
        told = (str(file), f"out={out}")
        ended = score(server, *told, "max_tokens=1")
        assert ended.returncode == 5, ended.stderr
        assert "max_tokens: " in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert [total is not None for total in totals(out)] == [True, False, False]
        again = score(server, *told, "max_tokens=1")  # used up already
        assert again.returncode == 5, again.stderr
        assert len(chats(server, SAMPLES)) == 1
        ended = score(server, *told, "max_cost=100")
        assert ended.returncode == 0, ended.stderr
        assert readings(chats(server, SAMPLES)) == [(1, 3), (2, 3), (3, 3)]
        assert score(server, str(file), f"out={whole}").returncode == 0
    assert totals(out) == totals(whole)
    ledgers = [json.loads(path.read_text(encoding="utf-8"))["ledger"] for path in (out, whole)]
    assert [one["roles"]["scorer"]["delivered"] for one in ledgers] == [3, 3]
    assert "scorer: 3 calls answered" in ended.stdout


def test_every_turn_after_the_last_asks_only_for_those_before(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with fake_process(Plan()) as server:
        assert score(server, str(file), f"out={out}").returncode == 0
        assert score(server, str(file), f"out={out}", "turns=all").returncode == 0
        asked = readings(chats(server, SAMPLES))
        assert sorted(asked) == [(sample, turn) for sample in (1, 2, 3) for turn in (1, 2, 3)]
        warmer = (str(file), f"out={out}", "scorer.order=score_first")  # another scorer reads anew
        assert score(server, *warmer).returncode == 0
        assert readings(chats(server, SAMPLES))[len(asked) :] == [(1, 3), (2, 3), (3, 3)]


def test_a_kill_loses_the_call_under_way_and_no_other(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    hangs = Fault(kind="hang", subject=SAMPLES, sample=2)
    with fake_process(Plan(faults=(hangs,))) as server:
        process = subprocess.Popen(
            [*program("src.score"), *arguments(server, str(file), f"out={out}")],
            cwd=ROOT, env=variables(ENVIRONMENT), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            until = time.monotonic() + 60
            while len([one for one in lines(out) if one["tag"] == "asked"]) < 2:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            refused = score(server, str(file), f"out={out}")
            assert (refused.returncode, "give another out=FILE" in refused.stderr) == (2, True)
        finally:
            process.kill()
            process.wait(timeout=10)
        assert not out.exists()
        with (tmp_path / "out.json.journal.jsonl").open("ab") as file_:
            file_.write(b'{"tag": "reading", "ke')  # a torn line
        server.set_faults()
        before = len(chats(server, SAMPLES))
        ended = score(server, str(file), f"out={out}")
        assert ended.returncode == 0, ended.stderr
        assert readings(chats(server, SAMPLES)[before:]) == [(2, 3), (3, 3)]
    assert None not in totals(out)
    assert json.loads(out.read_text(encoding="utf-8"))["ledger"]["unknown"] == 1


def test_a_dry_run_says_what_is_owed_and_does_nothing(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with fake_process(Plan()) as server:
        told = (str(file), f"out={out}", "turns=all", "dry_run=true", "max_tokens=2000")
        found = score(server, *told)
        assert found.returncode == 0, found.stderr
        assert "9 readings of 3 conversations are owed" in found.stdout
        assert "In all $0." in found.stdout
        assert "max_tokens=2000 will end it" in found.stdout
        assert server.log() == []
        assert names(tmp_path) == [file.name]
        assert score(server, str(file), f"out={out}").returncode == 0
        asked, was = len(server.log()), names(tmp_path)
        assert "6 readings of 3 conversations are owed" in score(server, *told).stdout
        assert (len(server.log()), names(tmp_path)) == (asked, was)
        rubric = score(server, "check=rubric", "dry_run=true").stdout
        assert re.search(r"(\d+) readings of \1 conversations are owed", rubric)
    nothing = tacit("src.score", str(file), "dry_run=true")
    assert "No model is asked" in nothing.stdout


def test_what_was_read_before_is_there_even_when_a_limit_ends_it(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    refuses = Fault(kind="refusal", subject=SAMPLES, sample=1)
    with fake_process(Plan(faults=(refuses,))) as server:
        assert score(server, str(file), f"out={out}").returncode == 0
        assert [total is not None for total in totals(out)] == [False, True, True]
        ended = score(server, str(file), f"out={out}", "max_tokens=1")
        assert ended.returncode == 5, ended.stderr
    assert [total is not None for total in totals(out)] == [False, True, True]


def test_a_journal_never_takes_the_place_of_what_is_there(file: Path, tmp_path: Path) -> None:
    out, taken = tmp_path / "out.json", tmp_path / "out.json.journal.jsonl"
    text = json.dumps({"name": "Ada", "conversation": exchange("I am tired.")}) + "\n" + '{"na'
    taken.write_text(text, encoding="utf-8")
    told = (f"out={out}", "scorer=gpt", "privacy=remote")
    found = tacit("src.score", str(taken), *told, environment=ENVIRONMENT)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "which is read, would be written to" in found.stderr
    found = tacit("src.score", str(file), *told, environment=ENVIRONMENT)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "give another out=FILE" in found.stderr
    assert taken.read_text(encoding="utf-8") == text


def test_what_costs_nothing_leaves_no_journal(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert tacit("src.score", str(file), f"out={out}").returncode == 0
    assert names(tmp_path) == sorted([file.name, out.name])
