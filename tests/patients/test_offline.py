"""Offline persons: who they are, and how they answer."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from src.clinical.bdi import BAND_NAMES, SENSITIVE, band
from src.errors import InputError
from src.patients.lines import Person, load_lines, load_persons
from src.patients.listening import Aspect
from src.patients.offline import OfflinePatient
from src.records import Question, Turn
from src.settings import OfflineThresholds

PERSONS_FILE = Path("conf/personas/offline.yaml")
LINES_FILE = Path("conf/personas/offline_lines.yaml")
PERSONS = load_persons(PERSONS_FILE)
LINES = load_lines(LINES_FILE)
SETTINGS = yaml.safe_load(Path("conf/patient/offline.yaml").read_text(encoding="utf-8"))
THRESHOLDS = OfflineThresholds.model_validate(SETTINGS["thresholds"], strict=False)

QUESTIONS = {
    1: "I'm glad you came. How have your spirits been?",
    2: "Thank you. When you look ahead, what do you see?",
    4: "That makes sense. What do you still enjoy?",
    5: "I understand. How much is on your conscience these days?",
    7: "Thank you. How do you see yourself at the moment?",
    8: "I hear you. How hard on yourself are you?",
    10: "Take your time. How close are tears for you?",
    11: "I see, thank you. How easy is it to sit still?",
    12: "Thank you. How is it with your friends lately?",
    13: "Thanks for that. How do decisions come to you?",
    14: "I appreciate it. How useful do you feel?",
    15: "Thank you. How is your energy?",
    16: "Thanks. How are your nights?",
    17: "I understand. How easily do things get on your nerves?",
    18: "Thank you. How is your appetite?",
    19: "That makes sense. How well can you concentrate?",
    20: "Thank you. How tired do you get?",
}
COLD = "Are you depressed?"
MEASURED = re.compile(
    r"depress|anhedon|diagnos|\bbdi\b|\bbeck\b|suicid|clinic|symptom|psych|therap|insomnia|libido|"
    r"disorder|patholog|ideation|anxiety|\bpatients\b",
    re.IGNORECASE,
)
METHODS = re.compile(
    r"\b(pills?|tablets?|overdos\w*|rope|hang(ed|ing)? myself|noose|knife|knives|blade|razor|cut|"
    r"gun|shoot|bridge|jump|drown\w*|train tracks?|poison|gas|bleed|veins?|wrists?)\b",
    re.IGNORECASE,
)


def patient(number: int, *, sample: int = 1, seed: int = 7, **changes: Any) -> OfflinePatient:
    person = PERSONS.person(number).model_copy(update=changes)
    return OfflinePatient(
        person,
        LINES,
        seed=seed,
        subject=f"persona-{number:02d}",
        sample=sample,
        thresholds=THRESHOLDS,
    )


def interview(
    who: OfflinePatient, texts: Sequence[str], turns: Sequence[Turn] = (), **asked: Any
) -> list[Turn]:
    """Return the turns after asking the texts, on top of the turns given."""
    held = list(turns)
    for text in texts:
        question = Question(text=text, **({"source": "model"} | asked))
        answer = asyncio.run(who.reply(held, question))
        held.append(Turn(number=len(held) + 1, question=question, answer=answer))
    return held


def told(turns: Sequence[Turn]) -> dict[int, int]:
    """Return the highest level said of each item."""
    found: dict[int, int] = {}
    for turn in turns:
        for item, level in LINES.said(turn.answer.text):
            found[item] = max(level, found.get(item, 0))
    return found


def of_manner(manner: str) -> list[Person]:
    return [person for person in PERSONS.persons if person.manner == manner]


def steady(number: int) -> OfflinePatient:
    """Return a person whose levels are the truth."""
    return patient(number, inconsistency=0.0)


# who they are


def test_five_persons_stand_in_every_band() -> None:
    assert Counter(band(person.total) for person in PERSONS.persons) == dict.fromkeys(BAND_NAMES, 5)


def test_every_manner_occurs_in_three_bands_or_more() -> None:
    for manner in ("open", "deflecting", "somatising", "talkative", "terse"):
        assert len({band(person.total) for person in of_manner(manner)}) >= 3


def test_no_person_is_at_the_top_of_the_item_on_not_wanting_to_be_here() -> None:
    assert max(person.truth[8] for person in PERSONS.persons) <= 2


def test_some_never_say_what_weighs_most() -> None:
    silent = [p for p in PERSONS.persons if p.truth[8] and 9 not in p.volunteers]
    speaking = [p for p in PERSONS.persons if p.truth[8] and 9 in p.volunteers]
    assert silent
    assert speaking


def test_an_unknown_number_is_refused() -> None:
    for number in (0, 21):
        with pytest.raises(InputError, match="1 to 20"):
            PERSONS.person(number)


# what they say


def test_every_item_and_level_has_three_wordings() -> None:
    for known in LINES.items.values():
        for level in range(4):
            assert len(known.lines[level]) >= 3
    assert len(LINES.spoken) >= 252


def test_no_line_stands_within_another() -> None:
    lines = [line for _, _, line in LINES.spoken]
    assert not [(a, b) for a in lines for b in lines if a is not b and a in b]


def test_what_was_said_can_be_read_back_from_an_answer() -> None:
    for item, level, line in LINES.spoken:
        assert LINES.said(f"Well. {line} And so on.") == ((item, level),)


def all_texts() -> list[str]:
    content = LINES.model_dump(exclude={"listening", "items"})
    texts = [line for _, _, line in LINES.spoken]
    stack = [content, *(list(p.asides) for p in PERSONS.persons)]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            texts.append(one)
        elif not isinstance(one, int):
            stack.extend(one.values() if isinstance(one, dict) else one)
    return texts


def test_nobody_talks_like_a_clinic() -> None:
    assert not [text for text in all_texts() if MEASURED.search(text)]


def test_no_dark_line_names_a_way() -> None:
    lines = [line for item, _, line in LINES.spoken if item in {1, 2, 3, 6, 7, 9, 14}]
    assert not [line for line in lines if METHODS.search(line)]


# how they answer


@pytest.mark.parametrize("number", range(1, 21))
def test_a_direct_question_is_refused_and_cools_the_next_reply(number: int) -> None:
    who, truth = steady(number), PERSONS.person(number).truth[15]
    refused, cooled = interview(who, [COLD, "Thank you. How have you been sleeping?"])
    assert refused.answer.text in LINES.refusals
    said = LINES.said(cooled.answer.text)
    assert len(said) <= 1
    assert all(pair == (16, max(0, truth - 1)) for pair in said)
    assert cooled.answer.text.startswith(LINES.cool)


def test_the_chill_lasts_one_reply() -> None:
    warm = "Thank you. How have you been sleeping?"
    turns = interview(steady(11), [COLD, warm, "I see. What is that like?"])
    assert [told(turns[:n])[16] for n in (2, 3)] == [2, 3]


def test_asking_after_sex_cools_as_well() -> None:
    _, cooled = interview(steady(11), ["How is your sex life?", QUESTIONS[16]])
    assert cooled.answer.text.startswith(LINES.cool)


def test_a_cooled_person_answers_one_thing_and_lets_nothing_slip() -> None:
    _, stacked = interview(steady(11), [COLD, "Thank you. How do you sleep, and how do you eat?"])
    assert [item for item, _ in LINES.said(stacked.answer.text)] == [16]
    for number in range(1, 21):
        _, general = interview(steady(number), [COLD, "I'm sorry. How have things been lately?"])
        assert not LINES.said(general.answer.text)


def test_nobody_takes_back_what_was_said() -> None:
    told_before, _, cooled = interview(steady(11), [QUESTIONS[16], COLD, "Tell me of your nights."])
    assert told([told_before])[16] == 3
    assert dict(LINES.said(cooled.answer.text)).get(16, 3) == 3


@pytest.mark.parametrize("number", [person.number for person in of_manner("deflecting")])
def test_a_deflecting_person_opens_on_a_gentle_follow_up(number: int) -> None:
    who = steady(number)
    for item, text in QUESTIONS.items():
        truth = PERSONS.person(number).truth[item - 1]
        first, second = interview(who, [text, "Thank you for that. What is that like for you?"])
        assert dict(LINES.said(first.answer.text)).get(item, 0) == max(0, truth - 1) or (
            first.answer.text.endswith(tuple(LINES.deflections))
        )
        assert told([first, second]).get(item, 0) == truth


def test_opening_up_is_marked_as_such() -> None:
    _, second = interview(steady(19), ["How do you sleep?", "I see. What is that like for you?"])
    assert any(line in second.answer.text for line in LINES.opened)
    _, second = interview(steady(11), ["How do you sleep?", "I see. What is that like for you?"])
    assert not any(line in second.answer.text for line in LINES.opened)


def test_a_deflecting_person_looks_well_and_lets_little_slip() -> None:
    for person in of_manner("deflecting"):
        (turn,) = interview(steady(person.number), ["Hello! How have things been lately?"])
        assert any(line in turn.answer.text for line in LINES.general["minimal"])
        strongest = max(v for n, v in enumerate(person.truth, 1) if n not in SENSITIVE)
        levels = [level for _, level in LINES.said(turn.answer.text)]
        assert levels == ([strongest - 1] if strongest > 1 else [])


def test_a_deflecting_person_stays_put_when_pressed() -> None:
    first, second = interview(steady(19), ["Are you sleeping?", "Are you sleeping or not?"])
    assert told([first, second]).get(16, 0) < PERSONS.person(19).truth[15]


@pytest.mark.parametrize("number", [person.number for person in of_manner("open")])
def test_an_open_person_says_it_when_asked_openly(number: int) -> None:
    for item, text in QUESTIONS.items():
        (turn,) = interview(steady(number), [text])
        assert dict(LINES.said(turn.answer.text))[item] == PERSONS.person(number).truth[item - 1]


@pytest.mark.parametrize("number", [person.number for person in of_manner("somatising")])
def test_a_somatising_person_speaks_of_the_body_first(number: int) -> None:
    truth = PERSONS.person(number).truth
    (body,) = interview(steady(number), [QUESTIONS[16]])
    assert told([body])[16] == truth[15]
    feeling = next(item for item in (1, 4, 5) if truth[item - 1])
    first, second = interview(steady(number), [QUESTIONS[feeling], "I see. What is that like?"])
    assert any(line in first.answer.text for line in LINES.bodily)
    assert feeling not in told([first])
    assert told([second])[feeling] == truth[feeling - 1]


def test_a_somatising_person_lets_the_body_slip_first() -> None:
    (turn,) = interview(steady(18), ["Hello! How have things been lately?"])
    assert {item for item, _ in LINES.said(turn.answer.text)} <= {11, 15, 16, 18, 20}
    assert len(LINES.said(turn.answer.text)) == 2


def test_nothing_slips_twice() -> None:
    turns = interview(steady(11), ["How have things been?", "How is everything else?"] * 3)
    slipped = [item for turn in turns for item, _ in LINES.said(turn.answer.text)]
    assert len(slipped) == len(set(slipped)) > 6


def test_a_closed_question_brings_no_further_symptom_from_an_open_person() -> None:
    for sample in range(20):
        (turn,) = interview(patient(11, sample=sample), ["Do you sleep badly?"])
        assert {item for item, _ in LINES.said(turn.answer.text)} == {16}


def test_talkative_persons_talk_more_than_terse_ones() -> None:
    def words(manner: str) -> list[int]:
        turns = [interview(patient(p.number), list(QUESTIONS.values())) for p in of_manner(manner)]
        return [len(t.answer.text.split()) for one in turns for t in one]

    talkative, terse = words("talkative"), words("terse")
    assert sum(talkative) / len(talkative) > 1.5 * sum(terse) / len(terse)


def test_an_open_question_gets_more_than_a_closed_one() -> None:
    def heard(text: str) -> int:
        numbers = [person.number for person in of_manner("open") + of_manner("talkative")]
        pairs = [(number, sample) for number in numbers for sample in range(8)]
        return sum(
            sum(told(interview(patient(number, sample=sample), [text])).values())
            for number, sample in pairs
        )

    assert heard("Thank you. How have you been sleeping?") > heard("Do you sleep badly?")


@pytest.mark.parametrize("number", range(1, 21))
def test_stacked_questions_get_an_answer_to_two_at_most(number: int) -> None:
    who = patient(number)
    text = "Do you sleep, do you eat, can you concentrate, are you tired, are you on edge?"
    (turn,) = interview(who, [text])
    asked = {16, 18, 19, 20, 11}
    extra = 1 if PERSONS.person(number).manner == "talkative" else 0
    assert len({item for item, _ in LINES.said(turn.answer.text)} & asked) <= 2 + extra


@pytest.mark.parametrize("aspect", ["frequency", "duration", "impact"])
def test_a_follow_up_gets_the_severity_spelled_out(aspect: Aspect) -> None:
    follow_up = {
        "frequency": "How often is that?",
        "duration": "How long has it been so?",
        "impact": "How does it affect your day?",
    }[aspect]
    truth = PERSONS.person(11).truth[15]
    _, turn = interview(steady(11), [QUESTIONS[16], follow_up])
    spelled_out = LINES.spelled_out[aspect]
    assert any(line in turn.answer.text for line in spelled_out[truth])
    assert (16, truth) in LINES.said(turn.answer.text)


def test_a_follow_up_is_about_what_it_reflects() -> None:
    texts = [QUESTIONS[16], QUESTIONS[18], "You spoke of long nights. How often is that?"]
    turns = interview(steady(11), texts)
    assert 16 in told(turns[2:])
    assert 18 not in told(turns[2:])


def test_a_follow_up_is_about_what_is_there() -> None:
    _, turn = interview(steady(6), ["How do you eat, and how do you sleep?", "How often is that?"])
    spelled_out = LINES.spelled_out["frequency"][PERSONS.person(6).truth[15]]
    assert any(line in turn.answer.text for line in spelled_out)


def test_a_general_question_is_not_about_what_it_reflects() -> None:
    text = "Those nights must be long. And how have things been otherwise?"
    (turn,) = interview(steady(8), [text])
    assert any(line in turn.answer.text for line in LINES.general["minimal"])
    assert 16 not in told([turn])


def test_a_general_opener_lets_the_strongest_slip() -> None:
    for person in of_manner("open") + of_manner("talkative"):
        (turn,) = interview(steady(person.number), ["Hello! How have things been lately?"])
        said = LINES.said(turn.answer.text)
        probed = [v for n, v in enumerate(person.truth, 1) if n not in SENSITIVE]
        assert [level for _, level in said] == sorted(probed, reverse=True)[:2]


def test_a_question_on_nothing_known_gets_small_talk() -> None:
    for person in PERSONS.persons:
        _, turn = interview(patient(person.number), ["Hello!", "Which colour is your door?"])
        assert not LINES.said(turn.answer.text)
        assert turn.answer.text.startswith((*LINES.small_talk, *person.asides))


@pytest.mark.parametrize("again", [QUESTIONS[16], "Do you sleep badly?"])
def test_a_repeated_question_is_answered_shortly(again: str) -> None:
    first, second = interview(steady(6), [QUESTIONS[16], again])
    assert told([first])[16] == PERSONS.person(6).truth[15]
    assert any(line in second.answer.text for line in LINES.repeats)
    assert 16 not in told([second])


def test_the_same_topic_asked_otherwise_gets_other_words() -> None:
    first, second = interview(steady(11), [QUESTIONS[16], "I see. And what is a night like?"])
    assert told([first])[16] == told([second])[16] == PERSONS.person(11).truth[15]
    assert first.answer.text != second.answer.text


def test_what_is_not_there_is_denied() -> None:
    for person in PERSONS.persons:
        for item, text in QUESTIONS.items():
            if person.truth[item - 1] == 0:
                (turn,) = interview(steady(person.number), [text])
                assert dict(LINES.said(turn.answer.text))[item] == 0


def test_a_person_does_not_repeat_a_wording_while_another_is_left() -> None:
    texts = [f"I see, {word}. How are your nights?" for word in ("yes", "well", "so", "then", "ah")]
    for sample in range(5):
        turns = interview(patient(11, sample=sample), texts)
        lines = [
            line for i, _, line in LINES.spoken for t in turns if line in t.answer.text and i == 16
        ]
        assert len(lines) == len(set(lines)) == len(texts)


def test_the_wording_depends_on_the_turn() -> None:
    def wordings(texts: Sequence[str]) -> list[list[str]]:
        answers = [interview(patient(11, sample=n), texts)[-1].answer.text for n in range(10)]
        return [[x for i, _, x in LINES.spoken if i == 16 and x in one] for one in answers]

    assert wordings([QUESTIONS[16]]) != wordings(["Which colour is your door?", QUESTIONS[16]])


def test_what_is_not_there_has_no_frequency() -> None:
    _, turn = interview(steady(6), [QUESTIONS[18], "How often is that?"])
    assert any(line in turn.answer.text for line in LINES.nothing_there)


def test_a_brusque_interviewer_is_told_nothing_private() -> None:
    for number in (3, 9, 11, 16):
        turns = interview(patient(number), ["Do you sleep badly?", "Do you eat?"] * 8)
        assert not set(told(turns)) & SENSITIVE


def test_what_has_become_more_is_not_told_as_less() -> None:
    person = PERSONS.person(9)
    assert 18 in person.increasing
    (turn,) = interview(steady(9), [QUESTIONS[18]])
    more = LINES.increase[18][person.truth[17]]
    assert any(line in turn.answer.text for line in more)


def test_the_young_have_words_of_their_own() -> None:
    for number, young in ((10, True), (4, False)):
        turns = interview(steady(number), list(QUESTIONS.values()))
        spoken = "\n".join(turn.answer.text for turn in turns)
        own = [w for k in LINES.items.values() for ws in k.younger.values() for w in ws]
        assert any(line in spoken for line in own) == young


# what is never asked about

PRIVATE = [
    "Do you regret things in your past?",
    "Do you feel that you failed?",
    "Do you feel punished?",
    "Is it what you deserve, you think?",
    "Do you sometimes wish for not being here?",
    "Have you thought of suicide?",
    "How is your sex life?",
    "Has intimacy changed for you?",
]


@pytest.mark.parametrize("number", range(1, 21))
def test_private_things_are_never_answered_on_a_direct_question(number: int) -> None:
    for sample in range(3):
        for text in PRIVATE:
            turns = interview(patient(number, sample=sample), [*list(QUESTIONS.values())[:6], text])
            answer = turns[-1].answer.text
            assert not LINES.said(answer)
            assert answer in (*LINES.refusals, *LINES.evasions)


def test_private_things_come_up_only_with_trust_and_only_from_some() -> None:
    spoken: Counter[int] = Counter()
    for person in PERSONS.persons:
        for sample in range(6):
            turns = interview(patient(person.number, sample=sample), list(QUESTIONS.values()))
            for turn in turns:
                private = {item for item, _ in LINES.said(turn.answer.text)} & SENSITIVE
                assert private <= set(person.volunteers)
                assert not private or turn.number > THRESHOLDS.trust_after
                spoken[person.number] += bool(private)
    assert spoken.total() > 0
    assert not any(spoken[person.number] for person in of_manner("terse"))


def test_a_cold_question_ends_the_trust_for_good() -> None:
    for person in PERSONS.persons:
        turns = interview(patient(person.number), [COLD, *QUESTIONS.values()])
        assert not set(told(turns)) & SENSITIVE


# what an answer depends on


def test_the_same_question_gets_the_same_answer() -> None:
    texts = list(QUESTIONS.values())
    assert interview(patient(3), texts) == interview(patient(3), texts)


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(min_value=0, max_value=17), number=st.integers(min_value=1, max_value=20))
def test_an_interview_taken_up_again_is_the_uninterrupted_one(cut: int, number: int) -> None:
    texts = ["Hello! How have things been?", *QUESTIONS.values()]
    whole = interview(patient(number), texts)
    stored = [Turn.model_validate_json(turn.model_dump_json()) for turn in whole[:cut]]
    assert interview(patient(number), texts[cut:], stored) == whole


def test_focus_and_source_of_a_question_are_ignored() -> None:
    texts = ["How have things been?", "And how is that?", *QUESTIONS.values()]
    plain = interview(patient(6), texts)
    told_off = interview(patient(6), texts, source="tree:sleep", focus=(16, 18))
    assert [turn.answer for turn in plain] == [turn.answer for turn in told_off]


def test_another_sample_is_another_conversation() -> None:
    texts = list(QUESTIONS.values())
    for number in range(1, 21):
        one, two = (interview(patient(number, sample=sample), texts) for sample in (1, 2))
        assert [turn.answer.text for turn in one] != [turn.answer.text for turn in two]


def test_inconsistency_does_not_depend_on_the_interviewer() -> None:
    for sample in range(10):
        one = interview(patient(6, sample=sample), list(QUESTIONS.values()))
        two = interview(patient(6, sample=sample), list(QUESTIONS.values())[::-1])
        probed = {n: v for n, v in enumerate(patient(6, sample=sample).levels, 1) if n in QUESTIONS}
        for turns in (one, two):
            assert {n: v for n, v in told(turns).items() if n in QUESTIONS} == probed


def test_inconsistency_depends_on_the_run_the_subject_and_the_sample() -> None:
    levels = {patient(6, sample=sample, seed=seed).levels for sample in (1, 2) for seed in (1, 2)}
    assert len(levels) == 4


def test_the_share_of_inconsistent_items_is_the_persons_own() -> None:
    person = PERSONS.person(6)
    changed = [
        level != truth
        for sample in range(300)
        for item, (level, truth) in enumerate(
            zip(patient(6, sample=sample).levels, person.truth, strict=True), 1
        )
        if item not in SENSITIVE
    ]
    share = sum(changed) / len(changed)  # a slip below 0 or above 3 changes nothing
    assert 0.6 * person.inconsistency < share <= 1.1 * person.inconsistency


def test_an_inconsistent_item_may_be_two_levels_off() -> None:
    truth = PERSONS.person(6).truth
    steps = {
        abs(level - true)
        for sample in range(100)
        for level, true in zip(patient(6, sample=sample).levels, truth, strict=True)
    }
    assert steps == {0, 1, 2}


def test_private_items_are_never_inconsistent() -> None:
    for sample in range(50):
        levels = patient(19, sample=sample).levels
        assert all(levels[item - 1] == PERSONS.person(19).truth[item - 1] for item in SENSITIVE)


def test_the_draws_are_the_same_on_every_machine() -> None:
    assert "".join(map(str, patient(6, sample=3).levels)) == "212130221112211200200"


# malformed files


def edited(tmp_path: Path, source: Path, old: str, new: str) -> Path:
    text = source.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / source.name
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("truth: [0, 0,", "truth: [4, 0,", r"persons\[0\]\.truth\[0\]"),
        ("truth: [0, 0,", "truth: [0,", r"persons\[0\]\.truth.*21"),
        ("truth: [0, 0,", "truth: [0, 0.5,", r"persons\[0\]\.truth\[1\]"),
        ("manner: open", "manner: cheerful", r"persons\[0\]\.manner"),
        ("manner: open", "manner: open\n    mood: low", r"persons\[0\]\.mood"),
        ("volunteers: []", "volunteers: [9]", r"persons\[0\].*item 9"),
        (
            "increasing: [16]",
            "increasing: [15]",
            r"persons\[0\]\.increasing\[0\]: .*16 or 18, not 15",
        ),
        ("number: 2\n", "number: 3\n", "person 2 has the number 3"),
        ("inconsistency: 0.1\n", "inconsistency: 1.1\n", r"persons\[0\]\.inconsistency"),
    ],
)
def test_a_malformed_person_ends_with_one_line(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    path = edited(tmp_path, PERSONS_FILE, old, new)
    with pytest.raises(InputError, match=place) as caught:
        load_persons(path)
    assert "\n" not in str(caught.value)
    assert "offline.yaml" in str(caught.value)


def drop_level(lines: dict[str, Any]) -> None:
    del lines["items"][5]["lines"][2]


def drop_wording(lines: dict[str, Any]) -> None:
    lines["items"][3]["lines"][1].pop()


def drop_item(lines: dict[str, Any]) -> None:
    del lines["items"][21]


def add_level(lines: dict[str, Any]) -> None:
    lines["items"][5]["lines"][4] = ["One.", "Two.", "Three."]


def say_twice(lines: dict[str, Any]) -> None:
    lines["items"][5]["lines"][1][0] = lines["items"][1]["lines"][1][0]


def spell_out_nothing(lines: dict[str, Any]) -> None:
    del lines["spelled_out"]["duration"][3]


def drop_increase(lines: dict[str, Any]) -> None:
    del lines["increase"][16]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (drop_level, r"items\[5\]\.lines: level 2 is missing"),
        (drop_wording, r"items\[3\]\.lines\[1\].*at least 3"),
        (drop_item, "item 21 is missing"),
        (add_level, r"items\[5\]\.lines\[4\]"),
        (say_twice, "stands twice"),
        (spell_out_nothing, r"spelled_out\.duration: level 3 is missing"),
        (drop_increase, "increase: item 16 is missing"),
    ],
)
def test_malformed_lines_end_with_one_line(tmp_path: Path, damage: Any, complaint: str) -> None:
    content = yaml.safe_load(LINES_FILE.read_text(encoding="utf-8"))
    damage(content)
    path = tmp_path / "offline_lines.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as caught:
        load_lines(path)
    assert "\n" not in str(caught.value)
