"""Reading one reply or one question by cues: what is said of which item, how strongly.

Pure: the same text always reads the same. Irony and what no cue words stay unread.
"""

import re
from collections import defaultdict
from typing import NamedTuple

from src.clinical import text
from src.clinical.phrases import Lexicon
from src.settings import LexicalThresholds
from src.steering.cues import GRADES, Answers, Cues, Wonder

SUICIDAL, FATIGUE = 9, 20
WONDER = 0
"""Stands for an item where a question only says how it is meant."""
CONDITIONAL = frozenset({6, 9})
"""Items whose cues are themselves conditional."""
VOLUNTEERED = frozenset({9, 21})
"""Items that count only where the interviewer did not bring them up."""
_OF_ME = re.compile(r"\b(?:me|myself) ")
_PAST = re.compile(r"\bused to (?:[^ ]+ ){0,4}$")
KINDS = ("trouble", "health", "topic")
"""How a question may be about an item; the first that holds counts."""


class Mention(NamedTuple):
    """One thing said about one item."""

    item: int
    level: int
    """0 denied, 1 to 3."""
    confidence: float
    evidence: str


class QuestionRead(NamedTuple):
    topics: tuple[tuple[int, str], ...]
    """Items of what is asked, with the kind of answer that complains."""
    raised: frozenset[int]
    """Items that the message names at all."""
    often: bool


class Short(NamedTuple):
    """What the first words of a reply say."""

    kind: str
    often: int | None
    graded: int
    """Level of a yes with its frequency and intensity."""
    tentative: bool
    evidence: str

    def level(self, asked: str, *, often: bool) -> int | None:
        """Return the level of an item that was asked about in this way, or for how often."""
        if self.often is not None and (often or not self.kind):
            return self.often if often or asked != "health" else int(self.often == 1)
        if self.kind in {"good", "poor", "bad"}:
            return {"good": 0, "poor": 1, "bad": 2}[self.kind]
        if asked == "topic" or self.kind not in {"yes", "no"}:
            return None
        return self.graded if (self.kind == "yes") == (asked == "trouble") else 0


def _asks(sentence: str) -> bool:
    return sentence.rstrip("\"' )*_").endswith("?")


def _sense(level: int, polarity: int, *, own: bool) -> int | None:
    """Return the level of a cue under negation, None for a mere mention."""
    if polarity > 0:
        return level
    if level == 0 and not own and polarity < 0:
        return 1
    return None if polarity == 0 or level == 0 else 0


def _graded(level: int, clause: str, *, item: int, scope: str | None = None) -> int:
    """Return a complaint's level, 1 to 3, moved by frequency, duration and intensity."""
    if item == SUICIDAL:  # graded by what is wished, not by how often
        return level
    around = clause if scope is None else scope
    often, strong, base = text.frequency(around), text.intensity(clause), level
    if often is not None:
        level = max(level, often) if often > 1 else max(1, level - 1)
    if text.lasting(around):
        level = 3 if item == FATIGUE and base > 1 else max(level, 2)
    if strong < 0:
        return max(1, level - 1)
    return min(3, max(level, 2) if strong == 1 else level + strong // 2)


class Reader:
    """Finds what replies and questions say, by the cue lists."""

    def __init__(self, cues: Cues, thresholds: LexicalThresholds) -> None:
        self._limits, self._reach = thresholds, cues.reach
        self._cues, self._asked, self._other = (Lexicon(cues.words) for _ in range(3))
        for item, entry in cues.items.items():
            for level, grade in enumerate(GRADES):
                self._cues.add(getattr(entry, grade), level, item)
            for kind in KINDS:
                self._asked.add(getattr(entry.asked, kind), kind, item)
        for kind in Wonder.model_fields:
            self._asked.add(getattr(cues.wonder, kind), kind, WONDER)
        for kind in ("traps", "resolved", "excused"):
            self._other.add(getattr(cues, kind), kind)
        for kind in Answers.model_fields:
            self._other.add(getattr(cues.answers, kind), kind)

    def question(self, message: str) -> QuestionRead:
        """Return what the last question of a message asks about."""
        said = text.sentences(message)
        asked = [sentence for sentence in said if _asks(sentence)]
        last = "".join(asked[-1:] or said[-1:])
        topics = self._topics_of(last) or self._topics_of(" ".join(asked))
        if any(item in VOLUNTEERED for item, _ in topics):
            topics = ()
        raised = frozenset(self._kinds(message)) - {WONDER}
        return QuestionRead(topics, raised, "often" in self._kinds(last)[WONDER])

    def _kinds(self, question: str) -> defaultdict[int, set[int | str]]:
        """Return in what ways a question is about each item that it names."""
        kinds: defaultdict[int, set[int | str]] = defaultdict(set)
        for cue, _ in self._asked.find(text.spaced(question)):
            kinds[cue.item].add(cue.value)
        return kinds

    def _topics_of(self, question: str) -> tuple[tuple[int, str], ...]:
        kinds = self._kinds(question)
        wonder = kinds.pop(WONDER, set())
        meant = next((kind for kind in KINDS if kind in wonder), "topic")
        topics = []
        for item, named in sorted(kinds.items()):
            kind = next(kind for kind in KINDS if kind in named)
            topics.append((item, meant if kind == "topic" else kind))
        return tuple(topics)

    def short(self, reply: str) -> Short | None:
        """Return what the first words of a reply say about the thing asked."""
        if len(text.words(reply)) > self._reach.reply:
            return None
        for sentence in text.sentences(reply)[:2]:
            flat = text.compiled("^(?:<fillers> )+").sub("", text.spaced(sentence))
            found = self._other.find(flat, *Answers.model_fields)
            heads = [(match.end(), str(cue.value)) for cue, match in found if not match.start()]
            kind = max(heads, default=(0, ""))[1]
            often = text.frequency(flat)
            if kind == "deflected" and often is None:
                continue
            if kind or often is not None:
                graded = _graded(1, flat.replace("not really", "no"), item=0)
                return Short(kind, often, graded, text.tentative(flat), sentence)
            return None
        return None

    def reply(self, reply: str) -> tuple[Mention, ...]:
        """Return what a reply says of its speaker, in order."""
        found: list[Mention] = []
        last: list[Mention] = []
        for sentence in text.sentences(reply):
            flat = text.spaced(sentence)
            if _asks(sentence) and text.compiled(r"\b<to_you>\b").search(flat):
                continue
            here = self._read_sentence(sentence, flat)
            if not here and last and text.compiled(r"<goes_on>\b").match(flat):
                moved = [m._replace(level=_graded(m.level, flat, item=m.item)) for m in last]
                found = [m for m in found if m not in last] + moved
                last = moved
                continue
            last = [m for m in here if m.level]
            found.extend(here)
        return tuple(found)

    def _read_sentence(self, sentence: str, flat: str) -> list[Mention]:
        if any(True for _ in self._other.find(flat, "resolved")):
            return []
        found: dict[int, Mention] = {}
        other = False
        brief = len(flat.split()) <= self._reach.sentence
        for part in text.clauses(sentence):
            clause = part + " "
            excused = any(True for _ in self._other.find(clause, "excused"))
            for _, match in self._other.find(clause, "traps"):
                clause = clause.replace(match.group(), "… ")
            for mention in self._read_clause(clause, flat if brief else clause, other=other):
                held = found.get(mention.item)
                counts = not excused or mention.item in CONDITIONAL
                if counts and (held is None or mention.level > held.level):
                    found[mention.item] = mention._replace(evidence=sentence)
            other = text.about_other(clause, otherwise=other)
        return list(found.values())

    def _read_clause(self, clause: str, scope: str, *, other: bool) -> list[Mention]:
        """Return the mentions of a clause; a longer phrase outweighs one of the opposite sense."""
        best: dict[tuple[int, bool], tuple[int, int]] = {}
        for cue, match in self._cues.find(clause):
            before, after = clause[: match.start()], clause[match.end() :]
            sense = text.polarity(before, after)
            if cue.value == 0 and sense > 0 and text.strained(before):
                sense = -1
            level = _sense(int(cue.value), sense, own=cue.own_negation)
            if level is None or _PAST.search(before):
                continue
            if text.about_other(before, otherwise=other) and not _OF_ME.search(match.group()):
                continue
            key = cue.item, level > 0
            length, held = best.get(key, (0, 0))
            # A phrase that is itself worded with a "not" explains the "not" before others.
            own = 1000 if cue.own_negation and level == cue.value else 0
            best[key] = max(length, len(match.group()) + own), max(held, level)
        return [
            self._mention(item, level, clause, scope)
            for (item, affirmed), (length, level) in best.items()
            if length >= best.get((item, not affirmed), (0, 0))[0]
        ]

    def _mention(self, item: int, base: int, clause: str, scope: str) -> Mention:
        if not base:
            return Mention(item, 0, self._limits.denied, "")
        level = _graded(base, clause, item=item, scope=scope)
        marked = text.frequency(scope) is not None or text.intensity(clause) or text.lasting(scope)
        sure = self._limits.graded if marked else self._limits.plain
        return Mention(item, level, self._limits.tentative if text.tentative(clause) else sure, "")
