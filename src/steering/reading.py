"""Reading one reply or one question by cues: what is said of which item, how strongly.

Pure: the same text always reads the same. Irony and what no cue words stay unread.
"""

import re
from typing import NamedTuple

from src.clinical import text
from src.clinical.phrases import Lexicon
from src.settings import LexicalThresholds
from src.steering.cues import GRADES, Answers, Cues

SUICIDAL, FATIGUE = 9, 20
CONDITIONAL = frozenset({6, 9})
"""Items whose cues are themselves conditional."""
VOLUNTEERED = frozenset({9, 21})
"""Items that count only where the interviewer did not bring them up."""
_FILLERS = re.compile(
    r"^(?:(?:oh|um|uh|hmm|well|honestly|ugh|i mean|to be honest|you know|so|ah|look|actually) )+"
)
_TO_YOU = re.compile(r"\b(?:you|your|yours|you're|you've)\b")
_GOES_ON = re.compile(
    r"(?:it|it's|that|that's|this|and it|happens|most|almost|nearly|every|everyday|everynight|all|"
    r"pretty much|not every|always|constantly|usually|sometimes|a few times|on and off|for)\b"
)
_OF_ME = re.compile(r"\b(?:me|myself) ")
_PAST = re.compile(r"\bused to (?:[^ ]+ ){0,4}$")


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
    kind: str
    often: int | None
    graded: int
    """Level of a yes with its frequency and intensity."""
    tentative: bool
    evidence: str


def _flat(sentence: str) -> str:
    return " ".join(text.words(sentence)) + " "


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


def answered(said: Short, kind: str, *, often: bool) -> int | None:
    """Return the level that a short answer gives an item asked about in this way."""
    if said.often is not None and (often or not said.kind):
        return said.often if often or kind != "health" else int(said.often == 1)
    if said.kind in {"good", "poor", "bad"}:
        return {"good": 0, "poor": 1, "bad": 2}[said.kind]
    if kind == "topic" or said.kind not in {"yes", "no"}:
        return None
    return said.graded if (said.kind == "yes") == (kind == "trouble") else 0


class Reader:
    """Finds what replies and questions say, by the cue lists."""

    def __init__(self, cues: Cues, thresholds: LexicalThresholds) -> None:
        self._limits, self._reach = thresholds, cues.reach
        self._cues, self._asked, self._other = (Lexicon(cues.words) for _ in range(3))
        for item, entry in cues.items.items():
            for level, grade in enumerate(GRADES):
                self._cues.add(getattr(entry, grade), level, item)
            for kind in ("trouble", "health", "topic"):
                self._asked.add(getattr(entry.asked, kind), kind, item)
        for kind in ("trouble", "health", "often"):
            self._other.add(getattr(cues.wonder, kind), kind)
        for kind in ("traps", "resolved", "excused"):
            self._other.add(getattr(cues, kind), kind)
        self._answers = Lexicon(cues.words)
        for kind in Answers.model_fields:
            self._answers.add(getattr(cues.answers, kind), kind)

    def question(self, message: str) -> QuestionRead:
        """Return what the last question of a message asks about."""
        asked = [s for s in text.sentences(message) if s.rstrip("\"' )*_").endswith("?")]
        chosen = asked[-1:] or text.sentences(message)[-1:]
        topics = self._topics_of(" ".join(chosen)) or self._topics_of(" ".join(asked))
        if any(item in VOLUNTEERED for item, _ in topics):
            topics = ()
        raised = frozenset(item for item, _ in self._topics_of(message))
        wonder = {cue.value for cue, _ in self._other.find(_flat(" ".join(chosen)))}
        return QuestionRead(topics, raised, "often" in wonder)

    def _topics_of(self, question: str) -> tuple[tuple[int, str], ...]:
        flat = _flat(question)
        kinds: dict[int, set[int | str]] = {}
        for cue, _ in self._asked.find(flat):
            kinds.setdefault(cue.item, set()).add(cue.value)
        wonder = {cue.value for cue, _ in self._other.find(flat)}
        order = ("trouble", "health", "topic")
        topics = []
        for item, named in sorted(kinds.items()):
            kind = next(k for k in order if k in named)
            if kind == "topic":
                kind = next((k for k in order if k in wonder), "topic")
            topics.append((item, kind))
        return tuple(topics)

    def short(self, reply: str) -> Short | None:
        """Return what the first words of a reply say about the thing asked."""
        if len(text.words(reply)) > self._reach.reply:
            return None
        for sentence in text.sentences(reply)[:2]:
            flat = _FILLERS.sub("", _flat(sentence))
            heads = [(m.end(), c.value) for c, m in self._answers.find(flat) if not m.start()]
            kind = str(max(heads)[1]) if heads else ""
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
            flat = _flat(sentence)
            if sentence.rstrip("\"' )*_").endswith("?") and _TO_YOU.search(flat):
                continue
            here = self._read_sentence(sentence, flat)
            if not here and last and _GOES_ON.match(flat):
                moved = [m._replace(level=_graded(m.level, flat, item=m.item)) for m in last]
                found = [m for m in found if m not in last] + moved
                last = moved
                continue
            last = [m for m in here if m.level]
            found.extend(here)
        return tuple(found)

    def _read_sentence(self, sentence: str, flat: str) -> list[Mention]:
        if any(cue.value == "resolved" for cue, _ in self._other.find(flat)):
            return []
        found: dict[int, Mention] = {}
        other = False
        parts = text.clauses(sentence)
        brief = len(flat.split()) <= self._reach.sentence
        for part in parts:
            clause = part + " "
            marks = list(self._other.find(clause))
            excused = any(cue.value == "excused" for cue, _ in marks)
            for cue, match in marks:
                if cue.value == "traps":
                    clause = clause.replace(match.group(), "… ")
            scope = flat if brief else clause
            for mention in self._read_clause(clause, scope, other=other):
                if excused and mention.item not in CONDITIONAL:
                    continue
                held = found.get(mention.item)
                if held is None or mention.level > held.level:
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
        limits = self._limits
        if not base:
            return Mention(item, 0, limits.denied, "")
        level = _graded(base, clause, item=item, scope=scope)
        marked = text.frequency(scope) is not None or text.intensity(clause) or text.lasting(scope)
        sure = limits.graded if marked else limits.plain
        return Mention(item, level, limits.tentative if text.tentative(clause) else sure, "")
