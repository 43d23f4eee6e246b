"""The score command: recorded conversations in every form, and runs, beside the truth."""

import json
from pathlib import Path

import pytest
from terminal import tacit

from src import score
from src.clinical import bdi
from src.errors import InputError

LOW = "I feel down most of the time, and I cry nearly every day."
FINE = "I'm cheerful, and I sleep well."


def official(path: Path, rows: list[tuple[str, str]], *, role: str = "assistant") -> Path:
    """Write an official interactions file of one exchange a persona."""
    conversations = [
        {
            "LLM": persona,
            "conversation": [
                {"role": "user", "message": "How have you been?"},
                {"role": role if role == "assistant" else persona, "message": reply},
            ],
        }
        for persona, reply in rows
    ]
    path.write_text(json.dumps(conversations), encoding="utf-8")
    return path


def gold(path: Path) -> Path:
    rows = [
        {"pid": 7, "name": "Ann", "bdi_total": 30, "key_symptoms": ["Sadness", "Crying"]},
        {"pid": 8, "name": "Ben", "bdi_total": 2, "key_symptoms": []},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def written(*arguments: str, out: Path) -> dict[str, object]:
    score.score([*arguments, f"out={out}"])
    content: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return content


def rows(content: dict[str, object]) -> list[dict[str, object]]:
    found = content["conversations"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("role", ["assistant", "name"])
def test_official_files_of_both_years_are_scored_against_a_gold_file(
    role: str, tmp_path: Path
) -> None:
    personas = ("7", "8") if role == "assistant" else ("Ann", "Ben")
    file = official(tmp_path / "i.json", [(personas[0], LOW), (personas[1], FINE)], role=role)
    content = written(str(file), f"gold={gold(tmp_path / 'g.jsonl')}", out=tmp_path / "o.json")
    first, second = rows(content)
    assert (first["gold_total"], second["gold_total"]) == (30, 2)
    assert isinstance(first["total"], int)
    assert first["total"] > 0 == second["total"]
    assert first["key_symptoms"] == ["Sadness", "Crying"]
    measures = content["measures"]
    assert isinstance(measures, dict)
    assert measures["this scorer, conversation"]["ashr"] is not None


def test_every_item_has_score_confidence_and_evidence_in_order(tmp_path: Path) -> None:
    file = official(tmp_path / "i.json", [("7", LOW)])
    (row,) = rows(written(str(file), out=tmp_path / "o.json"))
    items = row["items"]
    assert isinstance(items, list)
    assert [item["name"] for item in items] == list(bdi.NAMES)
    sadness = items[0]
    assert sadness["assessed"]
    assert sadness["evidence"] in LOW
    assert items[20] == {
        "item": 21, "name": "Loss of Interest in Sex", "score": 0, "confidence": 0.0,
        "assessed": False, "evidence": "",
    }  # fmt: skip


def test_after_every_turn_the_reading_has_seen_only_what_was_said(tmp_path: Path) -> None:
    conversation = [
        {"role": "user", "message": "How have you been?"},
        {"role": "assistant", "message": FINE},
        {"role": "user", "message": "And today?"},
        {"role": "assistant", "message": LOW},
        {"role": "user", "message": "Thank you."},
    ]
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps({"conversation": conversation, "persona": "Ann", "gold_bdi": 20}))
    (row,) = rows(written(str(file), "turns=all", out=tmp_path / "o.json"))
    by_turn = row["by_turn"]
    assert isinstance(by_turn, dict)
    assert list(by_turn) == ["1", "2"]
    assert by_turn["1"]["total"] < by_turn["2"]["total"] == row["total"]
    assert row["k"] == 3


def test_a_run_is_read_like_recorded_conversations_with_its_simulated_truth(
    tmp_path: Path,
) -> None:
    tacit("src.run", "experiment=offline", "persona=[3,18]", "samples=3", f"outputs={tmp_path}")
    content = written(str(tmp_path / "offline"), out=tmp_path / "o.json")
    found = rows(content)
    assert [row["person"] for row in found] == ["persona-03"] * 3 + ["persona-18"] * 3
    assert all(row["total"] == row["predicted_total"] for row in found)
    truths = {row["person"]: row["gold_total"] for row in found}
    assert truths["persona-03"] != truths["persona-18"]


def test_the_recorded_answer_and_the_best_constant_stand_beside_the_scorers(
    tmp_path: Path,
) -> None:
    file = tmp_path / "c.jsonl"
    talk = [{"role": "user", "message": "How are you?"}, {"role": "assistant", "message": LOW}]
    people = [("Ann", 30, 28), ("Ben", 10, 10), ("Cai", 12, 14)]
    file.write_text(
        "\n".join(
            json.dumps({"turns": talk, "persona": n, "gold_bdi": g, "pred_bdi": p})
            for n, g, p in people
        )
    )
    shown = tacit("src.score", str(file)).stdout
    for part in ("always 12", "this scorer, person", "as recorded, person", "DCHR", "LASHR"):
        assert part in shown
    recorded = next(line for line in shown.splitlines() if "as recorded, conversation" in line)
    assert recorded.split()[4] == "0.6667"  # 28 misses the band of 30


def test_brackets_in_a_name_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = [{"role": "user", "message": "How are you?"}, {"role": "assistant", "message": FINE}]
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps({"conversation": talk, "name": "[/x]"}))
    score.score([str(file)])
    assert "[/x]" in capsys.readouterr().out


def test_what_is_read_is_never_written_over(tmp_path: Path) -> None:
    file = official(tmp_path / "i.json", [("7", LOW)])
    before = file.read_bytes()
    with pytest.raises(InputError, match="would take the place"):
        score.score([str(file), f"out={file}"])
    assert file.read_bytes() == before


def test_volunteered_self_harm_is_named_with_what_this_command_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dark = "Lately I think everyone would be better off without me, I wish I wasn't alive."
    file = official(tmp_path / "i.json", [("7", FINE), ("8", dark)])
    score.score([str(file)])
    assert "Self-harm comes up in conversation 2. This command" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["no/such/file"], "no/such/file: neither key=value nor a file that exists"),
        ([], "name a file of conversations"),
        (["README.md"], "README.md: line 1"),
        (["README.md", "out=/no/such/folder/o.json"], "out=/no/such/folder/o.json"),
        (["README.md", "turns=some"], "turns"),
        (["README.md", "gold=no/gold"], "no/gold"),
        (["conf"], "holds no finished interview"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], line: str) -> None:
    with pytest.raises(InputError) as refused:
        score.score(arguments)
    assert line in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "name",
    ["erisk2026_transcripts", "dsgt2025_submissions", "conversations", "transcripts"],
)
def test_every_real_conversation_goes_through(name: str, shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / f"{name}.jsonl"
    content = written(str(file), out=tmp_path / "o.json")
    found = rows(content)
    assert len(found) == len(file.read_text(encoding="utf-8").splitlines())
    assert [row["row"] for row in found] == list(range(1, len(found) + 1))
    assert all(row["gold_total"] is not None for row in found)


def test_the_aims_on_real_conversations_hold(shared_data: Path, tmp_path: Path) -> None:
    names = ("erisk2026_transcripts", "dsgt2025_submissions", "conversations")
    files = [str(shared_data / f"{name}.jsonl") for name in names]
    content = written(*files, out=tmp_path / "o.json")
    measures, constant = content["measures"], content["best_constant"]
    assert isinstance(measures, dict)
    assert isinstance(constant, dict)
    persons = measures["this scorer, person"]
    assert persons["persons"] == 10
    assert persons["adodl"] >= constant["person"]["adodl"] + 0.02
    assert persons["spearman"] >= 0.6
    assert persons["spread"] >= persons["gold_spread"] / 2
