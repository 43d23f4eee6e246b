"""The patient behind an adapter: what is sent, what is cleaned, what is flagged, what fails."""

import json
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from terminal import ROOT

from src.errors import InputError, ModelFailed, PatientFailed
from src.interview.views import transcript
from src.llm.caller import Reply, Request
from src.patients.lora import LoraPatient, Signs, cleaned, flags_of
from src.prompts import load_yaml
from src.records import Answer, Call, Question, Turn
from src.settings import LoraSettings
from src.settings.personas import Adapters

SIGNS = load_yaml("prompts/patient_signs.yaml", Signs)
OPTION = yaml.safe_load((ROOT / "conf/patient/lora.yaml").read_text(encoding="utf-8"))
SETTINGS = LoraSettings.model_validate_json(json.dumps(OPTION))
CALL = Call(role="patient", asked="persona-07-0a1b2c3d")
REPLIES = yaml.safe_load((Path(__file__).parent / "lora_replies.yaml").read_text(encoding="utf-8"))[
    "replies"
]
QUESTION = Question(text="How was your week?", source="fixed")
TURN = Turn(
    number=1,
    question=Question(text="Hello, how are things?", source="fixed"),
    answer=Answer(text="Quiet.", raw="assistant\n\nQuiet."),
)


@dataclass
class Model:
    """Answers with one text, and remembers what it was asked."""

    text: str = "Quiet, mostly."
    truncated: bool = False
    asked: list[Request] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text=self.text, truncated=self.truncated, calls=(CALL,))


@dataclass
class Broken:
    """Fails as told."""

    error: ModelFailed

    async def ask(self, request: Request) -> Reply:
        raise self.error


def patient(model: Model | Broken, system: str | None = None) -> LoraPatient:
    return LoraPatient(model, settings=SETTINGS, system=system, signs=SIGNS)


async def test_a_request_carries_both_stop_ids_the_stop_string_and_a_cap() -> None:
    model = Model()
    await patient(model).reply([TURN], QUESTION)
    (request,) = model.asked
    assert request.stop_token_ids == (128001, 128009)
    assert request.stop == ("\nInterviewer:",)
    assert request.settings.max_tokens == 256
    assert (request.turn, request.schema) == (2, None)


async def test_the_persona_gets_no_system_prompt_and_sees_roles_flipped() -> None:
    model = Model()
    await patient(model).reply([TURN], QUESTION)
    assert [(m["role"], m["content"]) for m in model.asked[0].messages] == [
        ("user", "Hello, how are things?"),
        ("assistant", "Quiet."),
        ("user", "How was your week?"),
    ]
    assert SETTINGS.system_prompt is None


async def test_a_users_own_system_prompt_is_sent_first() -> None:
    model = Model()
    await patient(model, system="You live by the sea.").reply([], QUESTION)
    assert model.asked[0].messages[0] == {"role": "system", "content": "You live by the sea."}


async def test_a_plain_answer_passes_unchanged_with_its_calls() -> None:
    answer = await patient(Model()).reply([], QUESTION)
    assert answer == Answer(text="Quiet, mostly.", calls=(CALL,))


@pytest.mark.parametrize("row", REPLIES, ids=itemgetter("reply"))
async def test_each_labelled_reply_is_cleaned_flagged_and_kept(row: dict[str, Any]) -> None:
    answer = await patient(Model(row["reply"])).reply([], QUESTION)
    assert answer.text == row.get("text", row["reply"])
    assert sorted(answer.flags) == sorted(row["flags"])
    assert answer.raw == (row["reply"] if "text" in row else None)


def test_at_least_half_of_the_labelled_replies_are_innocent() -> None:
    assert len(REPLIES) >= 40
    assert sum(not row["flags"] for row in REPLIES) >= 0.5 * len(REPLIES)


async def test_an_answer_cut_off_at_the_cap_is_flagged() -> None:
    answer = await patient(Model(truncated=True)).reply([], QUESTION)
    assert answer.flags == ("truncated",)


@pytest.mark.parametrize("text", ["\nInterviewer: And then?", "<|eot_id|>", "assistant\n\n"])
async def test_a_reply_of_which_nothing_is_left_fails_by_name(text: str) -> None:
    with pytest.raises(PatientFailed, match="nothing is left") as failed:
        await patient(Model(text)).reply([], QUESTION)
    assert (failed.value.kind, failed.value.transport) == ("empty", False)


@pytest.mark.parametrize("transport", [True, False])
async def test_a_models_failure_keeps_its_kind_and_whether_it_may_pass(transport: bool) -> None:
    error = ModelFailed("no way through", kind="transport_failed", transport=transport)
    with pytest.raises(PatientFailed, match="no way through") as failed:
        await patient(Broken(error)).reply([], QUESTION)
    assert (failed.value.kind, failed.value.transport) == ("transport_failed", transport)


async def test_speech_for_the_interviewer_cannot_become_a_turn() -> None:
    text = "Fine.\nInterviewer: Do you sleep?\n</patient>\n<interviewer>Do you?</interviewer>"
    answer = await patient(Model(text)).reply([], QUESTION)
    assert answer.text == "Fine."
    raw = Turn(number=1, question=QUESTION, answer=Answer(text=text))
    assert transcript([raw]).count("<interviewer>") == 1
    assert transcript([raw]).count("<patient>") == 1


PIECES = st.sampled_from(
    [
        "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "assistant", "user", "\n", "\n\n",
        "Interviewer:", "Persona:", "**", " ", "Fine.", "My dog", "?", "Q:",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_cleaning_only_removes_and_need_not_be_repeated(text: str) -> None:
    once, _ = cleaned(text, SIGNS.leaks)
    assert once in text
    assert cleaned(once, SIGNS.leaks) == (once, [])


@given(st.text(alphabet="ab .?!\n*'", max_size=60))
def test_flags_are_found_in_any_text_without_an_error(text: str) -> None:
    assert set(flags_of(text, SIGNS)) <= {"empty"}


def test_an_adapters_number_is_the_personas_less_one() -> None:
    adapters = load_yaml(SETTINGS.adapters, Adapters)
    assert list(adapters.personas) == list(range(1, 21))
    assert {
        number: int(adapter.adapter.removeprefix("Anxo/erisk26-task1-patient-")[:2])
        for number, adapter in adapters.personas.items()
    } == {number: number - 1 for number in range(1, 21)}


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("0: {adapter: a/b, revision: null, released: null}", "personas"),
        ("7: {adapter: a/b, revision: main, released: null}", "revision"),
        ("7: {adapter: nowhere, revision: null, released: null}", "adapter"),
    ],
)
def test_a_malformed_adapter_is_one_line(line: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "adapters.yaml"
    path.write_text(f"base: b\npersonas:\n  {line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=place) as refused:
        load_yaml(path, Adapters)
    assert "\n" not in str(refused.value)


def test_a_sign_that_is_no_regular_expression_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "signs.yaml"
    content = yaml.safe_load((ROOT / "prompts/patient_signs.yaml").read_text(encoding="utf-8"))
    content["sensitive"]["own"][0] = "(unclosed"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError, match=r"sensitive\.own\[0\]") as refused:
        load_yaml(path, Signs)
    assert "\n" not in str(refused.value)
