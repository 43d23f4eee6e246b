import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import InputError
from src.evaluation.conversations import Conversation, notes, read_conversations, read_gold
from src.records import visible

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SAID = [
    {"role": "user", "message": "Hello, how is the garden?"},
    {"role": "assistant", "message": "Overgrown. I let it be."},
    {"role": "user", "message": "Since when?"},
    {"role": "assistant", "message": "Since spring."},
]


def real(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared/data/{name} is not beside this checkout")
    return path


def lines(folder: Path, *rows: object, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n")
    return path


def listed(folder: Path, *rows: object, name: str = "interactions_run1.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(list(rows), indent=1))
    return path


def row(messages: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    return {"persona": "Mo", "conversation": messages or SAID} | more


def only(path: Path, gold: Path | None = None) -> Conversation:
    (conversation,) = read_conversations(path, gold)
    return conversation


def messages(sides: str) -> list[dict[str, str]]:
    """Spell a conversation as u (interviewer) and a (persona); each message is its position."""
    roles = {"u": "user", "a": "assistant"}
    return [{"role": roles[side], "message": str(n)} for n, side in enumerate(sides, 1)]


def test_the_official_form_of_2026_is_read(tmp_path: Path) -> None:
    read = read_conversations(
        listed(tmp_path, {"LLM": "7", "conversation": SAID}, {"LLM": "12", "conversation": SAID})
    )
    assert [(c.row, c.person, c.k, len(c.turns)) for c in read] == [(1, "7", 2, 2), (2, "12", 2, 2)]
    assert [m.text for m in visible(read[0].turns)] == [m["message"] for m in SAID]
    assert {turn.question.source for turn in read[0].turns} == {"recorded"}
    assert [turn.number for turn in read[0].turns] == [1, 2]


def test_the_official_form_of_2025_is_read(tmp_path: Path) -> None:
    said = [m | {"role": "Mo" if m["role"] == "assistant" else "user"} for m in SAID]
    read = only(listed(tmp_path, {"LLM": "Mo", "conversation": said}))
    assert (read.person, read.k, len(read.turns)) == ("Mo", 2, 2)


def test_the_official_form_needs_no_list(tmp_path: Path) -> None:
    assert only(lines(tmp_path, {"LLM": "7", "conversation": SAID})).person == "7"


@pytest.mark.parametrize("key", ["conversation", "turns"])
def test_a_row_of_a_log_is_one_conversation(tmp_path: Path, key: str) -> None:
    path = lines(tmp_path, {"persona": "Mo", key: SAID}, {"name": "Kit", key: SAID})
    assert [(c.row, c.person) for c in read_conversations(path)] == [(1, "Mo"), (2, "Kit")]


def test_the_parts_of_one_row_make_one_conversation(tmp_path: Path) -> None:
    parts = [m | {"conv": 1 + n // 2, "speaker": "someone"} for n, m in enumerate(SAID)]
    read = only(lines(tmp_path, row(parts)))
    assert [turn.answer.text for turn in read.turns] == ["Overgrown. I let it be.", "Since spring."]


@pytest.mark.parametrize(
    ("sides", "turns", "closing", "k"),
    [
        ("ua", [("1", "2")], None, 1),
        ("uau", [("1", "2")], "3", 2),
        ("uauu", [("1", "2")], "3\n4", 3),
        ("uuaaua", [("1\n2", "3\n4"), ("5", "6")], None, 3),
        ("aua", [("", "1"), ("2", "3")], None, 1),
        ("aauau", [("", "1\n2"), ("3", "4")], "5", 2),
    ],
)
def test_neighbours_of_one_side_become_one_message(
    tmp_path: Path, sides: str, turns: list[tuple[str, str]], closing: str | None, k: int
) -> None:
    read = only(lines(tmp_path, row(messages(sides))))
    assert [(turn.question.text, turn.answer.text) for turn in read.turns] == turns
    assert (read.closing, read.k) == (closing, k)


@given(st.text("ua", min_size=2, max_size=14).filter(lambda sides: len(set(sides)) == 2))
def test_no_message_is_lost_and_every_question_counts(
    tmp_path_factory: pytest.TempPathFactory, sides: str
) -> None:
    read = only(lines(tmp_path_factory.mktemp("log"), row(messages(sides))))
    said = [m.text for m in visible(read.turns)] + [read.closing or ""]
    assert "\n".join(said).split() == [str(n) for n in range(1, len(sides) + 1)]
    assert read.k == sides.count("u")


def test_a_last_question_without_an_answer_is_the_closing(tmp_path: Path) -> None:
    thanks = {"role": "user", "message": "Thank you for your time."}
    read = only(lines(tmp_path, row([*SAID, thanks])))
    assert (read.closing, len(read.turns), read.k) == ("Thank you for your time.", 2, 3)


@pytest.mark.parametrize(
    ("truth", "prediction"), [("gold_bdi", "pred_bdi"), ("bdi_total", "pred_total")]
)
def test_truth_and_recorded_prediction_are_read(
    tmp_path: Path, truth: str, prediction: str
) -> None:
    symptoms = {"gold_key_symptoms": ["Past failure", "Crying"], "pred_key_symptoms": ["CRYING"]}
    read = only(lines(tmp_path, row() | {truth: 31, prediction: 0} | symptoms))
    assert (read.gold_total, read.predicted_total) == (31, 0)
    assert (read.gold_symptoms, read.predicted_symptoms) == ((3, 10), (10,))


def test_what_a_row_does_not_say_stays_unknown(tmp_path: Path) -> None:
    read = only(lines(tmp_path, row(gold_bdi=None)))
    assert (read.gold_total, read.gold_symptoms) == (None, None)
    assert (read.predicted_total, read.predicted_symptoms) == (None, None)


def test_null_is_absent_and_hides_no_other_name_of_the_key(tmp_path: Path) -> None:
    read = only(lines(tmp_path, row(gold_bdi=None, bdi_total=12, pred_bdi=None, pred_total=0)))
    assert (read.gold_total, read.predicted_total) == (12, 0)


def test_two_truths_for_one_person_are_refused_before_anything_is_scored(tmp_path: Path) -> None:
    path = lines(tmp_path, row(gold_bdi=3), row(), row(gold_bdi=4) | {"persona": "mo"})
    with pytest.raises(InputError, match=r"log\.jsonl: mo has two truths, 3 and 4"):
        read_conversations(path)


@pytest.mark.parametrize("role", ["User", "USER", " user"])
def test_the_interviewers_role_is_known_in_any_case(tmp_path: Path, role: str) -> None:
    said = [m | {"role": role if m["role"] == "user" else m["role"]} for m in SAID]
    assert only(lines(tmp_path, row(said))).turns == only(lines(tmp_path, row())).turns


def test_a_recorded_prediction_is_its_first_four_names_known_or_not(tmp_path: Path) -> None:
    named = ["gloom", "Crying", "Sadness", "Crying", "Irritability", "dread"]
    read = only(lines(tmp_path, row(pred_key_symptoms=named)))
    assert (read.predicted_symptoms, read.unknown_symptoms) == ((10, 1), ("gloom",))


@pytest.mark.parametrize("write", [lines, listed])
def test_a_gold_file_is_read_by_official_number(tmp_path: Path, write: Any) -> None:
    gold = write(
        tmp_path,
        {"pid": 7, "name": "Mo", "bdi_total": 31, "key_symptoms": ["Sadness", "Crying"]},
        {"pid": 8, "name": "Kit", "bdi_total": 3},
        name="gold",
    )
    said = {"conversation": SAID}
    path = listed(tmp_path, {"LLM": "7"} | said, {"LLM": "8"} | said, {"LLM": "9"} | said)
    read = read_conversations(path, gold)
    assert [(c.person, c.gold_total, c.gold_symptoms) for c in read] == [
        ("Mo", 31, (1, 10)),
        ("Kit", 3, None),
        ("9", None, None),
    ]


def test_a_gold_file_is_read_by_first_name_for_2025(tmp_path: Path) -> None:
    gold = lines(tmp_path, {"pid": 7, "name": "Mo", "bdi_total": 31}, name="gold.jsonl")
    said = [m | {"role": m["role"].replace("assistant", "Mo")} for m in SAID]
    assert only(listed(tmp_path, {"LLM": "Mo", "conversation": said}), gold).gold_total == 31
    assert only(listed(tmp_path, {"LLM": "7", "conversation": said}), gold).gold_total == 31


def test_a_rows_own_truth_goes_before_the_gold_file(tmp_path: Path) -> None:
    gold = lines(tmp_path, {"pid": 7, "name": "Mo", "bdi_total": 31}, name="gold.jsonl")
    assert only(lines(tmp_path, row(gold_bdi=5)), gold).gold_total == 5


def test_unknown_predicted_names_are_kept_out_and_counted(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        row(pred_key_symptoms=["Loss of garden", "Crying", "gloom"]),
        row(pred_key_symptoms=["Crying"]),
        row(pred_key_symptoms=["gloom"]),
    )
    read = read_conversations(path)
    assert [c.predicted_symptoms for c in read] == [(10,), (10,), ()]
    assert read[0].unknown_symptoms == ("Loss of garden", "gloom")
    (note,) = notes(read)
    assert note.startswith("3 predicted symptom names in 2 conversations")
    assert notes(read[1:2]) == ()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            row(gold_key_symptoms=["Crying", "gloom"]),
            r"gold_key_symptoms\[1\]: unknown symptom 'gloom'",
        ),
        (
            row(gold_key_symptoms="Crying"),
            "gold_key_symptoms: input should be a valid list, not 'Crying'",
        ),
        (row(gold_bdi=64), "gold_bdi: input should be less than or equal to 63, not 64"),
        (row(gold_bdi=-1), "gold_bdi: .*, not -1"),
        (row(gold_bdi=12.0), "gold_bdi: input should be a valid integer, not 12.0"),
        (row(gold_bdi="12"), "gold_bdi: .*, not '12'"),
        (row(gold_bdi=True), "gold_bdi: .*, not True"),
        (row(bdi_total=99), "bdi_total: .*, not 99"),
        (row(pred_bdi=70), "pred_bdi: .*, not 70"),
        ({"persona": "Mo"}, "conversation: field required"),
        ({"conversation": SAID}, "nobody is named"),
        (row() | {"conversation": []}, "conversation: list should have at least 1 item"),
        (
            row() | {"conversation": "Hello"},
            "conversation: input should be a valid list, not 'Hello'",
        ),
        (
            row() | {"conversation": [3]},
            r"conversation\[0\]: input should be a valid dictionary .*, not 3",
        ),
        (row([*SAID, {"role": "user"}]), r"conversation\[4\]\.message: field required"),
        (row([{"role": "system", "message": "x"}]), r"\[0\]: unknown role 'system'"),
        (row([{"role": ["user"], "message": "x"}]), r"\[0\]\.role: input should be a valid string"),
        (row([{"message": "x"}]), r"\[0\]\.role: field required"),
        (row(messages("uu")), "has no message of the persona"),
        (row(messages("a")), "has no message of the interviewer"),
        (7, "a row is a JSON object"),
        (["x"], "a row is a JSON object"),
    ],
)
@pytest.mark.parametrize("write", [lines, listed])
def test_a_bad_row_is_refused_in_one_line_with_its_place(
    tmp_path: Path, write: Any, bad: object, reason: str
) -> None:
    path = write(tmp_path, row(), row(), bad)
    with pytest.raises(InputError, match=reason) as refused:
        read_conversations(path)
    text = str(refused.value)
    assert text.startswith(f"{path}: {'line' if write is lines else 'row'} 3: ")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        ("  \n\n", "the file is empty"),
        ("[]", "the file is empty"),
        ("[ ]\n", "the file is empty"),
        ("a table\nof something", "line 1: is no JSON"),
        (json.dumps(row()) + "\n{oh", "line 2: is no JSON"),
        ("[\n{},\n{oh}\n]", "line 3: is no JSON"),
        ("[{} {}]", "line 1: is no JSON"),
        ("[" * 100_000, "line 1: is no JSON"),
    ],
)
def test_a_file_that_holds_no_rows_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InputError, match=reason) as refused:
        read_conversations(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_conversations(tmp_path / "nowhere.jsonl")


def test_line_separators_inside_a_message_end_no_row(tmp_path: Path) -> None:
    odd = [SAID[0], {"role": "assistant", "message": "one\u2028two\x85three"}]
    assert only(lines(tmp_path, row(odd))).turns[0].answer.text == "one\u2028two\x85three"


def test_half_an_emoji_in_a_cut_log_is_marked_and_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row([SAID[0], {"role": "assistant", "message": "Fine \ud83d"}])))
    assert only(path).turns[0].answer.text == "Fine ?"


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\ufeff" + json.dumps(row()), encoding="utf-8")
    assert only(path).person == "Mo"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"name": "Mo", "bdi_total": 3}, "pid: field required"),
        ({"pid": 7, "name": "Mo"}, "bdi_total: field required"),
        ({"pid": 7, "bdi_total": 64}, "bdi_total: .* to 63, not 64"),
        ({"pid": 7, "bdi_total": 3, "key_symptoms": ["gloom"]}, "unknown symptom 'gloom'"),
        ({"pid": 1, "bdi_total": 3}, "persona '1' stands there twice"),
    ],
)
def test_a_bad_truth_is_refused_with_its_line(tmp_path: Path, bad: object, reason: str) -> None:
    gold = lines(tmp_path, {"pid": 1, "name": "Kit", "bdi_total": 9}, bad, name="gold.jsonl")
    with pytest.raises(InputError, match=f"gold.jsonl: line 2: .*{reason}"):
        read_gold(gold)


@pytest.mark.parametrize(
    ("name", "rows", "predicted", "symptoms_known"),
    [
        ("erisk2026_transcripts.jsonl", 21, True, True),
        ("dsgt2025_submissions.jsonl", 32, True, False),
        ("transcripts.jsonl", 45, True, True),
        ("conversations.jsonl", 8, False, False),
    ],
)
def test_every_row_of_the_real_files_is_read(
    name: str, rows: int, *, predicted: bool, symptoms_known: bool
) -> None:
    read = read_conversations(real(name))
    assert len(read) == rows
    assert all(c.gold_total is not None and c.turns for c in read)
    assert all((c.predicted_total is not None) == predicted for c in read)
    assert all((c.gold_symptoms is not None) == symptoms_known for c in read)
    recorded = [json.loads(line) for line in real(name).read_text().split("\n") if line]
    for one, raw in zip(read, recorded, strict=True):
        said = raw.get("conversation") or raw["turns"]
        assert one.k == sum(message["role"] == "user" for message in said)
        texts = [m.text for m in visible(one.turns)] + [one.closing or ""]
        assert "".join("".join(texts).split()) == "".join(
            "".join(message["message"] for message in said).split()
        )


def test_the_recorded_counts_of_the_real_logs_agree_with_k() -> None:
    path = real("erisk2026_transcripts.jsonl")
    counts = [json.loads(line)["n_user_msgs"] for line in path.read_text().split("\n") if line]
    assert [c.k for c in read_conversations(path)] == counts


def test_peers_odd_names_are_counted_in_the_real_logs() -> None:
    read = read_conversations(real("transcripts.jsonl"))
    assert sum(len(c.unknown_symptoms) for c in read) > 0
    assert len(notes(read)) == 1


def test_the_real_truths_are_read() -> None:
    truths = read_gold(real("erisk2026_gold.jsonl"))
    assert len({truth.name for truth in truths.values()}) == 10
    # One persona's list names an item twice, so that only three differ.
    assert {len(truth.symptoms or ()) for truth in truths.values()} == {3, 4}


@pytest.mark.parametrize(
    "name",
    [
        "erisk2026_gold.jsonl",
        "personas.jsonl",
        "dsgt2026_sample_scores.jsonl",
        "mentaldx_dev.jsonl",
        "icd11_ch06_base_codes.tsv",
    ],
)
def test_a_real_file_without_conversations_ends_in_one_line(name: str) -> None:
    with pytest.raises(InputError) as refused:
        read_conversations(real(name))
    assert "\n" not in str(refused.value)
    assert f"{name}: line 1: " in str(refused.value)
