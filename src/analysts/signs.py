"""Signs of trouble in what a person says, found by phrases: present, denied or left open.

English only; rules of thumb over clauses, as elsewhere in `src.clinical.text`. A short answer takes
its topic from the question before it.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from src.analysts.cues import Answers, DiagnosisCues
from src.clinical.phrases import Lexicon
from src.clinical.text import about_other, clauses, polarity, sentences, spaced, tentative, words
from src.records import Message, Record

State = Literal["present", "denied", "unclear"]
SPEAKER = frozenset({"i", "i'm", "i've", "me", "my", "myself"})
"""Words within a phrase by which it is about the person, whoever else is named before."""


class Seen(Record):
    """Where a sign came up."""

    state: State
    exchange: int
    quote: str
    """A sentence of the person."""
    timeframe: str | None = None


class SignReader:
    """Reads a transcript for signs; without chance and without state."""

    def __init__(self, cues: DiagnosisCues) -> None:
        """Take the phrases in."""
        self._lexicon, self._limits = Lexicon(cues.names), cues.limits
        self._said = {f"said.{name}": name for name in cues.signs}
        self._asked = {f"asked.{name}": name for name in cues.signs}
        for name, sign in cues.signs.items():
            self._lexicon.add(sign.said, f"said.{name}")
            self._lexicon.add(sign.asked, f"asked.{name}")
        for value in ("timeframes", "past"):
            self._lexicon.add(getattr(cues, value), value)
        for value in Answers.model_fields:
            self._lexicon.add(getattr(cues.answers, value), value)

    def read(self, said: Sequence[Message]) -> dict[str, Seen]:
        """Return every sign that came up, each with what was made of it in the end."""
        found: dict[str, list[Seen]] = {}
        asked = ""
        for number, message in enumerate(said):
            if message.speaker == "interviewer":
                asked = message.text
                continue
            exchange = number // 2 + 1
            told = [*self._told(message.text, exchange)]
            touched = {name for name, _ in told}
            answered = self._answered(message.text, asked, exchange)
            for name, seen in [*told, *(one for one in answered if one[0] not in touched)]:
                found.setdefault(name, []).append(seen)
        return {name: _summed(seen) for name, seen in found.items()}

    def _told(self, text: str, exchange: int) -> Iterator[tuple[str, Seen]]:
        """Yield what the sentences affirm or deny of the person."""
        for sentence in sentences(text):
            plain = spaced(sentence)
            over = self._first(plain, "past") is not None
            timeframe = self._first(plain, "timeframes")
            earlier = ""
            for clause in clauses(sentence):
                for cue, match in self._lexicon.find(f"{clause} ", *self._said):
                    before, after = clause[: match.start()], f"{clause} "[match.end() :]
                    sense = 1 if cue.own_negation else polarity(before, after)
                    own = not SPEAKER.isdisjoint(match.group().split())
                    if not sense or (not own and about_other(earlier + before)):
                        continue
                    doubtful = over or tentative(clause)
                    yield (
                        self._said[str(cue.value)],
                        Seen(
                            state="denied" if sense < 0 else "unclear" if doubtful else "present",
                            exchange=exchange,
                            quote=sentence,
                            timeframe=timeframe,
                        ),
                    )
                earlier += f"{clause} "

    def _answered(self, text: str, asked: str, exchange: int) -> list[tuple[str, Seen]]:
        """Return what an answer says of the topics of the question before it."""
        parts = sentences(text)
        questions = [spaced(one) for one in sentences(asked) if "?" in one]
        if not parts or not questions:
            return []
        found = self._lexicon.find("".join(questions), *self._asked)
        topics = dict.fromkeys(self._asked[str(cue.value)] for cue, _ in found)
        seen = Seen(
            state=self._state(text, len(topics)),
            exchange=exchange,
            quote=parts[0],
            timeframe=self._first(spaced(text), "timeframes"),
        )
        return [(name, seen) for name in topics]

    def _state(self, text: str, topics: int) -> State:
        """Return what an answer says of its topics; one that goes on about few is taken to affirm.

        A yes to several things leaves each of them open; a no denies all.
        """
        first = sentences(text)[0]
        if self._begins(first, "denies") or self._healthy(first):
            return "denied"
        if topics == 1 and self._begins(first, "affirms"):
            return "present"
        at_length = len(words(text)) >= self._limits.words_elaborate
        return "present" if at_length and topics <= self._limits.topics_elaborate else "unclear"

    def _healthy(self, sentence: str) -> bool:
        return any(
            cue.own_negation or polarity(clause[: match.start()]) > 0
            for clause in clauses(sentence)
            for cue, match in self._lexicon.find(f"{clause} ", "healthy")
        )

    def _begins(self, sentence: str, value: str) -> bool:
        return any(not match.start() for _, match in self._lexicon.find(spaced(sentence), value))

    def _first(self, plain: str, value: str) -> str | None:
        """Return the first words of a kind."""
        found = sorted(match.span() for _, match in self._lexicon.find(plain, value))
        return plain[slice(*found[0])].strip() if found else None


def _summed(seen: Sequence[Seen]) -> Seen:
    """Return what was made of a sign: what was said more often, else it is left open."""
    present, denied = ([s for s in seen if s.state == state] for state in ("present", "denied"))
    if len(present) == len(denied):
        return seen[0].model_copy(update={"state": "unclear"})
    telling = present if len(present) > len(denied) else denied
    return next((one for one in telling if one.timeframe), telling[0])
