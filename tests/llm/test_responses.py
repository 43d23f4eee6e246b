"""What a chat-completions response says."""

from typing import Any

import pytest

from src.errors import __doc__ as error_tree
from src.llm.client import TryAgain
from src.llm.responses import BLANKS, SECOND_CHANCES, read_response


def response(
    content: object = "Fine.", *, finish: str = "stop", **message: object
) -> dict[str, Any]:
    told = {"role": "assistant", "content": content} | message
    return {"model": "m", "choices": [{"message": told, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (response(), None),
        (response(finish="length"), None),
        (response(None, refusal="I would rather not."), "refused"),
        (response("half a tex", finish="content_filter"), "content_filtered"),
        (response("", finish="length"), "budget_exhausted"),
        (response(" \n", finish="length"), "budget_exhausted"),
        (response(""), "empty"),
        (response("  \n"), "empty"),
        (response(None), "empty"),
        (response(None, reasoning_content="{}"), "content_in_reasoning"),
        (response("", reasoning="{}"), "content_in_reasoning"),
        (response("{" + " " * BLANKS, finish="length"), "whitespace_loop"),
        (response("{" + " " * (BLANKS - 1), finish="length"), None),
        (response("{" + " " * BLANKS), None),
    ],
)
def test_each_way_to_give_no_answer_has_a_name(body: dict[str, Any], failure: str | None) -> None:
    assert read_response(body, whole=False).failure == failure


def test_a_cut_off_answer_is_none_where_it_must_be_whole() -> None:
    cut = response('{"a": ', finish="length")
    assert read_response(cut, whole=True).failure == "budget_exhausted"
    assert read_response(cut, whole=False).truncated
    assert read_response(response(), whole=True).failure is None


@pytest.mark.parametrize("text", ["", "half an answ"])
def test_what_an_ending_server_broke_off_is_no_answer_and_is_tried_again(text: str) -> None:
    with pytest.raises(TryAgain) as broken:
        read_response(response(text, finish="abort"), whole=False)
    assert (broken.value.kind, broken.value.transport) == ("transport_failed", True)
    assert broken.value.absent  # as long as for a server that is being started again


def test_usage_is_read_by_kind() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    found = read_response(response() | {"usage": usage}, whole=False)
    assert found.usage == {
        "reported": "m",
        "finish": "stop",
        "input_tokens": 5,
        "cached_tokens": 3,
        "written_tokens": 2,
        "output_tokens": 4,
        "reasoning_tokens": 1,
    }
    assert found.input_tokens == 5


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens_details": None}])
def test_what_is_not_told_is_unknown_and_not_zero(usage: object) -> None:
    found = read_response(response() | {"usage": usage}, whole=False)
    assert found.input_tokens is None
    assert {found.usage[key] for key in ("output_tokens", "cached_tokens", "reasoning_tokens")} == {
        None
    }


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"error": {"message": "overloaded", "code": 502}},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": "hello"}]},
    ],
)
def test_a_body_without_an_answer_is_worth_another_try(body: dict[str, Any]) -> None:
    with pytest.raises(TryAgain) as caught:
        read_response(body, whole=False)
    assert caught.value.kind == "transport_failed"


def test_an_answer_without_a_content_field_is_empty() -> None:
    body = {"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]}
    assert read_response(body, whole=False).failure == "empty"


def test_every_failure_with_a_second_chance_stands_in_the_tree_of_errors() -> None:
    assert all(f"  {kind} " in str(error_tree) for kind in SECOND_CHANCES)
