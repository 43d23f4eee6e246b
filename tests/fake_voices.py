"""What the fake models say: functions of model, messages and seed alone.

A persona's lines have four grades each; which grade it speaks hangs on its name. A scorer's JSON
follows any schema; numbers of an item grow surer as the transcript grows, at a pace that differs
from interview to interview.
"""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

from fake_plan import digest

Messages = Sequence[Mapping[str, Any]]
Schema = Mapping[str, Any]

NOT_PROBED = ("suicid", "sex", "punish", "failure")
"""Items that speak up only when the person does: their confidence stays 0."""

TOPICS: Mapping[str, tuple[str, ...]] = {
    "night": ("sleep", "night", "bed", "wake"),
    "energy": ("energy", "steam", "tired", "chores", "strength", "evening"),
    "food": ("food", "eat", "appetite", "meal", "hunger"),
    "joy": ("enjoy", "fun", "pleasure", "free", "weekend", "hobby"),
    "people": ("people", "friend", "company", "family", "seeing"),
    "mind": ("mind", "focus", "page", "decide", "choice", "follow"),
    "self": ("yourself", "proud", "kind", "mistake", "conscience", "blame"),
    "ahead": ("ahead", "months", "future", "plans", "expect"),
    "nerves": ("patience", "unwind", "nerves", "pace", "tears", "rest"),
}
LINES: Mapping[str, tuple[str, str, str, str]] = {
    "night": (
        "I drop off quickly and get up rested",
        "I lie awake for a while now and then",
        "I wake up at four most nights",
        "I hardly sleep at all any more",
    ),
    "energy": (
        "I have plenty left when I get home",
        "I flag a bit by the afternoon",
        "Most days I am worn out by noon",
        "Getting dressed takes all I have",
    ),
    "food": (
        "I eat as I always did",
        "I skip lunch once in a while",
        "Food has little taste for me lately",
        "I have to make myself eat anything",
    ),
    "joy": (
        "We had a great day at the lake",
        "My garden still gives me something, a little less than it did",
        "I go through the motions with the things I liked",
        "Nothing gives me anything these days",
    ),
    "people": (
        "My friends come round every week",
        "I cancel on people sometimes",
        "I keep to myself most of the time",
        "I have stopped answering the phone",
    ),
    "mind": (
        "I read a whole book last week",
        "I lose the thread once in a while",
        "I read the same page three times, most evenings",
        "I cannot settle on anything, not even what to wear",
    ),
    "self": (
        "I get along with myself well enough",
        "I am a bit hard on myself at times",
        "I go over my mistakes most nights",
        "I cannot stand the person I have become",
    ),
    "ahead": (
        "I am looking forward to the spring",
        "I am not sure what comes next",
        "I do not expect much of the coming months",
        "I see nothing ahead of me",
    ),
    "nerves": (
        "Little ruffles me",
        "I snap at the children now and then",
        "I am on edge most days",
        "I cannot sit still and the tears come every day",
    ),
}
OPENINGS = (
    *(
        "Well, ",
        "To be honest, ",
        "Hm. ",
        "Let me think. ",
        "Oh, ",
        "I would say ",
        "Since you ask, ",
    ),
    *("You know, ", "I suppose ", "If I am frank, ", "Right now, ", "As far as I can tell, "),
)
ENDINGS = (
    *(".", ", that is how it is.", ", I think.", ", if that makes sense.", ", at the moment."),
    *(", since the move.", ", and has been for weeks.", ", as far as I notice.", ", more or less."),
)
WARMTH = (
    "Thank you for telling me that.",
    "I can picture that well.",
    "That sounds like a full week.",
    "I appreciate how openly you say it.",
    "I hear you.",
    "That makes sense to me.",
)
ASKED = (
    "How have your evenings been going lately?",
    "What does an ordinary night look like for you?",
    "How is your energy by the time the day ends?",
    "What have you been eating these days?",
    "What did you do at the weekend, and how was it?",
    "Who have you spent time with this week?",
    "How easily does your mind stay with a book or a film?",
    "How do you talk to yourself when something goes wrong?",
    "What do you see when you picture the coming months?",
    "How is your patience with the people around you?",
    "What part of the day do you like best?",
    "How do you feel when you wake up in the morning?",
    "How do you come to a decision about small things lately?",
    "What do you look forward to this week?",
    "When did you last laugh until it hurt?",
    "How do you wind down after work?",
    "What has been taking up most of your strength?",
    "How has seeing friends been for you?",
    "What would you like more of in your days?",
    "How do meals fit into your day at the moment?",
    "What do you do when a day turns out badly?",
    "How restful was your last free day?",
    "What has changed for you since the summer?",
    "How do you feel about the way things are going?",
)
FAREWELL = "Thank you so much for sharing all this with me. I wish you a gentle week. Goodbye."
CLOSING = re.compile(r"^#+ *time to end", re.IGNORECASE | re.MULTILINE)
"""The heading under which an interviewer is told to end, in its prompt or in the last message."""
SAID = re.compile(r"<patient>(.*?)</patient>", re.DOTALL)


def speak(profile: str, model: str, messages: Messages, seed: object) -> str:
    """Return a free text: a persona's answer, or an interviewer's question or farewell."""
    last = str(messages[-1]["content"])
    if profile == "persona":
        return persona(model, last, digest(model, json.dumps(list(messages)), seed))
    prompts = [str(m["content"]) for m in messages if m["role"] == "system"]
    if any(CLOSING.search(text) for text in (*prompts, last)):
        return FAREWELL
    told = json.dumps(list(messages))
    key = digest(model, told, seed)
    new = [question for question in ASKED if question not in told] or list(ASKED)
    return f"{WARMTH[key % len(WARMTH)]} {new[key % len(new)]}"


def persona(model: str, question: str, key: int) -> str:
    """Return an answer on what was asked, in the grade of this persona."""
    asked = question.lower()
    topics = [name for name, signs in TOPICS.items() if any(sign in asked for sign in signs)]
    topic = topics[key % len(topics)] if topics else tuple(TOPICS)[key % len(TOPICS)]
    # adapters of one persona may differ by their hash: only the number says how it fares
    severity = digest("severity", model[:10]) % 4
    step = (-1, 0, 0, 1)[key // 7 % 4]
    line = LINES[topic][min(3, max(0, severity + step))]
    opening = OPENINGS[key // 11 % len(OPENINGS)]
    if not opening.endswith(". ") and not line.startswith("I "):
        line = line[0].lower() + line[1:]
    return f"{opening}{line}{ENDINGS[key // 13 % len(ENDINGS)]}"


def grade_of(reply: str) -> int:
    """Return the grade of the line in a persona's reply; 1 where there is none."""
    said = reply.lower()
    return next((g for four in LINES.values() for g, x in enumerate(four) if x.lower() in said), 1)


NAMED = {"code": "6A70", "name": "Single episode depressive disorder"}
"""What every report names."""


class Answering:
    """Fills a schema from a conversation."""

    def __init__(self, model: str, messages: Messages, seed: object) -> None:
        self._model, self._messages, self._seed = model, messages, seed
        users = [str(m["content"]) for m in messages if m["role"] == "user"]
        self._said = [unescape(text) for text in SAID.findall("\n".join(users))] or users[1:]
        self._pace = digest("pace", self._said[0]) % 3 if self._said else 0

    def fill(self, schema: Schema, path: tuple[str, ...] = (), root: Schema | None = None) -> Any:
        """Return a value that the schema accepts; `path` is the names that led here."""
        root = schema if root is None else root
        if "$ref" in schema:
            found: Any = root
            for part in str(schema["$ref"]).removeprefix("#/").split("/"):
                found = found[part]
            return self.fill(found, path, root)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.fill(schema[key][0], path, root)
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object" or "properties" in schema:
            inner = schema.get("properties", {})
            return {name: self.fill(part, (*path, name), root) for name, part in inner.items()}
        if kind == "array":
            size = max(1, int(schema.get("minItems", 1)))
            return [self.fill(schema["items"], (*path, str(n)), root) for n in range(size)]
        return self._leaf(schema, kind, path)

    def _leaf(self, schema: Schema, kind: object, path: tuple[str, ...]) -> Any:
        last = path[-1] if path else ""
        if last == "rank" or last in NAMED:  # ranks count the entries of a list, from 1 on
            return NAMED.get(last, int(path[-2]) + 1 if last == "rank" else 0)
        score, confidence = self._rating("/".join(path[:-1]))
        choices = list(schema.get("enum", ()))
        if choices:
            at = choices.index(score) if score in choices else self._any(path) % len(choices)
            return choices[at]
        if kind == "boolean":
            return self._done
        if kind in {"integer", "number"}:
            whole = kind == "integer"
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            high = schema.get("maximum", schema.get("exclusiveMaximum", low + 3))
            value = score if whole else confidence
            value = min(high, max(low, value))
            if value in {schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")}:
                value = (low + high) // 2 if whole else (low + high) / 2
            return value
        if kind == "null":
            return None
        return self._words(schema, path)

    @property
    def _done(self) -> bool:
        """Whether an interviewer that ends by itself has heard enough."""
        return len(self._said) >= 9 + 3 * self._pace

    def _words(self, schema: Schema, path: tuple[str, ...]) -> str:
        if path and path[-1] == "message" and self._done:
            text = FAREWELL
        elif path and path[-1] == "message":
            text = speak("gemma", self._model, self._messages, self._seed)
        elif self._said and self._rating("/".join(path[:-1]))[1] > 0:
            text = self._said[self._any(path) % len(self._said)][:80]
        else:
            text = ""
        text = text.ljust(int(schema.get("minLength", 0)), "-")
        return text[: int(schema.get("maxLength", 10_000))]

    def _any(self, path: tuple[str, ...]) -> int:
        return digest(self._model, self._seed, len(self._said), *path)

    def _rating(self, item: str) -> tuple[int, float]:
        """Return score and confidence of an item after so much was said.

        Pace 0 is sure of all by the ninth turn, 1 leaves one item unsure but moves no more, 2 goes
        on moving to the end: so that interviews end by each of the rules.
        """
        told = len(self._said)
        if not told or any(sign in item.lower() for sign in NOT_PROBED):
            return 0, 0.0
        base = digest(item, self._said[0])
        first = 1 + base % 6
        if told < first:
            return 0, 0.0
        grades = [grade_of(said) for said in self._said[:first]]
        score = int(sum(grades) / len(grades) + 0.8 * (base // 7 % 3 - 1) + 0.5)
        score = min(3, max(0, score))
        confidence = min(0.95, round(0.5 + 0.07 * (told - first), 2))
        if self._pace == 1 and base % 5 == 0:
            confidence = 0.5
        if self._pace == 2:
            confidence = min(confidence, 0.58)
            moves = told % 2 if base % 3 == 0 else 0
            score += moves if score < 3 else -moves
        return score, confidence


def answer(model: str, messages: Messages, seed: object, schema: Schema) -> str:
    """Return JSON that the schema accepts."""
    return json.dumps(Answering(model, messages, seed).fill(schema), ensure_ascii=False)
