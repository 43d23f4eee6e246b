"""Rule-based persons with a known BDI-II truth, so that the whole pipeline runs without a model.

They understand a question by its words, disclose by their manner and by how they are asked, and
choose their own words; what was said before is read from the turns. Not meant as a model of
suffering: a person here is a small set of habits.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from src.clinical.bdi import SENSITIVE, band
from src.interview.roles import Turns
from src.patients.lines import Lines, Person, load_lines, load_persons
from src.patients.moment import Moment
from src.records import ITEMS, Answer, Question
from src.settings import HabitSettings, OfflineThresholds

__all__ = ["OfflinePatient", "load_lines", "load_persons"]

BODILY = frozenset({11, 15, 16, 18, 20})
"""Items of the body: restlessness, energy, sleep, appetite, fatigue."""


class OfflinePatient:
    """Answer as one person in one sample; the rules of disclosure stand here from top to bottom."""

    def __init__(
        self,
        person: Person,
        lines: Lines,
        *,
        seed: int,
        subject: str,
        sample: int,
        thresholds: OfflineThresholds,
    ) -> None:
        self._person, self._manner, self._lines = person, person.manner, lines
        self._key = (seed, subject, sample)
        self._thresholds = thresholds
        self._habits: HabitSettings = getattr(thresholds.manners, person.manner)
        self.levels = tuple(self._level(item) for item in range(1, ITEMS + 1))
        """What this person holds true in this sample, in BDI-II order."""
        self._guarded = self._manner == "deflecting"
        self._looks = "minimal" if self._guarded else band(sum(self.levels))
        somatising = self._manner == "somatising"
        self._wordless = frozenset(range(1, ITEMS + 1)) - BODILY if somatising else frozenset()
        """Items for which there is only the body to speak of at first."""
        self._foremost = sorted(
            set(range(1, ITEMS + 1)) - SENSITIVE,
            key=lambda n: (n in self._wordless, -self.levels[n - 1], self._chance("rank", n)),
        )
        """Items in the order in which they slip out."""

    async def reply(self, turns: Turns, question: Question) -> Answer:
        """Answer a question, knowing the turns before it."""
        now = Moment(self._lines, turns, question.text, self._chance)
        return Answer(text=" ".join(dict.fromkeys(self._parts(now))))

    def _parts(self, now: Moment) -> Iterator[str]:
        """Yield a whole reply: what is refused first, then what is asked, then what slips."""
        heard, lines = now.heard, self._lines
        if heard.cold:
            yield now.pick(lines.refusals)
            return
        if heard.items and not now.topics:
            yield now.pick(lines.evasions)
            return
        if now.number == 1 and self._manner != "terse":
            yield now.pick(lines.greetings)
        if now.cooled:
            yield now.pick(lines.cool)
        elif now.topics and now.happens(self._thresholds.lead_in, "lead in"):
            yield from now.fresh(lines.lead_ins[self._manner])[:1]
        for place, item in enumerate(now.topics[: 1 if now.cooled else self._habits.answers]):
            yield from self._answer(item, now, leading=place == 0)
        if not now.topics and heard.general:
            yield now.pick(lines.general[self._looks])
        elif not now.topics:
            yield now.pick((*self._person.asides, *lines.small_talk))
        if not now.cooled:
            yield from self._unasked(now)

    def _answer(self, item: int, now: Moment, *, leading: bool) -> Iterator[str]:
        """Yield what is said of an item; the remarks around it only of the `leading` one."""
        heard, lines = now.heard, self._lines
        told, level = now.told.get(item), self._disclosed(item, now)
        wordings = self._wordings(item, level, now)
        denied_before = heard.follows_up and not level
        asked_before = item in now.asked and not heard.aspect
        spent = asked_before and (now.repeated or not now.fresh(wordings))
        if told == level and (denied_before or spent):
            if leading:
                yield now.pick(lines.repeats if level else lines.nothing_there)
            return
        if self.levels[item - 1] and item not in now.known:
            if item in self._wordless:
                yield now.pick(lines.bodily)
                return
            if self._guarded and now.happens(self._thresholds.deflects, "deflects", item):
                yield now.pick(lines.deflections)
                return
        if leading and told is not None and level > told:
            yield now.pick(lines.opened)
        if leading and heard.aspect and level:
            yield now.pick(lines.spelled_out[heard.aspect][level])
        yield now.pick(wordings)

    def _disclosed(self, item: int, now: Moment) -> int:
        """Return the level that a person admits to here: the own one, or one less."""
        again, gentle = item in now.known, now.heard.gentle
        if self._guarded:
            holds_back = not (again and gentle)
        else:
            understates = now.happens(self._thresholds.closed_understates, "closed", item)
            holds_back = understates and not again and not gentle
        level = self.levels[item - 1] - (holds_back or now.cooled)
        return max(level, now.told.get(item, 0))

    def _unasked(self, now: Moment) -> Iterator[str]:
        """Yield what comes on top: other symptoms, something private, something else entirely."""
        heard, habits, person = now.heard, self._habits, self._person
        slips = habits.leaks if heard.general else 0
        if now.topics:
            invited = self._manner == "talkative" or (heard.open and heard.warm)
            slips = int(invited and now.happens(habits.extra, "extra"))
        levels = [(item, self.levels[item - 1] - self._guarded) for item in self._foremost]
        left = [(n, v) for n, v in levels if v > 0 and n not in now.told and n not in now.topics]
        for item, level in left[:slips]:
            yield now.pick(self._wordings(item, level, now))
        trusts = now.number > self._thresholds.trust_after and not now.offended
        if trusts and heard.gentle and now.happens(habits.volunteers, "private"):
            for item in [item for item in person.volunteers if item not in now.told][:1]:
                yield now.pick(self._wordings(item, self.levels[item - 1], now))
        if (now.topics or heard.general) and now.happens(habits.aside, "aside"):
            yield from now.fresh((*person.asides, *self._lines.tangents))[:1]

    def _wordings(self, item: int, level: int, now: Moment) -> Sequence[str]:
        wordings = self._lines.wordings(self._person, item, level)
        if now.cooled or self._manner == "terse":
            return sorted(wordings, key=len)[: max(3, len(wordings) // 2)]
        return wordings

    def _level(self, item: int) -> int:
        level = self._person.truth[item - 1]
        if item in SENSITIVE or self._chance("slip", item) >= self._person.inconsistency:
            return level
        down = self._chance("slip down", item) < self._thresholds.inconsistent_downward
        step = 2 if self._chance("slip far", item) < self._thresholds.inconsistent_leap else 1
        return max(0, level - step) if down else min(3, level + step)

    def _chance(self, *what: object) -> float:
        """Return a number in [0, 1) that depends on run seed, subject, sample and `what` alone."""
        text = "\x1f".join(map(str, (*self._key, *what)))
        return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) / 2**56
