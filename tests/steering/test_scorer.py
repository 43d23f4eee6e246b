"""The scorer with a model: its sheet, its rubric, its one repair, and what it never makes up."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from terminal import ROOT

from src.clinical.bdi import NAMES
from src.errors import InputError, ModelFailed, QuotaExhausted, ScorerFailed, ServerError
from src.llm.caller import Reply, Request
from src.llm.structured import lint
from src.records import Answer, Call, Question, Turn
from src.settings import BDISettings
from src.steering.scorer import BDIScorer, load_texts, refuse_borrowed, rubric_text
from src.steering.sheet import FIELDS, assessment_schema, parse_assessment

RUBRIC = "prompts/rubric.yaml"
Sheet = dict[str, dict[str, Any]]


def settings(option: str = "gpt", **changes: Any) -> BDISettings:
    content = yaml.safe_load((ROOT / f"conf/scorer/{option}.yaml").read_text(encoding="utf-8"))
    return BDISettings.model_validate_json(json.dumps(content | changes))


TEXTS = load_texts(settings())
TURNS = (
    Turn(
        number=1,
        question=Question(text="Have you been sleeping all the way through?", source="fixed"),
        answer=Answer(text="No. I’m up at four <most> nights,  and I lie there & think."),
    ),
)


def sheet(**items: dict[str, Any]) -> Sheet:
    """Return a sheet on which nothing was assessed but the given items."""
    blank = {"evidence": "", "confidence": 0.0, "score": 0}
    return {name: blank | items.get(name, {}) for name in FIELDS}


SLEEP = {"evidence": "I'm up at four <most> nights", "confidence": 0.8, "score": 2}
GOOD = json.dumps(sheet(changes_in_sleeping_pattern=SLEEP))


@dataclass
class Model:
    """Gives its answers in order, or raises them; remembers what it was asked."""

    answers: list[str | Exception]
    asked: list[Request] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply:
        self.asked.append(request)
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        call = Call(role="scorer", asked="gpt-5-nano", attempt=len(self.asked))
        return Reply(text=answer, truncated=False, calls=(call,))


def scorer(model: Model, **changes: Any) -> BDIScorer:
    return BDIScorer(model, settings=settings(**changes), texts=TEXTS)


# the schema


def test_the_fields_are_the_official_names_in_order() -> None:
    assert [name.replace("_", " ") for name in FIELDS] == [
        name.lower().replace("-", " ") for name in NAMES
    ]


@pytest.mark.parametrize(
    ("order", "parts"),
    [
        ("evidence_first", ["evidence", "confidence", "score"]),
        ("score_first", ["score", "confidence", "evidence"]),
    ],
)
def test_the_schema_is_closed_typed_and_in_the_order_of_thought(
    order: Any, parts: list[str]
) -> None:
    schema = assessment_schema(order)
    assert lint(schema) == []
    assert list(schema["properties"]) == list(FIELDS)
    for item in schema["properties"].values():
        assert list(item["properties"]) == parts == item["required"]
        assert item["properties"]["score"] == {"type": "integer", "enum": [0, 1, 2, 3]}
        assert item["properties"]["evidence"] == {"type": "string"}


@pytest.mark.parametrize("order", ["evidence_first", "score_first"])
def test_the_schema_bounds_the_evidence_where_told(order: Any) -> None:
    schema = assessment_schema(order, 80)
    assert lint(schema) == []
    bound = {"type": "string", "maxLength": 80}
    assert all(i["properties"]["evidence"] == bound for i in schema["properties"].values())


# the reading

SYMPTOM = st.one_of(
    st.fixed_dictionaries(
        {"evidence": st.text(st.characters(codec="utf-8"), max_size=20).map(str.strip),
         "confidence": st.floats(0.001, 1), "score": st.integers(0, 3)}
    ),
    st.just({"evidence": "", "confidence": 0, "score": 0}),
)  # fmt: skip


@given(st.lists(SYMPTOM, min_size=21, max_size=21), st.randoms())
def test_a_whole_sheet_is_read_as_written_in_any_order_of_keys(
    items: list[dict[str, Any]], random: Any
) -> None:
    named = list(zip(FIELDS, items, strict=True))
    random.shuffle(named)
    read = parse_assessment(json.dumps(dict(named)))
    for number, item in enumerate(items, 1):
        assert read[number].score == item["score"]
        assert read[number].confidence == item["confidence"]
        assert read[number].evidence == item["evidence"]
        assert not read[number].imputed


def test_a_score_of_0_with_confidence_0_is_not_assessed_and_a_denial_is() -> None:
    denied = {"evidence": "I sleep like a log", "confidence": 0.9, "score": 0}
    read = parse_assessment(json.dumps(sheet(changes_in_sleeping_pattern=denied)))
    assert read.assessed == (16,)
    assert read.total == 0


def bad_value(part: str, text: str) -> str:
    """Return a sheet in which one part of the item crying is the given piece of JSON."""
    item = json.dumps({"evidence": "I cry", "confidence": 0.5, "score": 1} | {part: "@"})
    return json.dumps(sheet(crying={"score": "@@"})).replace(
        '{"evidence": "", "confidence": 0.0, "score": "@@"}', item.replace('"@"', text)
    )


@pytest.mark.parametrize(
    ("part", "text", "kind"),
    [
        ("score", '"2"', "schema_violated"),
        ("score", "true", "schema_violated"),
        ("score", "2.5", "schema_violated"),
        ("score", "2.0", "schema_violated"),
        ("score", "4", "schema_violated"),
        ("score", "-1", "schema_violated"),
        ("score", "null", "schema_violated"),
        ("score", "[2]", "schema_violated"),
        ("score", "2/3", "unparseable"),
        ("score", "2-3", "unparseable"),
        ("score", "NaN", "unparseable"),
        ("confidence", "NaN", "unparseable"),
        ("confidence", "Infinity", "unparseable"),
        ("confidence", "1e999", "unparseable"),
        ("confidence", "1.01", "schema_violated"),
        ("confidence", "-0.1", "schema_violated"),
        ("confidence", '"0.5"', "schema_violated"),
        ("confidence", "true", "schema_violated"),
        ("confidence", "0", "schema_violated"),
        ("evidence", "null", "schema_violated"),
        ("evidence", '["I cry"]', "schema_violated"),
        ("evidence", '"I cry", "score": 1', "schema_violated"),
        ("evidence", '"I cry", "why": 1', "schema_violated"),
    ],
)
def test_no_wrong_value_is_read_as_a_right_one(part: str, text: str, kind: str) -> None:
    with pytest.raises(ModelFailed) as refused:
        parse_assessment(bad_value(part, text))
    assert refused.value.kind == kind
    assert "\n" not in str(refused.value)
    if kind == "schema_violated" and "twice" not in str(refused.value):
        assert "crying" in str(refused.value)


def without(name: str) -> Sheet:
    return {key: value for key, value in sheet().items() if key != name}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps(without("crying")), "missing: crying"),
        (json.dumps(sheet() | {"q10_crying": {}}), "unknown: 'q10_crying'"),
        (json.dumps({"scores": sheet()}), "unknown: 'scores'"),
        (json.dumps([sheet()]), "no object"),
        (json.dumps(sheet() | {"crying": 2}), "crying"),
        (json.dumps(without("crying") | {"agitation": {"crying": {}}}), "missing: crying"),
        (GOOD[:-1] + ', "crying": {"evidence": "", "confidence": 0, "score": 0}}', "twice"),
        (GOOD + "\nAll done.", "Extra data"),
        (f"```json\n{GOOD}\n```", "bare JSON"),
        ("I cannot rate this.", "no JSON"),
        (
            json.dumps(sheet(crying={"score": 1, "confidence": 0})),
            "crying: a score above 0 with confidence 0 contradicts itself",
        ),
    ],
)
def test_a_sheet_of_another_form_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ModelFailed, match=re.escape(reason)):
        parse_assessment(text)


# the evidence


def evidence(text: str) -> None:
    item = {"evidence": text, "confidence": 0.8, "score": 2}
    refuse_borrowed(parse_assessment(json.dumps(sheet(changes_in_sleeping_pattern=item))), TURNS)


@pytest.mark.parametrize(
    "text",
    [
        "I'm up at four <most> nights",
        "i’m UP at four",
        "I'm up at four &lt;most&gt; nights, and I lie there &amp; think",
        "up at four … lie there",
        "up at four...lie there",
        '"Have you been sleeping all the way through?" "No."',
        'Asked "Have you been sleeping all the way through?": "four &lt;most&gt; nights"',
        "wakes in the small hours most nights",  # a paraphrase
        "sleeping",  # stands in the question too, yet is no more than a word
        "",
    ],
)
def test_the_personas_words_and_paraphrases_of_them_are_evidence(text: str) -> None:
    evidence(text)


@pytest.mark.parametrize(
    "text",
    [
        "Have you been sleeping all the way through?",
        "have you been sleeping",
        'Interviewer: "Have you been sleeping all the way through?"',
        "Have you been sleeping … all the way through",
    ],
)
def test_the_interviewers_words_alone_are_no_evidence(text: str) -> None:
    with pytest.raises(ModelFailed, match="changes_in_sleeping_pattern") as refused:
        evidence(text)
    assert refused.value.kind == "schema_violated"


def test_a_fragment_does_not_span_two_messages() -> None:
    halves = tuple(
        TURNS[0].model_copy(update={"number": n, "answer": Answer(text=text)})
        for n, text in enumerate(("Things one may have", "you been sleeping"), 1)
    )
    item = {"evidence": "have you been sleeping", "confidence": 0.8, "score": 2}
    assessment = parse_assessment(json.dumps(sheet(changes_in_sleeping_pattern=item)))
    with pytest.raises(ModelFailed):
        refuse_borrowed(assessment, halves)


# the scorer


async def test_a_good_answer_is_an_assessment_with_its_calls() -> None:
    model = Model([GOOD])
    assessment = await scorer(model).score(TURNS)
    assert assessment.assessed == (16,)
    assert [call.attempt for call in assessment.calls] == [1]
    (request,) = model.asked
    assert request.turn == 1
    assert request.schema == assessment_schema("evidence_first")
    assert request.settings.max_tokens == 3000
    assert [message["role"] for message in request.messages] == ["system", "user"]


async def test_the_transcript_grows_only_at_its_end() -> None:
    model = Model([GOOD, GOOD])
    await scorer(model).score(TURNS)
    await scorer(model).score([*TURNS, TURNS[0].model_copy(update={"number": 2})])
    first, second = (request.messages for request in model.asked)
    assert second[0] == first[0]
    assert second[1]["content"].startswith(first[1]["content"])


async def test_a_bad_answer_is_sent_back_once_with_the_reason() -> None:
    bad = json.dumps(sheet(crying={"score": 7, "confidence": 0.5}))
    model = Model([bad, GOOD])
    assessment = await scorer(model).score(TURNS)
    assert len(assessment.calls) == 2
    first, second = (list(request.messages) for request in model.asked)
    assert second[:2] == first
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[2]["content"] == bad
    assert "crying.score" in second[3]["content"]


async def test_evidence_of_the_interviewer_is_sent_back_too() -> None:
    item = {"evidence": "sleeping all the way through", "confidence": 0.8, "score": 2}
    model = Model([json.dumps(sheet(changes_in_sleeping_pattern=item)), GOOD])
    await scorer(model).score(TURNS)
    assert "what the interviewer said" in model.asked[1].messages[-1]["content"]


async def test_a_second_bad_answer_is_a_failure_and_never_zeros() -> None:
    model = Model(["Sorry.", "Sorry again.", GOOD])
    with pytest.raises(ScorerFailed, match="unparseable") as failed:
        await scorer(model).score(TURNS)
    assert len(model.asked) == 2
    assert not failed.value.transport


async def test_without_repairs_the_first_bad_answer_is_a_failure() -> None:
    model = Model(["Sorry.", GOOD])
    with pytest.raises(ScorerFailed):
        await scorer(model, repairs=0).score(TURNS)
    assert len(model.asked) == 1


@pytest.mark.parametrize("transport", [True, False])
@pytest.mark.parametrize("before", [[], ["Sorry."]])
async def test_a_models_failure_is_the_scorers_with_its_kind_and_text(
    transport: bool, before: list[str]
) -> None:
    error = ModelFailed("nobody there", kind="rate_limited", transport=transport)
    with pytest.raises(ScorerFailed, match="rate_limited: nobody there") as failed:
        await scorer(Model([*before, error])).score(TURNS)
    assert failed.value.kind == "scorer_failed"
    assert failed.value.transport is transport


@pytest.mark.parametrize("error", [QuotaExhausted("empty"), ServerError("no key")])
async def test_what_ends_the_run_passes_through(error: Exception) -> None:
    with pytest.raises(type(error)):
        await scorer(Model([error])).score(TURNS)


async def test_the_order_as_printed_is_asked_for_by_the_schema() -> None:
    model = Model([GOOD])
    await scorer(model, order="score_first").score(TURNS)
    assert model.asked[0].schema == assessment_schema("score_first")


# prompt, rubric and options


@pytest.mark.parametrize("option", ["gpt", "gpt5nano", "gpt56luna", "gpt6luna", "gemma"])
def test_every_option_names_models_that_exist_and_its_own_sampling(option: str) -> None:
    chosen = settings(option)
    assert all((ROOT / f"conf/models/{name}.yaml").is_file() for name in chosen.models)
    assert (chosen.call.temperature is None) is (option != "gemma")
    assert load_texts(chosen).system == TEXTS.system


RULES = {
    "sometimes is 1": r"sometimes.* mean 1",
    "a lot is 2": r"a lot.* mean 2",
    "all the time is 3": r"all the time.* mean 3",
    "no evidence": r"nothing said.*score 0, confidence 0",
    "a denial is assessed": r"denial.*score 0 with confidence above 0",
    "ambiguous": r"more than one way.*between 0\.2 and 0\.5",
    "the persona's words only": r"what the persona says about itself, and no more",
    "outbursts count": r"strong feeling counts",
    "daily sadness": r"1\. sadness:.*every day is never below 2",
    "any enjoyment left": r"4\. loss_of_pleasure:.*still enjoyed, the level is 2 at most",
    "inescapable guilt": r"5\. guilty_feelings:.*no escape from it is 3",
    "the urge to cry": r"10\. crying:.*urge to cry counts as crying",
    "rage is agitation": r"11\. agitation:.*rage.* belong here",
    "no value at all": r"14\. worthlessness:.*no value whatever is 3",
    "cannot relax": r"16\. changes_in_sleeping_pattern:.*unable to relax is never below 2",
    "blank mind": r"19\. concentration_difficulty:.*goes blank is 2 or 3",
    "lasting exhaustion": r"20\. tiredness_or_fatigue:.*lasting exhaustion.* is 3",
    "item 9 only if volunteered": r"9\. suicidal_thoughts_or_wishes:.*only if volunteered",
    "item 21 only if volunteered": r"21\. loss_of_interest_in_sex:.*only if volunteered",
    "volunteered means unprompted": r"unprompted\. otherwise score 0, confidence 0",
    "the transcript is data": r"transcript is material.*should any line of it.*do not follow",
}


@pytest.mark.parametrize("rule", RULES)
def test_the_prompt_states_each_rule(rule: str) -> None:
    lines = " ".join(TEXTS.system.lower().split("\n\n")).splitlines()
    assert any(re.search(RULES[rule], line) for line in lines)


def test_the_rubric_has_four_levels_for_each_of_the_21_items() -> None:
    lines = [line for line in rubric_text(RUBRIC).splitlines() if re.match(r"\d+\. ", line)]
    assert [line.split(". ")[1].split(":")[0] for line in lines] == list(FIELDS)
    assert all(re.search(r": 0 = .+; 1 = .+; 2 = .+; 3 = .+", line) for line in lines)


def test_the_rubric_shares_no_sentence_with_the_table_that_tests_it() -> None:
    table = yaml.safe_load((ROOT / "conf/checks/rubric.yaml").read_text(encoding="utf-8"))
    text = rubric_text(RUBRIC).lower()
    assert not [row for row in table["rows"] if row["reply"].lower().rstrip(".") in text]


def test_a_rubric_that_lacks_an_item_is_one_line(tmp_path: Path) -> None:
    content = yaml.safe_load((ROOT / "prompts/rubric.yaml").read_text(encoding="utf-8"))
    del content["items"]["crying"]
    path = tmp_path / "rubric.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    with pytest.raises(InputError, match="not the 21 in order") as refused:
        rubric_text(str(path))
    assert "\n" not in str(refused.value)
