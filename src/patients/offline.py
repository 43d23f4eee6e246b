"""Rule-based persons with a known BDI-II truth, so that the whole pipeline runs without a model.

They understand a question by its words, disclose by their manner and by how they are asked, and
choose their own words; what was said before is read from the turns. Not meant as a model of
suffering: a person here is a small set of habits.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from src.clinical.bdi import SENSITIVE, band
from src.interview.roles import Turns
from src.patients.lines import Lines, load_lines
from src.patients.moment import Moment, is_cold, moment
from src.patients.persons import Person, load_persons
from src.records import ITEMS, Answer, Question
from src.settings import HabitSettings, OfflineThresholds

__all__ = ["OfflinePatient", "load_lines", "load_persons"]

BODILY = frozenset({11, 15, 16, 18, 20})
"""Items of the body: restlessness, energy, sleep, appetite, fatigue."""


class OfflinePatient:
    """Answer as one person in one sample."""

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
        self._person = person
        self._lines = lines
        self._key = (seed, subject, sample)
        self._thresholds = thresholds
        self._habits: HabitSettings = getattr(thresholds.manners, person.manner)
        self.levels = tuple(self._level(item) for item in range(1, ITEMS + 1))
        """What this person holds true in this sample, in BDI-II order."""

    async def reply(self, turns: Turns, question: Question) -> Answer:
        """Answer a question, knowing the turns before it."""
        now = moment(self._lines, turns, question.text)
        return Answer(text=" ".join(dict.fromkeys(self._parts(now))))

    def _level(self, item: int) -> int:
        level = self._person.truth[item - 1]
        if item in SENSITIVE or self._chance("slip", item) >= self._person.inconsistency:
            return level
        down = self._chance("slip down", item) < self._thresholds.inconsistent_downward
        leap = self._chance("slip far", item) < self._thresholds.inconsistent_leap
        step = 2 if leap else 1
        return max(0, level - step) if down else min(3, level + step)

    def _chance(self, *what: object) -> float:
        """Return a number in [0, 1) that depends on run seed, subject, sample and `what` alone."""
        text = "\x1f".join(map(str, (*self._key, *what)))
        return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) / 2**56

    def _parts(self, now: Moment) -> Iterator[str]:
        heard, lines = now.heard, self._lines
        if is_cold(heard):
            yield self._pick(lines.refusals, now, "refusal")
            return
        items = self._topics(now)
        if not items and heard.items:
            yield self._pick(lines.evasions, now, "evasion")
            return
        if now.number == 1 and self._person.manner != "terse":
            yield self._pick(lines.greetings, now, "greeting")
        if now.cooled:
            yield self._pick(lines.cool, now, "cool")
        if items:
            yield from self._answers(items, now)
        elif heard.general:
            yield from self._general(now)
        else:
            yield self._pick((*self._person.asides, *lines.small_talk), now, "small talk")
        if not now.cooled:
            yield from self._unasked(items, now)

    def _topics(self, now: Moment) -> tuple[int, ...]:
        heard = now.heard
        if heard.items:
            return tuple(item for item in heard.items if item not in SENSITIVE)
        mentioned = tuple(item for item in heard.mentioned if item not in SENSITIVE)
        if heard.aspect or (heard.more and not heard.general):
            known = tuple(item for item in mentioned if item in now.told or item in now.asked)
            return known or now.last or mentioned
        return () if heard.general else mentioned

    def _answers(self, items: Sequence[int], now: Moment) -> Iterator[str]:
        most = 1 if now.cooled else self._habits.answers
        lead_ins = self._fresh(self._lines.lead_ins.of(self._person.manner), now)
        if not now.cooled and self._chance(now.number, "lead in") < self._thresholds.lead_in:
            yield from lead_ins[:1]
        for place, item in enumerate(items[:most]):
            yield from self._answer(item, now, leading=place == 0)

    def _answer(self, item: int, now: Moment, *, leading: bool) -> Iterator[str]:
        """Yield what is said of an item; the remarks around it only of the `leading` one."""
        lines, level = self._lines, self._disclosed(item, now)
        told, aspect = now.told.get(item), now.heard.aspect
        if told == level and self._nothing_to_add(item, level, now):
            if leading:
                brief = lines.repeats if level else lines.nothing_there
                yield self._pick(brief, now, "brief")
            return
        if told is None and item not in now.asked and self.levels[item - 1]:
            sidestep = self._sidestep(item, now)
            if sidestep:
                yield sidestep
                return
        if leading and told is not None and level > told:
            yield self._pick(lines.opened, now, "opened")
        if leading and aspect and level:
            yield self._pick(lines.spelled_out.of(aspect)[level], now, "spelled out")
        yield self._line(item, level, now)

    def _nothing_to_add(self, item: int, level: int, now: Moment) -> bool:
        if now.heard.follows_up and level == 0:
            return True
        if item not in now.asked or now.heard.aspect:
            return False
        return now.repeated or not self._fresh(self._wordings(item, level, now), now)

    def _disclosed(self, item: int, now: Moment) -> int:
        """Return the level that a person admits to here: the own one, or one less."""
        level, heard = self.levels[item - 1], now.heard
        again = item in now.asked or item in now.told
        if self._person.manner == "deflecting":
            held_back = not (again and heard.gentle)
        else:
            bare = not again and not heard.gentle
            held_back = bare and (
                self._chance(now.number, "closed", item) < self._thresholds.closed_understates
            )
        less = 1 if level and (held_back or now.cooled) else 0
        return max(level - less, now.told.get(item, 0))

    def _sidestep(self, item: int, now: Moment) -> str | None:
        """Return what is said in place of an answer at first asking, if anything."""
        manner, lines = self._person.manner, self._lines
        if manner == "somatising" and item not in BODILY:
            return self._pick(lines.bodily, now, "bodily", item)
        deflects = self._chance(now.number, "deflects", item) < self._thresholds.deflects
        if manner == "deflecting" and deflects:
            return self._pick(lines.deflections, now, "deflection", item)
        return None

    def _general(self, now: Moment) -> Iterator[str]:
        general = self._lines.general
        tones = {"minimal": general.well, "mild": general.mixed, "moderate": general.mixed}
        deflecting = self._person.manner == "deflecting"
        tone = general.well if deflecting else tones.get(band(sum(self.levels)), general.low)
        yield self._pick(tone, now, "general")
        if not now.cooled:
            for item, level in self._untold(now)[: self._habits.leaks]:
                yield self._line(item, level, now)

    def _untold(self, now: Moment, besides: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Return items not yet spoken of and the levels let slip, the strongest first."""
        manner = self._person.manner
        less = 1 if manner == "deflecting" else 0
        found = [
            (item, level - less)
            for item, level in enumerate(self.levels, 1)
            if level > less
            and item not in SENSITIVE
            and item not in now.told
            and item not in besides
        ]
        found.sort(
            key=lambda pair: (
                manner == "somatising" and pair[0] not in BODILY,
                -pair[1],
                self._chance("rank", pair[0]),
            )
        )
        return found

    def _unasked(self, items: Sequence[int], now: Moment) -> Iterator[str]:
        """Yield what comes on top: another symptom, something private, something else entirely."""
        heard, habits, number = now.heard, self._habits, now.number
        invited = self._person.manner == "talkative" or (heard.open and heard.warm)
        if items and invited and self._chance(number, "extra") < habits.extra:
            for item, level in self._untold(now, items)[:1]:
                yield self._line(item, level, now)
        if (
            self._trusts(now)
            and heard.gentle
            and self._chance(number, "private") < habits.volunteers
        ):
            for item in self._person.volunteers:
                if item not in now.told:
                    yield self._line(item, self.levels[item - 1], now)
                    break
        if (items or heard.general) and self._chance(number, "aside") < habits.aside:
            asides = (*self._person.asides, *self._lines.tangents)
            yield from self._fresh(asides, now, "aside")[:1]

    def _trusts(self, now: Moment) -> bool:
        return now.number > self._thresholds.trust_after and not now.offended

    def _wordings(self, item: int, level: int, now: Moment) -> Sequence[str]:
        wordings = self._lines.items[item].wordings(
            level,
            younger=self._person.age < self._lines.younger_below,
            increasing=item in self._person.increasing,
        )
        if now.cooled or self._person.manner == "terse":
            return sorted(wordings, key=len)[: max(2, len(wordings) // 2)]
        return wordings

    def _line(self, item: int, level: int, now: Moment) -> str:
        return self._pick(self._wordings(item, level, now), now, "line", item)

    def _pick(self, wordings: Sequence[str], now: Moment, *what: object) -> str:
        """Return one of the wordings, one not yet spoken where there is any."""
        return (self._fresh(wordings, now, *what) or self._shuffled(wordings, now, *what))[0]

    def _fresh(self, wordings: Sequence[str], now: Moment, *what: object) -> list[str]:
        return [one for one in self._shuffled(wordings, now, *what) if one not in now.spoken]

    def _shuffled(self, wordings: Sequence[str], now: Moment, *what: object) -> list[str]:
        start = int(self._chance(now.number, *what) * len(wordings))
        return [*wordings[start:], *wordings[:start]]
