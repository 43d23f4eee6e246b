"""The fake server's 200s: an answer with its usage, or one of the ways to give none."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fake_plan import Fault, Served, ToolPlay, digest
from fake_tools import told
from fake_voices import answer, speak

BYTES_PER_TOKEN = 4
BLOCK = 16
"""Tokens that are kept together; the paid API keeps others."""
EFFORTS = {"none": 0, "minimal": 16, "low": 128, "medium": 512, "high": 2048}
"""Reasoning tokens of each effort, about."""
PROSE = "Here is what I make of it: all in all the person seems to cope."
REVERSAL = "That must be hard for you. How long have you felt like this?"
LEAK = "<|start_header_id|>assistant<|end_header_id|>\n\n{text}<|eot_id|>"
Body = Mapping[str, Any]
Messages = Sequence[Body]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one request; no reasoning tokens where the model does not reason."""

    prompt: int
    cached: int
    new: int
    completion: int
    reasoning: int | None

    def told(self, *, writes: bool) -> dict[str, Any]:
        """Return it as the API tells it."""
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }
        if writes:
            usage["prompt_tokens_details"]["cache_write_tokens"] = self.new
        if self.reasoning is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning}
        return usage


class PrefixCache:
    """What a model's server keeps of earlier prompts, in blocks that hang on all before them."""

    def __init__(self) -> None:
        self._known: defaultdict[str, set[int]] = defaultdict(set)
        self.hits = 0
        """Tokens that were found, in all."""

    def take(self, model: Served, messages: Messages, *, salt: str = "") -> tuple[int, int]:
        """Return tokens found and tokens new, and keep the prompt beside those of its salt."""
        block, least = (128, 1024) if model.profile == "openai" else (BLOCK, 0)
        text, size = rendered(messages).encode(), block * BYTES_PER_TOKEN
        chain, known, found, run = digest(salt), self._known[model.name], 0, True
        for start in range(0, len(text) - size + 1, size):
            chain = digest(chain, text[start : start + size])
            run = run and chain in known
            found += run
            known.add(chain)
        cached = found * block if found * block >= least else 0
        self.hits += cached
        return cached, len(text) // size * block - cached


def completed(
    model: Served,
    body: Body,
    fault: Fault | None,
    *,
    number: int,
    budget: int,
    cache: PrefixCache,
    numbered: bool,
    tools: ToolPlay,
    note: str = "",
) -> tuple[dict[str, Any], Usage]:
    """Return the response to request `number` with its usage."""
    messages, form = body["messages"], body.get("response_format") or {}
    text, using = "", told(model.name, body, tools, note=note)
    if using is None and form.get("type") == "json_schema":
        text = answer(model.name, messages, body.get("seed"), form["json_schema"]["schema"])
    elif using is None:
        text = speak(model.profile, model.name, messages, body.get("seed"))
        text += f" (#{number})" if numbered else ""
    reasons = model.profile == "openai"
    thought = EFFORTS[str(body.get("reasoning_effort", "medium"))] if reasons else 0
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None} | (
        using or {}
    )
    finish = "tool_calls" if "tool_calls" in message else "stop"
    if fault:
        finish, thought = distorted(message, fault, thought=thought, budget=budget)
    content, room = (message["content"] or "").encode(), max(0, budget - thought) * BYTES_PER_TOKEN
    if len(content) > room:
        content, finish = content[:room], "length"
        message["content"] = content.decode(errors="ignore")
    called = json.dumps(message["tool_calls"]).encode() if "tool_calls" in message else b""
    if body.get("tools"):
        messages = [{"role": "tools", "content": json.dumps(body["tools"])}, *messages]
    cached, new = cache.take(model, messages, salt=str(body.get("cache_salt", "")))
    usage = Usage(
        prompt=tokens_of(messages),
        cached=cached,
        new=new,
        completion=min(budget, -(-len(content + called) // BYTES_PER_TOKEN) + thought),
        reasoning=min(budget, thought) if reasons else None,
    )
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    if body.get("logprobs"):
        choice["logprobs"] = probabilities(budget, model.weights or model.name)
    response = {
        "id": f"chatcmpl-{number:06}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": model.name,
        "system_fingerprint": f"request-{number}",
        "choices": [choice],
        "usage": usage.told(writes=model.writes_cost),
    }
    return response, usage


def probabilities(budget: int, weights: str) -> dict[str, Any]:
    """Return made-up logprobs of a few tokens, which the weights decide alone."""
    return {
        "content": [
            {"token": f"t{digest(weights, n) % 50}", "logprob": -digest(weights, n, "p") / 2**32}
            for n in range(min(budget, 8))
        ]
    }


def distorted(
    message: dict[str, Any], fault: Fault, *, thought: int, budget: int
) -> tuple[str, int]:
    """Spoil a message in place; return how it ends and the tokens that went into reasoning."""
    text = str(message["content"] or "")
    half, nothing = text[: len(text) // 2], fault.text or "I cannot help with that."
    spoilt: dict[str, dict[str, Any]] = {
        "empty": {"content": ""},
        "reasoned_away": {"content": ""},
        "content_filter": {"content": ""},
        "in_reasoning": {"content": None, "reasoning_content": text},
        "refusal": {"content": None, "refusal": nothing},
        "whitespace_loop": {"content": half.rstrip() + " \n" * 60},
        "cut_off": {"content": half},
        "prose": {"content": PROSE},
        "header_leak": {"content": LEAK.format(text=text)},
        "both_sides": {"content": f"{text}\nInterviewer: And how is work?\nPersona: Work is fine."},
        "role_reversal": {"content": REVERSAL},
        "text": {"content": fault.text},
    }
    message |= spoilt.get(fault.kind, {})
    if fault.kind == "content_filter":
        return "content_filter", thought
    ends = "length" if fault.kind in {"reasoned_away", "whitespace_loop", "cut_off"} else "stop"
    return ends, budget if fault.kind == "reasoned_away" else thought


def rendered(messages: Messages) -> str:
    """Return the prompt as one text, as a template would write it."""
    return "".join(f"<{m['role']}>\n{m['content']}{m.get('tool_calls', '')}</>\n" for m in messages)


def tokens_of(messages: Messages) -> int:
    return -(-len(rendered(messages).encode()) // BYTES_PER_TOKEN)


def token_ids(messages: Messages) -> list[int]:
    """Return a prompt's tokens: a number for every four bytes."""
    text = rendered(messages).encode()
    starts = range(0, len(text), BYTES_PER_TOKEN)
    return [int.from_bytes(text[start : start + BYTES_PER_TOKEN]) for start in starts]
