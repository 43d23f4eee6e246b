"""The lexical scorer: rates the 21 items from graded cues, without a model.

It counts what the patients say of themselves. A cue's grade is moved by how often, how long and
how strongly; several mentions are summed up by the strongest of them. Knowingly out of reach:
irony, and anything said without one of the cues.
"""

import re
from functools import lru_cache
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from src.clinical import text
from src.clinical.phrases import Lexicon, Phrases
from src.interview.roles import Turns
from src.records import ITEMS, Assessment, Confidence, Item, Score, SymptomScore

GRADES = ("denied", "mild", "moderate", "severe")
"""Names of the levels 0 to 3 in the cue file."""
ANHEDONIA, SUICIDAL, FATIGUE = 4, 9, 20
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
_PAST = re.compile(r"\bused to (?:[^ ]+ ){0,4}$")
SHORT = 40
"""Words of a reply up to which its first words answer the question; a longer one has its own."""
BRIEF = 16
"""Words of a sentence within which frequency and duration reach every clause."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Asked(_Strict):
    """Words by which a question is about an item."""

    trouble: Phrases
    """A yes complains."""
    health: Phrases
    """A no complains."""
    topic: Phrases
    """The question leaves it open."""


class ItemCues(_Strict):
    asked: Asked
    denied: Phrases
    mild: Phrases = Field(min_length=1)
    moderate: Phrases = Field(min_length=1)
    severe: Phrases = Field(min_length=1)


class Answers(_Strict):
    """Beginnings of short answers."""

    yes: Phrases
    no: Phrases
    good: Phrases
    poor: Phrases
    bad: Phrases
    deflected: Phrases


class Wonder(_Strict):
    """Words of a question that say which answer complains, or that ask how often."""

    trouble: Phrases
    health: Phrases
    often: Phrases


class Cues(_Strict):
    """The cue file, `conf/lexicon/cues.yaml`, which explains its notation."""

    words: dict[str, str]
    traps: Phrases
    resolved: Phrases
    excused: Phrases
    answers: Answers
    wonder: Wonder
    items: dict[Item, ItemCues]

    @model_validator(mode="after")
    def _whole(self) -> "Cues":
        if missing := sorted(set(range(1, ITEMS + 1)) - set(self.items)):
            raise ValueError(f"item {missing[0]} has no cues")
        for item, cues in self.items.items():
            for phrase in (p for grade in GRADES for p in getattr(cues, grade)):
                for name in re.findall(r"<([a-z]+)>", phrase):
                    if name not in self.words:
                        raise ValueError(f"item {item}: no list of words is called <{name}>")
        return self


class Thresholds(_Strict):
    """The scorer's numbers; `conf/scorer/lexical.yaml` says what they are for."""

    strongest: Annotated[int, Field(ge=1)]
    enjoyment_cap: Score
    topics_max: Annotated[int, Field(ge=1)]
    plain: Confidence
    graded: Confidence
    denied: Confidence
    short: Confidence
    tentative: Confidence
    repeated: Confidence
    most: Confidence


class Mention(NamedTuple):
    """One thing said about one item."""

    item: int
    level: int
    """0 denied, 1 to 3."""
    confidence: float
    evidence: str


class _Question(NamedTuple):
    topics: tuple[tuple[int, str], ...]
    """Items of what is asked, with the kind of answer that complains."""
    raised: frozenset[int]
    """Items that the message names at all."""
    often: bool


class _Short(NamedTuple):
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
    around = clause if scope is None else scope
    often, strong, base = text.frequency(around), text.intensity(clause), level
    if often is not None:
        level = max(level, often) if often > 1 else max(1, level - 1)
    if text.lasting(around):
        level = 3 if item == FATIGUE and base > 1 else max(level, 2)
    if strong < 0:
        return max(1, level - 1)
    return min(3, max(level, 2) if strong == 1 else level + strong // 2)


def _answered(said: _Short, kind: str, *, often: bool) -> int | None:
    """Return the level that a short answer gives an item asked about in this way."""
    if often and said.often is not None and said.kind in {"", "yes"}:
        return said.often
    if said.kind in {"good", "poor", "bad"}:
        return {"good": 0, "poor": 1, "bad": 2}[said.kind]
    if kind == "topic" or said.kind not in {"yes", "no"}:
        return None
    return said.graded if (said.kind == "yes") == (kind == "trouble") else 0


class LexicalScorer:
    """Scores transcripts by cue lists: pure, deterministic, stateless (it remembers replies)."""

    def __init__(self, cues: Cues, thresholds: Thresholds) -> None:
        self._limits = thresholds
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
        # Bounded memories of pure functions: the same reply is read again after every later turn.
        self._read = lru_cache(maxsize=20_000)(self._read_reply)
        self._topics = lru_cache(maxsize=20_000)(self._read_question)

    async def score(self, turns: Turns) -> Assessment:
        """Rate the 21 items from the patient's own words so far."""
        mentions: list[Mention] = []
        before: tuple[int, ...] = ()
        for turn in turns:
            found = self._turn(turn.question.text, turn.answer.text, before)
            mentions.extend(found)
            before = tuple(dict.fromkeys(m.item for m in found if m.level))
        symptoms = tuple(
            self._sum_up(item, [m for m in mentions if m.item == item])
            for item in range(1, ITEMS + 1)
        )
        return Assessment(symptoms=symptoms)

    def signals(self, reply: str) -> tuple[int, ...]:
        """Return the items, in order, that a single reply complains of by its own words."""
        return tuple(sorted({m.item for m in self._read(reply) if m.level}))

    def _turn(self, question: str, reply: str, before: tuple[int, ...]) -> list[Mention]:
        """Return what one reply says, knowing its question and the items of the reply before."""
        asked = self._topics(question)
        found = [m for m in self._read(reply) if m.item not in VOLUNTEERED & asked.raised]
        own = {m.item for m in found}
        topics = [(item, kind) for item, kind in asked.topics if item not in own | VOLUNTEERED]
        if asked.often and not topics and not found:
            topics = [(item, "trouble") for item in before if item not in VOLUNTEERED]
        said = self._short(reply) if 0 < len(topics) <= self._limits.topics_max else None
        if said is None:
            return found
        for item, kind in topics:
            level = _answered(said, kind, often=asked.often)
            if level is not None:
                sure = self._limits.tentative if said.tentative else self._limits.short
                found.append(Mention(item, level, sure, said.evidence))
        return found

    def _read_question(self, question: str) -> "_Question":
        asked = [s for s in text.sentences(question) if s.rstrip("\"' )*_").endswith("?")]
        chosen = asked[-1:] or text.sentences(question)[-1:]
        topics = self._topics_of(" ".join(chosen)) or self._topics_of(" ".join(asked))
        raised = frozenset(item for item, _ in self._topics_of(question))
        wonder = {cue.value for cue, _ in self._other.find(_flat(" ".join(chosen)))}
        return _Question(topics, raised, "often" in wonder)

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

    def _short(self, reply: str) -> "_Short | None":
        """Return what the first words of a reply say about the thing asked."""
        if len(text.words(reply)) > SHORT:
            return None
        for sentence in text.sentences(reply)[:2]:
            flat = _FILLERS.sub("", _flat(sentence))
            heads = [(m.end(), c.value) for c, m in self._answers.find(flat) if not m.start()]
            kind = str(max(heads)[1]) if heads else ""
            often = text.frequency(flat)
            if kind == "deflected" and often is None:
                continue
            if kind or often is not None:
                graded = _graded(1, flat, item=0)
                return _Short(kind, often, graded, text.tentative(flat), sentence)
            return None
        return None

    def _read_reply(self, reply: str) -> tuple[Mention, ...]:
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
        brief = len(flat.split()) <= BRIEF
        for part in parts:
            clause = part + " "
            marks = list(self._other.find(clause))
            excused = any(cue.value == "excused" for cue, _ in marks)
            for cue, match in marks:
                if cue.value == "traps":
                    clause = clause.replace(match.group(), "… ")
            scope = flat if brief else clause
            for mention in self._read_clause(clause, scope, other=other):
                if excused and mention.item != SUICIDAL:
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
            level = _sense(int(cue.value), text.polarity(before, after), own=cue.own_negation)
            if level is None or _PAST.search(before) or text.about_other(before, otherwise=other):
                continue
            key = cue.item, level > 0
            length, held = best.get(key, (0, 0))
            best[key] = max(length, len(match.group())), max(held, level)
        mentions = []
        for (item, affirmed), (length, level) in best.items():
            if length < best.get((item, not affirmed), (0, 0))[0]:
                continue
            mentions.append(self._mention(item, level, clause, scope))
        return mentions

    def _mention(self, item: int, base: int, clause: str, scope: str) -> Mention:
        limits = self._limits
        if not base:
            return Mention(item, 0, limits.denied, "")
        level = _graded(base, clause, item=item, scope=scope)
        marked = text.frequency(scope) is not None or text.intensity(clause) or text.lasting(scope)
        sure = limits.graded if marked else limits.plain
        return Mention(item, level, limits.tentative if text.tentative(clause) else sure, "")

    def _sum_up(self, item: int, mentions: list[Mention]) -> SymptomScore:
        if not mentions:
            return SymptomScore(score=0, confidence=0.0)
        limits = self._limits
        affirmed = sorted((m for m in mentions if m.level), key=lambda m: (-m.level, -m.confidence))
        denied = [m for m in mentions if not m.level]
        strongest = affirmed[: limits.strongest]
        score = 0
        if strongest:
            score = (2 * sum(m.level for m in strongest) + len(strongest)) // (2 * len(strongest))
            if denied and item == ANHEDONIA:
                score = min(score, limits.enjoyment_cap)
            elif len(denied) >= len(affirmed):
                score -= 1
        agreeing = affirmed if score else denied or affirmed
        sure = max(m.confidence for m in agreeing) + limits.repeated * (len(agreeing) - 1)
        if affirmed and denied:
            sure = min(sure, limits.plain)
        best = min(agreeing, key=lambda m: (abs(m.level - score), -m.confidence))
        return SymptomScore(score=score, confidence=min(sure, limits.most), evidence=best.evidence)
