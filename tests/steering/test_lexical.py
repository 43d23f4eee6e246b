import asyncio
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from src.errors import InputError
from src.prompts import load_yaml, located
from src.records import Answer, Assessment, Question, Turn
from src.settings import LexicalThresholds
from src.steering.cues import Cues
from src.steering.lexical import LexicalScorer

OPTION = yaml.safe_load(located("conf/scorer/lexical.yaml").read_text(encoding="utf-8"))
CUES = load_yaml(OPTION["cues"], Cues)
SCORER = LexicalScorer(CUES, LexicalThresholds(**OPTION["thresholds"]))
ANOTHER = LexicalScorer(CUES, LexicalThresholds(**OPTION["thresholds"]))
GO_ON = "Please tell me more."


def talk(*exchanges: tuple[str, str]) -> tuple[Turn, ...]:
    return tuple(
        Turn(number=n, question=Question(text=q, source="fixed"), answer=Answer(text=a))
        for n, (q, a) in enumerate(exchanges, 1)
    )


def scored(*exchanges: tuple[str, str]) -> Assessment:
    return asyncio.run(SCORER.score(talk(*exchanges)))


def level(item: int, reply: str, question: str = GO_ON) -> int | None:
    symptom = scored((question, reply))[item]
    return symptom.score if symptom.assessed else None


def test_silence_assesses_nothing() -> None:
    assert scored().assessed == ()
    assert scored((GO_ON, "…"), (GO_ON, "😊"), (GO_ON, "*shrugs*")).assessed == ()


@pytest.mark.parametrize(
    "reply",
    [
        "We had a barbecue on Sunday and the kids ran wild.",
        "The film was so sad, but beautiful.",
        "We laughed so hard we cried.",
        "My mother is tired all the time.",
        "He says I am always angry.",
        "If I lost my dog I would cry for weeks.",
        "I used to hate myself at school.",
        "Do you ever feel hopeless?",
        "I'm off to the shops, the traffic is heavy.",
        "My energy bills are up again.",
        "People keep telling me I look tired.",
    ],
)
def test_what_is_no_complaint_of_ones_own_is_not_scored(reply: str) -> None:
    assert scored((GO_ON, reply)).total == 0


@pytest.mark.parametrize(
    ("item", "mild", "worse", "worst"),
    [
        (1, "I feel sad sometimes.", "I feel sad a lot.", "I feel sad all the time."),
        (20, "I'm a bit tired.", "I'm tired most of the time.", "I'm constantly tired."),
        (17, "I'm irritable at times.", "I'm irritable most days.", "I'm irritable all the time."),
    ],
)
def test_frequency_grades_a_complaint(item: int, mild: str, worse: str, worst: str) -> None:
    assert [level(item, reply) for reply in (mild, worse, worst)] == [1, 2, 3]


def test_a_denial_is_assessed_and_scores_zero() -> None:
    assert level(1, "I'm not sad.") == 0
    assert level(10, "I never cry.") == 0


def test_a_negated_strength_is_a_complaint() -> None:
    assert level(16, "I don't sleep well.") == 1


@pytest.mark.parametrize(
    ("question", "answer", "item", "expected"),
    [
        ("How's your appetite been?", "Not great.", 18, 1),
        ("How's your appetite been?", "Fine.", 18, 0),
        ("Do you find yourself crying more than usual?", "Almost every day.", 10, 2),
        ("Do you find yourself crying more than usual?", "No, not really.", 10, 0),
        ("Do you still enjoy your hobbies?", "Yes, of course!", 4, 0),
        ("Do you still enjoy your hobbies?", "No.", 4, 1),
        ("How have you been sleeping?", "I'd rather not say.", 16, None),
        ("How was your week?", "Fine, busy.", 1, None),
    ],
)
def test_a_short_answer_borrows_its_topic_from_the_question(
    question: str, answer: str, item: int, expected: int | None
) -> None:
    assert level(item, answer, question) == expected


def test_how_often_is_asked_of_what_was_just_said() -> None:
    told = ("Are decisions harder than they were?", "Yeah, a bit.")
    assert scored(told)[13].score == 1
    assert scored(told, ("How often does that happen?", "All the time."))[13].score == 2


def test_death_and_sex_count_only_where_they_are_volunteered() -> None:
    assert level(9, "Some nights I wish I was dead.") == 2
    assert level(9, "I wish I was dead.", "Do you ever wish you were dead?") is None
    assert level(9, "Yes.", "Do you have thoughts of death?") is None
    assert level(21, "Yes, a lot.", "Has your interest in sex changed?") is None


def test_some_enjoyment_left_caps_loss_of_pleasure() -> None:
    assert level(4, "Nothing gives me any joy at all.") == 3
    assert level(4, "Nothing gives me any joy at all. I still enjoy my coffee, though.") == 2


def test_the_next_sentence_may_say_how_often() -> None:
    assert level(1, "I feel sad. It's pretty much constant.") == 3


def test_the_interviewers_words_are_never_evidence() -> None:
    total = scored(("You sound sad and hopeless, and you cry all the time.", "The bus was late."))
    assert total.assessed == ()


WORDS = st.sampled_from(
    ["I", "I'm", "not", "never", "sad", "tired", "sleep", "hopeless", "my", "sister", "cry", "—",
     "and", "but", "enjoy", "nothing", "all the time.", "*sighs*", "😀", "…", "a bit", "?", "I’ve"]
)  # fmt: skip
REPLIES = st.lists(WORDS, min_size=1, max_size=25).map(" ".join)


@given(REPLIES)
def test_evidence_is_an_exact_piece_of_the_reply(reply: str) -> None:
    for symptom in scored((GO_ON, reply)).symptoms:
        assert symptom.evidence in reply
        assert bool(symptom.evidence) == symptom.assessed


@given(st.lists(REPLIES, min_size=1, max_size=4))
def test_reading_again_or_by_another_scorer_changes_nothing(replies: list[str]) -> None:
    turns = talk(*((GO_ON, reply) for reply in replies))
    assert asyncio.run(ANOTHER.score(turns)) == asyncio.run(SCORER.score(turns))
    assert asyncio.run(ANOTHER.score(turns)) == asyncio.run(ANOTHER.score(turns))


def test_signals_are_the_items_a_reply_complains_of() -> None:
    assert SCORER.signals("I'm tired all the time and I can't focus. I'm not sad.") == (19, 20)
    assert SCORER.signals("Lovely weather.") == ()


def test_seventeen_turns_are_scored_in_milliseconds() -> None:
    reply = "I'm tired and I don't sleep well, number {}. My sister is fine, but I can't focus."
    turns = talk(*((f"How is it, {n}?", reply.format(n)) for n in range(17)))
    start = time.perf_counter()
    for n in range(1, 18):
        asyncio.run(SCORER.score(turns[:n]))
    assert (time.perf_counter() - start) / 17 < 0.03  # 3 ms aimed at; ten times that on a busy core


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sentence: 16", "sentence: many"), "reach.sentence"),
        (("traps: >-", "trapz: >-"), "traps"),
        (("  21: #", "  22: #"), "items"),
        (("<wake>", "<woke>"), "no list of words is called <woke>"),
        (("sad; sadness;", "(sad; sadness;"), "malformed phrase"),
    ],
)
def test_a_bad_cue_file_is_one_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    good = located(OPTION["cues"]).read_text(encoding="utf-8")
    assert change[0] in good
    path = tmp_path / "cues.yaml"
    path.write_text(good.replace(*change), encoding="utf-8")
    with pytest.raises(InputError, match=message) as error:
        load_yaml(path, Cues)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
