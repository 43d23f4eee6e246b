"""Plays the model of the tool-using interviewer by rules, so that no model is needed.

It tries the machinery: it uses every tool, and asks about what it hears in plain words. It reads
only what a model would be sent, and calls tools natively.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from src.clinical.phrases import Lexicon, Phrases
from src.clinical.text import polarity, sentences, spaced, words
from src.interviewers.notepad import Notepad
from src.llm.caller import Reply, Request
from src.llm.client import Message
from src.llm.responses import ToolCall
from src.prompts import load_yaml
from src.records import Record

UPDATE, STOP = "update_interview_notepad", "safety_stop"
QUOTED = 100
"""Characters of a reply that a note keeps."""
_PAD = "\nevidence:\n"
"""What a notepad begins with, wherever it stands in a tool's output."""

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Lines = Annotated[tuple[Line, ...], Field(min_length=1)]
Due = tuple[str, Mapping[str, Any]]
"""A tool's name and its arguments."""


class Topic(Record):
    """What it hears, where it looks that up, and what it asks then."""

    heard: Phrases
    category: Line | None = None
    disorder: Line | None = None
    asks: Lines


class Sign(Record):
    heard: Phrases
    skill: Line


class Rules(Record):
    """`prompts/agent_script.yaml`."""

    short: Annotated[int, Field(ge=1)]
    """Words up to which a reply is short."""
    short_skill: Line
    read_every: Annotated[int, Field(ge=1)]
    """Replies after which the notepad is read by itself."""
    stop: dict[Literal["self_harm", "harm_to_others", "acute_medical", "abuse"], Phrases]
    signs: tuple[Sign, ...]
    topics: dict[str, Topic]
    general: Lines


@dataclass(kw_only=True)
class _Seen:
    """What a request's messages show."""

    replies: list[str] = field(default_factory=list)
    """The person's messages, the last one at the end."""
    said: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    """Every call so far, as name and arguments."""
    called: list[str] = field(default_factory=list)
    """Names of the tools called since the last reply."""
    notepad: Notepad = field(default_factory=Notepad)


class ScriptedModel:
    """An `Asking` that needs no model; without chance and without state."""

    def __init__(self, path: str) -> None:
        """Read the rules; a malformed file is an `InputError`."""
        self._rules = rules = load_yaml(path, Rules)
        self._lexicon = Lexicon({})
        for kind, phrases in rules.stop.items():
            self._lexicon.add(phrases, f"stop.{kind}")
        for number, sign in enumerate(rules.signs):
            self._lexicon.add(sign.heard, f"sign.{number}")
        for name, topic in rules.topics.items():
            self._lexicon.add(topic.heard, f"topic.{name}")

    @property
    def rules(self) -> Rules:
        return self._rules

    async def ask(self, request: Request) -> Reply:
        """Return tool calls as long as some are due, then a message."""
        seen = _seen(request.messages)
        offered = {tool["function"]["name"] for tool in request.tools}
        due: Sequence[Due] = ()
        if request.tool_choice == "auto":
            due = [one for one in self._due(seen) if one[0] in offered - {*seen.called}]
        first = [one for one in due if one[0] != UPDATE] or due
        calls = tuple(
            ToolCall(id=f"call_{n}", name=name, arguments=json.dumps(given, ensure_ascii=False))
            for n, (name, given) in enumerate(first)
        )
        text = "" if calls else self._message(seen)
        return Reply(text=text, truncated=False, calls=(), tool_calls=calls)

    def _due(self, seen: _Seen) -> Iterator[Due]:
        """Yield what to call after the last reply; the notepad's update depends on what came."""
        reply = seen.replies[-1]
        if stop := self._danger(reply):
            yield STOP, {"kind": stop[0], "reason": stop[1]}
            return
        if len(seen.replies) % self._rules.read_every == 0:
            yield "read_interview_notepad", {}
        topics = self._topics(reply)
        new: dict[str, Due] = {}
        for name, given in self._sources(reply, topics):
            if _key(name, given) not in seen.used:
                new.setdefault(name, (name, given))
        yield from new.values()
        if actions := self._actions(seen, topics):
            yield UPDATE, {"actions": actions}

    def _sources(self, reply: str, topics: Sequence[str]) -> Iterator[Due]:
        """Yield what there is to read about a reply."""
        for topic in (self._rules.topics[name] for name in topics):
            if topic.category:
                yield "lookup_icd_category", {"category": topic.category}
            if topic.disorder:
                yield "lookup_icd_disorder", {"code": topic.disorder}
        for skill in self._skills(reply):
            yield "load_skill", {"skill_id": skill}

    def _danger(self, reply: str) -> tuple[str, str] | None:
        for sentence in sentences(reply):
            plain = spaced(sentence)
            for kind in self._rules.stop:
                for cue, match in self._lexicon.find(plain, f"stop.{kind}"):
                    if cue.own_negation or polarity(plain[: match.start()]) > 0:
                        return kind, sentence
        return None

    def _topics(self, reply: str) -> list[str]:
        return [name for name in self._rules.topics if self._hears(reply, f"topic.{name}")]

    def _skills(self, reply: str) -> list[str]:
        signs = enumerate(self._rules.signs)
        found = [sign.skill for n, sign in signs if self._hears(reply, f"sign.{n}")]
        return [*found, self._rules.short_skill] if self._short(reply) else found

    def _short(self, reply: str) -> bool:
        return len(words(reply)) <= self._rules.short

    def _hears(self, reply: str, value: str) -> bool:
        return any(True for _ in self._lexicon.find(spaced(reply), value))

    def _actions(self, seen: _Seen, topics: Sequence[str]) -> list[dict[str, str | None]]:
        """Return the notepad's batch: what was said, what is open, what is asked next."""
        reply, number = seen.replies[-1], len(seen.replies)
        notes = seen.notepad.notes
        ids = {note.category: note.id for note in reversed(notes)}
        covered = {note.text for note in notes if note.category == "coverage"}
        if self._short(reply):
            return [] if "unresolved" in ids else [_add("unresolved", f"reply {number} was short")]
        about = ", ".join(topics) or "in general"
        actions = [_add("evidence", f"{about}: {reply[:QUOTED]} (own words, reply {number})")]
        actions += [_add("coverage", name) for name in topics if name not in covered]
        for name in topics:
            code = self._rules.topics[name].disorder
            if code and name not in covered:
                actions.append(_add("hypotheses", f"{code}, since {name} came up; not settled"))
        if "unresolved" in ids:
            actions.append(_action("delete", key=ids["unresolved"]))
        plan = f"ask: {self._message(seen)}"
        known = "plan" in ids
        actions.append(_action("edit", key=ids["plan"], text=plan) if known else _add("plan", plan))
        return actions

    def _message(self, seen: _Seen) -> str:
        """Return a question that was not asked, about what was heard last where there is one."""
        for reply in reversed(seen.replies):
            for name in self._topics(reply):
                for line in self._rules.topics[name].asks:
                    if line not in seen.said:
                        return line
        left = [line for line in self._rules.general if line not in seen.said]
        return left[0] if left else self._rules.general[-1]


def _seen(messages: Sequence[Message]) -> _Seen:
    """Read system, kickoff and greeting, then replies, calls and messages in turn."""
    seen = _Seen()
    for message in messages[2:]:
        content = message["content"] or ""
        if message["role"] == "user":
            seen.replies.append(content)
            seen.called = []
        elif message["role"] == "tool":
            _, start, notes = f"\n{content}".partition(_PAD)
            seen.notepad = Notepad.read(start + notes) if start else seen.notepad
        elif message["role"] == "assistant" and not message.get("tool_calls"):
            seen.said.add(content)
        for call in message.get("tool_calls", ()):
            name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
            seen.called.append(name)
            seen.used.add(_key(name, given))
    return seen


def _key(name: str, given: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(given, sort_keys=True)}"


def _add(category: str, text: str) -> dict[str, str | None]:
    return _action("add", category=category, text=text)


def _action(
    action: str, *, key: str | None = None, category: str | None = None, text: str | None = None
) -> dict[str, str | None]:
    return {"action": action, "id": key, "category": category, "text": text}
