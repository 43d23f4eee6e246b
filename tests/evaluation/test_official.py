"""The organisers' files: built to their form, read back as they were, every breach found."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.clinical import bdi
from src.evaluation.conversations import read_conversations
from src.evaluation.official import Check, Entry, Layout, build
from src.records import Answer, Interview, Question, SelectedRun, StopReason, Turn

Files = dict[str, Any]
"""Parsed content by path; bytes stay as they are."""


def interview(
    persona: int, sample: int, texts: list[tuple[str, str]], closing: str | None = None
) -> Interview:
    return Interview(
        subject=f"persona-{persona:02d}",
        sample=sample,
        seed=1,
        turns=tuple(
            Turn(number=n, question=Question(text=asked, source="fixed"), answer=Answer(text=said))
            for n, (asked, said) in enumerate(texts, 1)
        ),
        closing=Question(text=closing, source="fixed") if closing else None,
        stop=StopReason.MAX_MESSAGES,
    )


def entries() -> list[Entry]:
    """Return three runs of the personas 7 and 8, two exchanges and a closing each."""
    return [
        Entry(
            run=run,
            persona=persona,
            interview=interview(
                persona,
                run,
                [("How are you?", f"So so, {run}."), ("And sleep?", f"Fine, {persona}.")],
                closing="Thank you.",
            ),
            selected=SelectedRun(
                sample=run, total=10 * run, key_symptoms=(1, 16, 20, 21)[: run + 1], messages=3
            ),
        )
        for persona in (8, 7)
        for run in (1, 2, 3)
    ]


def parsed(layout: Layout = "combined") -> Files:
    return {path: json.loads(text) for path, text in build(entries(), layout).items()}


def lines(files: Files) -> list[str]:
    contents = {
        path: content if isinstance(content, bytes) else json.dumps(content).encode()
        for path, content in files.items()
    }
    return Check(contents).breaches


# building -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["combined", "per_persona"])
def test_what_is_built_has_no_breach(layout: Layout) -> None:
    assert lines(parsed(layout)) == []


def test_a_file_holds_what_the_organisers_ask_for_and_nothing_else() -> None:
    files = parsed()
    assert sorted(files) == [
        f"{k}_run{n}.json" for k in ("interactions", "results") for n in (1, 2, 3)
    ]
    assert files["results_run2.json"] == [
        {
            "LLM": persona,
            "bdi-score": 20,
            "key-symptoms": ["Sadness", "Changes in Sleeping Pattern", "Tiredness or Fatigue"],
        }
        for persona in ("7", "8")
    ]
    assert files["interactions_run1.json"][0] == {
        "LLM": "7",
        "conversation": [
            {"role": "user", "message": "How are you?"},
            {"role": "assistant", "message": "So so, 1."},
            {"role": "user", "message": "And sleep?"},
            {"role": "assistant", "message": "Fine, 7."},
            {"role": "user", "message": "Thank you."},
        ],
    }


def test_a_persona_has_a_folder_of_its_own_in_the_default_layout() -> None:
    assert sorted({path.split("/")[0] for path in parsed("per_persona")}) == [
        "persona-07",
        "persona-08",
    ]


def test_the_order_of_the_entries_makes_no_difference() -> None:
    assert build(entries(), "combined") == build(entries()[::-1], "combined")


SPOKEN = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(
    texts=st.lists(st.tuples(SPOKEN, SPOKEN), min_size=1, max_size=4),
    closing=st.none() | SPOKEN,
    total=st.integers(0, 63),
)
def test_whatever_was_said_is_read_back_as_it_was(
    texts: list[tuple[str, str]],
    closing: str | None,
    total: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    one = Entry(
        run=1,
        persona=20,
        interview=interview(20, 1, texts, closing),
        selected=SelectedRun(sample=1, total=total, key_symptoms=(), messages=1),
    )
    files = build([one], "combined")
    assert not Check({path: text.encode() for path, text in files.items()}).breaches
    path = tmp_path_factory.mktemp("one") / "interactions_run1.json"
    path.write_text(files[path.name], encoding="utf-8", newline="")
    (read,) = read_conversations(path)
    assert [(turn.question.text, turn.answer.text) for turn in read.turns] == texts
    assert (read.person, read.closing, read.k) == (
        "20",
        closing,
        len(texts) + (closing is not None),
    )


# breaches -----------------------------------------------------------------------------------

SCORES, TALKS = "results_run1.json", "interactions_run1.json"
Place = tuple[str | int, ...]
FORM = 'LLM: a persona is a text from "1" to "20" (in 2025 its first name), not '


def put(*place: str | int, value: object) -> Callable[[Any], None]:
    """Return what puts a value at a place of the files."""

    def change(files: Any) -> None:
        for key in place[:-1]:
            files = files[key]
        files[place[-1]] = value

    return change


def drop(*place: str | int) -> Callable[[Any], None]:
    def change(files: Any) -> None:
        for key in place[:-1]:
            files = files[key]
        del files[place[-1]]

    return change


def rename(old: str, new: str) -> Callable[[Any], None]:
    def change(files: Any) -> None:
        files[new] = files.pop(old)

    return change


def repeat(path: str, row: int) -> Callable[[Any], None]:
    def change(files: Any) -> None:
        files[path].append(copy.deepcopy(files[path][row]))

    return change


def swap_messages(files: Any) -> None:
    messages = files[TALKS][0]["conversation"]
    messages[1], messages[2] = messages[2], messages[1]


def share_a_conversation(files: Any) -> None:
    shared = copy.deepcopy(files[TALKS][0]["conversation"])
    files["interactions_run3.json"][0]["conversation"] = shared[:-1]  # without the thank-you


def four_runs(files: Any) -> None:
    for kind in ("interactions", "results"):
        files[f"manual_{kind}_run3.json"] = copy.deepcopy(files[f"{kind}_run3.json"])
        for row in files[f"manual_{kind}_run3.json"] if kind == "interactions" else ():
            row["conversation"][1]["message"] = "Another day."


def two_manual(files: Any) -> None:
    for kind in ("interactions", "results"):
        for run in (2, 3):
            rename(f"{kind}_run{run}.json", f"manual_{kind}_run{run}.json")(files)


TALK, SAY = (TALKS, 0, "conversation"), f"{TALKS}: persona 7: "
RESULT = f"{SCORES}: persona 7: "
TOO_DEEP = "maximum recursion depth exceeded while decoding"
NO_LIST = f"{SCORES}: JSON list: is no list of personas, or an empty one"
DICTIONARY = "input should be a valid dictionary or instance of"
WHOLE = "bdi-score: input should be a valid integer"
UNKNOWN = f"{RESULT}key-symptoms[0]: unknown symptom"
LISTED = "; src/clinical/bdi.py lists the 21 names, not "
EXPECTING = "Expecting property name enclosed in double quotes"
NAMES = "[manual_]interactions_runN.json, [manual_]results_runN.json, N from 1 to 3"
ALONE = f"{TALKS}: runs share no information"
SYMPTOMS: Place = (SCORES, 0, "key-symptoms")
MUTATIONS: dict[str, tuple[Callable[[Any], None], list[str]]] = {
    "no JSON": (put(SCORES, value=b"[{]"), [f"{NO_LIST} ({EXPECTING}: line 1 column 3 (char 2))"]),
    "not UTF-8": (put(SCORES, value=b"[\xff]"), [
        f"{NO_LIST} ('utf-8' codec can't decode byte 0xff in position 1: invalid start byte)"]),
    "too deep": (put(SCORES, value=b"[" * 100_000), [
        f"{NO_LIST} ({TOO_DEEP} a JSON array from a unicode string)"]),
    "no list": (put(SCORES, value={}), [NO_LIST]),
    "empty list": (put(SCORES, value=[]), [NO_LIST]),
    "no object": (put(SCORES, 0, value="7"), [
        f"{SCORES}: persona of entry 1: {DICTIONARY} Conclusion, not '7'"]),
    "no score": (drop(SCORES, 0, "bdi-score"), [f"{RESULT}bdi-score: field required"]),
    "no talk": (drop(*TALK), [f"{SAY}conversation: field required"]),
    "no LLM": (drop(SCORES, 0, "LLM"), [
        f"{SCORES}: persona of entry 1: LLM: field required"]),
    "more keys": (put(SCORES, 0, "confidence", value=1), [
        f"{RESULT}confidence: extra inputs are not permitted"]),
    "number": (put(SCORES, 0, "LLM", value=7), [
        f"{RESULT}LLM: input should be a valid string, not 7"]),
    "zero": (put(SCORES, 0, "LLM", value="07"), [f"{SCORES}: persona 07: {FORM}'07'"]),
    "blank": (put(SCORES, 0, "LLM", value="7 "), [f"{SCORES}: persona 7 : {FORM}'7 '"]),
    "null": (put(SCORES, 0, "LLM", value=None), [
        f"{SCORES}: persona of entry 1: LLM: input should be a valid string, not None"]),
    "21": (put(SCORES, 0, "LLM", value="21"), [f"{SCORES}: persona 21: {FORM}'21'"]),
    "twice": (repeat(SCORES, 0), [f"{RESULT}doubled persona: stands in {SCORES} already"]),
    "no answers": (drop(SCORES, 1), [f"{TALKS}: persona 8: unpaired: is not in {SCORES}"]),
    "no talks": (drop(TALKS, 1), [f"{SCORES}: persona 8: unpaired: is not in {TALKS}"]),
    "run 4": (four_runs, [
        "the folder: number of runs: at most 3, not 4: manual_run3, run1, run2, run3"]),
    "two by hand": (two_manual, [
        "the folder: number of manual runs: at most 1, not 2: manual_run2, manual_run3"]),
    "name": (put("results_run_1.json", value=[]), [
        f"results_run_1.json: file name: the files' names are {NAMES}"]),
    "role": (put(*TALK, 1, "role", value="system"), [
        f"{SAY}message 2 is of assistant, not of 'system'"]),
    "own name as role": (put(*TALK, 1, "role", value="7"), [
        f"{SAY}message 2 is of assistant, not of '7'"]),
    "message key": (put(*TALK, 1, "time", value=1), [
        f"{SAY}conversation[1].time: extra inputs are not permitted"]),
    "message": (drop(*TALK, 1, "message"), [f"{SAY}conversation[1].message: field required"]),
    "no text": (put(*TALK, 1, "message", value=None), [
        f"{SAY}conversation[1].message: input should be a valid string, not None"]),
    "empty": (put(*TALK, 1, "message", value=" \n"), [
        rf"{SAY}conversation[1].message: string should match pattern '\S', not ' \n'"]),
    "no messages": (put(*TALK, value=[]), [
        f"{SAY}conversation: list should have at least 2 items after validation, not 0"]),
    "no message": (put(*TALK, 1, value=[]), [f"{SAY}conversation[1]: {DICTIONARY} Message"]),
    "persona first": (drop(*TALK, 0), [f"{SAY}message 1 is of user, not of 'assistant'"]),
    "silent": (put(*TALK, value=[{"role": "user", "message": "Hello?"}]), [
        f"{SAY}conversation: list should have at least 2 items after validation, not 1"]),
    "order": (swap_messages, [f"{SAY}message 2 is of assistant, not of 'user'"]),
    "half point": (put(SCORES, 0, "bdi-score", value=18.0), [f"{RESULT}{WHOLE}, not 18.0"]),
    "score as text": (put(SCORES, 0, "bdi-score", value="18"), [f"{RESULT}{WHOLE}, not '18'"]),
    "true": (put(SCORES, 0, "bdi-score", value=True), [f"{RESULT}{WHOLE}, not True"]),
    "NaN": (put(SCORES, 0, "bdi-score", value=float("nan")), [f"{RESULT}{WHOLE}, not nan"]),
    "64": (put(SCORES, 0, "bdi-score", value=64), [
        f"{RESULT}bdi-score: input should be less than or equal to 63, not 64"]),
    "-1": (put(SCORES, 0, "bdi-score", value=-1), [
        f"{RESULT}bdi-score: input should be greater than or equal to 0, not -1"]),
    "one text": (put(*SYMPTOMS, value="Sadness"), [
        f"{RESULT}key-symptoms: input should be a valid list, not 'Sadness'"]),
    "five": (put(*SYMPTOMS, value=list(bdi.NAMES[:5])), [
        f"{RESULT}key-symptoms: list should have at most 4 items after validation, not 5"]),
    "unknown": (put(*SYMPTOMS, value=["Loss of interest in others"]), [
        f"{UNKNOWN} 'Loss of interest in others'{LISTED}'Loss of interest in others'"]),
    "a number": (put(*SYMPTOMS, value=[1]), [f"{UNKNOWN} '1'{LISTED}1"]),
    "doubled": (put(*SYMPTOMS, value=["Crying", "Fatigue", "crying"]), [
        f"{RESULT}key-symptoms: a symptom stands there twice"]),
    "weight": (put(*SYMPTOMS, value=["Weight loss"]), [
        f"{UNKNOWN} 'Weight loss'{LISTED}'Weight loss'"]),
    "body": (put(*SYMPTOMS, value=["Distortion of Body Image"]), [
        f"{UNKNOWN} 'Distortion of Body Image'{LISTED}'Distortion of Body Image'"]),
    "shared": (share_a_conversation, [
        f"interactions_run3.json: persona 7: the same conversation as in {ALONE}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_breach_is_one_line_with_file_persona_and_rule(name: str) -> None:
    change, expected = MUTATIONS[name]
    files = parsed()
    change(files)
    assert lines(files) == expected


@pytest.mark.parametrize("number", ["0", "4", "01"])
def test_runs_have_the_numbers_one_to_three(number: str) -> None:
    files = parsed()
    for kind in ("interactions", "results"):
        rename(f"{kind}_run2.json", f"{kind}_run{number}.json")(files)
    wrong = f"file name: the files' names are {NAMES}"
    assert lines(files) == [f"{k}_run{number}.json: {wrong}" for k in ("interactions", "results")]


def test_one_manual_run_of_three_is_no_breach() -> None:
    files = parsed()
    for kind in ("interactions", "results"):
        rename(f"{kind}_run3.json", f"manual_{kind}_run3.json")(files)
    assert lines(files) == []


def test_a_run_may_leave_a_persona_out() -> None:
    files = parsed()
    for kind in ("interactions", "results"):
        del files[f"{kind}_run2.json"][1]
    assert lines(files) == []


def test_gold_spellings_and_other_cases_of_a_symptom_are_no_breach() -> None:
    files = parsed()
    put(*SYMPTOMS, value=["changes in sleep…".rstrip("…"), "PAST FAILURE"])(files)
    assert lines(files) == []


# layouts ------------------------------------------------------------------------------------


def folders(change: Callable[[Any], None]) -> list[str]:
    files = parsed("per_persona")
    change(files)
    return lines(files)


def test_a_folder_named_after_a_neighbour_is_a_breach() -> None:
    def off_by_one(files: Any) -> None:
        for path in [path for path in files if path.startswith("persona-07/")]:
            files[path.replace("07", "06")] = files.pop(path)

    assert folders(off_by_one) == ["persona-06: persona 7: layout: is named after another one"]


def test_both_layouts_at_once_are_a_breach() -> None:
    def moved(files: Any) -> None:
        for path in [path for path in files if path.startswith("persona-07/")]:
            files[path.removeprefix("persona-07/")] = files.pop(path)

    assert folders(moved) == [
        "the folder: layout: one file for all or a folder for each persona, not both"
    ]


def test_two_personas_in_one_of_the_folders_are_a_breach() -> None:
    def merged(files: Any) -> None:
        for path in [path for path in files if path.startswith("persona-07/")]:
            files[path] += copy.deepcopy(files[path.replace("07", "08")])

    found = folders(merged)
    assert found[0] == "persona-07: layout: a folder holds one persona, not 7, 8"
    assert found[1:] == [
        f"persona-08/{kind}_run{run}.json: persona 8: doubled persona: stands in "
        f"persona-07/{kind}_run{run}.json already"
        for run in (1, 2, 3)
        for kind in ("interactions", "results")
    ]


def test_a_missing_file_is_named_by_its_partner() -> None:
    assert folders(drop("persona-08/results_run2.json")) == [
        "persona-08/interactions_run2.json: persona 8: unpaired: is not in results_run2.json"
    ]


def test_folders_within_folders_are_read_like_those_beside_each_other() -> None:
    assert lines({f"team/{path}": rows for path, rows in parsed("per_persona").items()}) == []


# both years ---------------------------------------------------------------------------------


def of_2025() -> Files:
    """Return the files in the form of 2025: first names instead of numbers and roles."""
    text = json.dumps(parsed()).replace('"LLM": "7"', '"LLM": "Ann"')
    files: Files = json.loads(text.replace('"LLM": "8"', '"LLM": "Ben"'))
    for rows in files.values():
        for row in rows:
            for message in row.get("conversation", ()):
                message["role"] = {"assistant": row["LLM"]}.get(message["role"], "user")
    return files


def test_first_names_for_personas_and_roles_are_accepted() -> None:
    assert lines(of_2025()) == []


def test_a_role_is_nobody_elses_name() -> None:
    files = of_2025()
    files[TALKS][0]["conversation"][1]["role"] = "Ben"
    assert lines(files) == [f"{TALKS}: persona Ann: message 2 is of assistant, not of 'Ben'"]


def test_names_and_numbers_do_not_mix() -> None:
    files = of_2025()
    for rows in files.values():
        rows[1]["LLM"] = "8"
        for message in rows[1].get("conversation", ())[1::2]:
            message["role"] = "assistant"
    assert lines(files) == ["the folder: LLM: personas by number or by first name, not both"]


# whatever comes -----------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["LLM", "conversation", "bdi-score", "key-symptoms", "role", "message"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_no_content_is_too_strange_to_be_checked(one: object, other: object) -> None:
    found = lines({TALKS: [one, other], SCORES: [other], "interactions_run2.json": one})
    assert found
    assert all(line.isprintable() for line in found)
