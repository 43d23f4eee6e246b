"""The score command with a model: what fails is a row, what it cost is printed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_plan import Fault, Plan
from fake_process import ServerProcess, fake_process
from model_runs import ENVIRONMENT, IMPATIENT, KEY, NO_LIMITS, Ended, at, chats
from terminal import tacit

from src.errors import InputError
from src.score import score as command

REPLIES = (
    "I lie awake most nights and I am worn out by noon.",
    "We had a great day at the lake, I laughed a lot.",
    "I keep to myself most of the time.",
    "I eat as I always did.",
)
SAMPLES = "recorded"
"""Subject in the requests' labels; the sample is the number of the row."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    faults = (
        Fault(kind="refusal", subject=SAMPLES, sample=2),
        Fault(kind="rate_limited", subject=SAMPLES, sample=3),
    )
    with fake_process(Plan(faults=faults)) as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an official interactions file of one exchange a persona."""
    conversations = [
        {
            "LLM": str(number),
            "conversation": [
                {"role": "user", "message": "How have you been?"},
                {"role": "assistant", "message": reply},
            ],
        }
        for number, reply in enumerate(REPLIES, 1)
    ]
    path = tmp_path / "interactions_run1.json"
    path.write_text(json.dumps(conversations), encoding="utf-8")
    return path


def score(server: ServerProcess, *arguments: str) -> Ended:
    usual = (*at(server.url), *NO_LIMITS, *IMPATIENT)
    return tacit("src.score", *usual, *arguments, environment=ENVIRONMENT)


def test_a_conversation_that_cannot_be_scored_is_a_row_with_its_reason(
    server: ServerProcess, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    found = score(server, str(file), "scorer=gpt", "privacy=remote", f"out={out}")
    assert found.returncode == 0, found.stderr
    assert "! row 2: scorer_failed: refused" in found.stdout
    assert "! row 3: scorer_failed: rate_limited" in found.stdout
    assert f"Text of the conversations goes to {server.url[7:-3]}." in found.stdout
    written = json.loads(out.read_text(encoding="utf-8"))
    rows = written["conversations"]
    assert [("total" in row, row.get("failure", {}).get("transport")) for row in rows] == [
        (True, None), (False, False), (False, True), (True, None),
    ]  # fmt: skip
    account = written["ledger"]["roles"]["scorer"]
    answered = [entry for entry in chats(server, SAMPLES) if entry["answered"]]
    assert (account["delivered"], account["failed"]) == (len(answered), 2) == (4, 2)
    assert f"scorer: 4 calls answered, 2 not; tokens in {account['input_tokens']}" in found.stdout
    assert f"${account['cost']:.4f}" in found.stdout
    assert account["cost"] > 0
    assert KEY not in found.stdout + out.read_text(encoding="utf-8")


def test_the_rubrics_sentences_are_checked_likewise(server: ServerProcess) -> None:
    found = score(server, "check=rubric", "scorer=gpt", "privacy=remote")
    assert found.returncode == 0, found.stderr
    failed = [line for line in found.stdout.splitlines() if ": failed (" in line]
    assert len(failed) == 2
    assert "refused" in failed[0]
    assert " sentences at their level" in found.stdout
    assert "scorer: " in found.stdout.splitlines()[-1]
    assert "$0.0" in found.stdout.splitlines()[-1]


@pytest.mark.parametrize("source", ["file", "check=rubric"])
def test_local_privacy_sends_no_recorded_text_away(source: str, file: Path) -> None:
    what = str(file) if source == "file" else source  # local unless told
    with pytest.raises(InputError, match=r"privacy=local: gpt-5-nano is on api\.openai\.com"):
        command([what, "scorer=gpt5nano"])


def test_an_empty_account_leaves_what_was_paid_for_and_ends_with_exit_5(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    empty = Fault(kind="insufficient_quota", subject=SAMPLES, sample=4)
    with fake_process(Plan(faults=(empty,))) as server:
        found = score(server, str(file), "scorer=gpt", "privacy=remote", f"out={out}")
    assert found.returncode == 5, found.stderr
    assert found.stderr.count("\n") == 1
    rows = json.loads(out.read_text(encoding="utf-8"))["conversations"]
    assert ["total" in row for row in rows] == [True, True, True, False]
    assert rows[3]["failure"]["kind"] == "quota_exhausted"
