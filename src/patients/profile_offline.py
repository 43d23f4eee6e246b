"""A rule-based person from a case's profile, so that an assessment runs without a model.

What may be told follows from each fact's level of disclosure and from how it comes up; what was
told before stands in the turns. Nobody takes a denial back, and no danger is told unasked.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, get_args

from src.interview.roles import Turns
from src.patients.hearing import TROUBLES, Heard, Hearing, Line, named
from src.patients.listening import plain
from src.patients.profiles import Fact, PatientProfile, SafetyDomain
from src.records import Answer, Question, seed_of

Way = Literal["invited", "mentioned", "asked"]
"""How a fact comes up: by an open question, by a word in passing, or by a question about it."""
_DANGERS: tuple[SafetyDomain, ...] = get_args(SafetyDomain)
_WEAK = 0.7
"""A fact of which so much less is named than of another is not what was meant."""


class Exchange:
    """What was asked and told before a message."""

    def __init__(
        self, profile: PatientProfile, turns: Turns, heard: Heard, asked: frozenset[str]
    ) -> None:
        self.number, self.heard, self.asked = len(turns) + 1, heard, asked
        self.spoken = "\n".join(turn.answer.text for turn in turns)
        last = turns[-1].answer.text if turns else ""
        self.told = {fact.id for fact in profile.known if one_line(fact.says) in self.spoken}
        self.last_told = {fact.id for fact in profile.known if one_line(fact.says) in last}


class ProfileOfflinePatient:
    """Answer as one profile in one sample; the rules of disclosure stand in `_may_tell`."""

    def __init__(
        self, profile: PatientProfile, hearing: Hearing, *, seed: int, subject: str, sample: int
    ) -> None:
        """Take the run's seed: with subject and sample it decides what is left to chance."""
        self._profile, self._hearing = profile, hearing
        self._key = (seed, subject, sample)
        self._terse = hearing.says("terse", profile.manner.talk)
        self._topics = {
            fact.id: tuple(filter(None, map(plain, fact.topics))) for fact in profile.known
        }
        self._areas = {fact.id: hearing.areas_of(fact) for fact in profile.known}

    async def reply(self, turns: Turns, question: Question) -> Answer:
        """Answer a question, knowing the turns before it."""
        before = [self._about(self._hearing.hear(turn.question.text)) for turn in turns]
        asked = frozenset(fact.id for found in before for fact, way in found if way == "asked")
        now = Exchange(self._profile, turns, self._hearing.hear(question.text), asked)
        dangers = self._dangers(now.heard)
        parts = list(self._of_dangers(dangers, now) if dangers else self._content(now))
        if now.number == 1:
            parts.insert(0, self._profile.opening)
        return Answer(text=" ".join(map(one_line, parts or [self._filler(now)])))

    def _of_dangers(self, dangers: Sequence[SafetyDomain], now: Exchange) -> Iterator[str]:
        """Yield for each danger what is there, or the same denial as ever."""
        for danger in dangers:
            facts = [fact for fact, _ in self._about(now.heard) if fact.safety == danger]
            left = [fact for fact in facts if fact.id not in now.told]
            ready = [fact for fact in left if self._may_tell(fact, "asked", now)][:1]
            concern = danger in self._profile.safety.concerns
            if not concern and not any(fact.state == "denied" for fact in ready):
                yield self._denial(self._profile.denials[danger], now)
            for fact in ready:
                yield fact.says
            if concern and not ready:
                yield self._pick("withheld" if left else "as_said", now)

    def _content(self, now: Exchange) -> Iterator[str]:
        """Yield what is told or denied; nothing where there is neither."""
        heard, denials = now.heard, self._profile.denials
        found = self._about(heard)
        left = [(fact, way) for fact, way in found if fact.id not in now.told]
        facts = [fact for fact, way in left if self._may_tell(fact, way, now)]
        facts = facts or self._unnamed(now, found=bool(found))
        denied = [denials[area] for area in heard.areas if area in denials]
        if any(fact.state == "denied" for fact in facts):
            denied = []
        for fact in facts[: 1 if denied else self._limit(now)]:
            yield fact.says
        for words in denied[:1]:
            yield self._denial(words, now)
        if facts or denied:
            return
        if any(way == "asked" for _, way in left):
            yield self._pick("withheld", now)
        elif "closed" in heard.cues and not found and not TROUBLES.isdisjoint(heard.areas):
            yield self._denial(denials["other"], now)

    def _unnamed(self, now: Exchange, *, found: bool) -> list[Fact]:
        """Return what comes out although the message names nothing that is left to tell."""
        left = [fact for fact in self._profile.known if fact.id not in now.told]
        cues, facts = now.heard.cues, list[Fact]()
        if "more" in cues and not found:
            facts = [fact for fact in left if self._may_tell(fact, "mentioned", now)]
            last = [fact for fact in self._profile.known if fact.id in now.last_told]
            areas = frozenset().union(*(self._areas[fact.id] for fact in last))
            near = [fact for fact in facts if areas & self._areas[fact.id]]
            facts = near or [fact for fact in facts if fact.kind in {one.kind for one in last}]
        if not facts and ("open" in cues or now.number <= self._hearing.early):
            facts = [fact for fact in left if self._may_tell(fact, "invited", now)]
        return facts

    def _filler(self, now: Exchange) -> str:
        """Return what is said where there is nothing to tell."""
        cues = now.heard.cues
        if "closing" in cues:
            return self._pick("farewell", now)
        if any(fact.id in now.told for fact, _ in self._about(now.heard)):
            return self._pick("as_said", now)
        if cues & {"open", "more"}:
            return self._pick("that_is_all", now)
        if "safe" in cues:
            return self._pick("safe", now)
        return self._pick("greetings" if "greeting" in cues else "unsure", now)

    def _dangers(self, heard: Heard) -> list[SafetyDomain]:
        """Return the dangers that a message asks about, by their own words before anything else."""
        areas = heard.areas if heard.asking else heard.mentioned
        found = [danger for danger in _DANGERS if danger in areas]
        return found or [*self._profile.safety.concerns] * ("safe" in heard.cues)

    def _about(self, heard: Heard) -> list[tuple[Fact, Way]]:
        """Return the facts that a message is about and how it raises them, the likeliest first."""
        known = self._profile.known
        if dangers := self._dangers(heard):
            told_of = [fact for fact in known if fact.safety in dangers]
            letters = {fact.id: named(self._topics[fact.id], heard.words) for fact in told_of}
            told_of.sort(key=lambda f: (f.state == "denied", -letters[f.id], f.kind != "risk"))
            return [(fact, "asked") for fact in told_of]
        calm = self._profile.denials.keys()
        if heard.asking:
            found = self._named(heard.asking, set(heard.areas) - calm)
            if found or heard.areas:
                return [(fact, "asked") for fact in found]
        found = self._named(heard.words, set(heard.mentioned) - calm)
        return [(fact, "mentioned") for fact in found]

    def _named(self, words: str, areas: AbstractSet[str]) -> list[Fact]:
        """Return facts that words name, those about as fully named as any, then others of areas."""
        known = self._profile.known
        letters = {fact.id: named(self._topics[fact.id], words) for fact in known}
        enough = max(1.0, _WEAK * max(letters.values(), default=0))
        outright = [fact for fact in known if letters[fact.id] >= enough]
        others = [fact for fact in known if fact not in outright and not fact.safety]
        return outright + [fact for fact in others if areas & self._areas[fact.id]]

    def _may_tell(self, fact: Fact, way: Way, now: Exchange) -> bool:
        """Say whether a fact comes out here: the levels of disclosure."""
        if fact.safety in self._profile.safety.concerns and fact.state == "denied":
            others = [f for f in self._profile.known if f.safety == fact.safety]
            if not any(f.id in now.told for f in others if f.state != "denied"):
                return False  # what is not planned makes no sense before what is there
        trusts = now.number > self._hearing.trust_after
        harmless = not fact.safety and fact.kind != "risk"
        return {
            "spontaneous": True,
            "when_relevant": way != "invited",
            "when_asked_directly": way == "asked",
            "initially_withheld": (way == "asked" and (trusts or fact.id in now.asked))
            or (way == "invited" and trusts and harmless),
            "clinician_only": False,
        }[fact.disclosure]

    def _limit(self, now: Exchange) -> int:
        one = self._terse or self._chance(now.number, "second") >= self._hearing.second
        return 1 if one else self._hearing.facts_max

    def _denial(self, words: str, now: Exchange) -> str:
        """Return a denial, or where it was said, that it stands."""
        return self._pick("no_again", now) if one_line(words) in now.spoken else words

    def _pick(self, kind: Line, now: Exchange) -> str:
        """Return one of the lines, one not yet spoken where there is any."""
        lines = self._hearing.lines[kind]
        start = int(self._chance(now.number, kind) * len(lines))
        turned = (*lines[start:], *lines[:start])
        return next((line for line in turned if line not in now.spoken), turned[0])

    def _chance(self, *what: object) -> float:
        """Return a number in [0, 1) that depends on run seed, subject, sample and `what` alone."""
        return seed_of(*self._key, *what) / 2**31


def one_line(text: str) -> str:
    return " ".join(text.split())
