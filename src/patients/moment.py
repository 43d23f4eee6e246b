"""Where a conversation stands when a person answers: read from the turns, kept nowhere."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from src.clinical.bdi import SENSITIVE
from src.interview.roles import Turns
from src.patients.lines import Lines


class Moment:
    """What was asked and told before a message, what it is about, and which words are left."""

    def __init__(self, lines: Lines, turns: Turns, text: str, chance: Callable[..., float]) -> None:
        self._chance = chance
        self._spoken = "\n".join(turn.answer.text for turn in turns)
        before = [lines.hear(turn.question.text) for turn in turns]
        said = [lines.said(turn.answer.text) for turn in turns]
        self.number = len(turns) + 1
        self.heard = lines.hear(text)
        self.asked = {item for one in before for item in one.items}
        self.told = dict(chain.from_iterable(said))
        """Level last said of an item; nobody takes a level back."""
        self.known = self.asked | self.told.keys()
        self.cooled = bool(before) and before[-1].cold
        self.offended = any(one.cold for one in before)
        self.repeated = not self.heard.gentle or any(t.question.text == text for t in turns)
        """Whether it was asked before, word for word, or closed on what was asked before."""
        last: list[int] = []
        if turns:
            last = [item for item, _ in sorted(said[-1], key=lambda pair: pair[1] == 0)]
            if set(last).isdisjoint(before[-1].items):
                last = [*before[-1].items, *last]  # a question that was sidestepped
        self.topics = self._topics(last)
        """Items that the message is about and that are spoken of when asked."""

    def _topics(self, last: Iterable[int]) -> Sequence[int]:
        heard = self.heard
        asked, mentioned, before = (
            [item for item in items if item not in SENSITIVE]
            for items in (heard.items, heard.mentioned, last)
        )
        if heard.aspect or (heard.more and not heard.general):
            mentioned = [item for item in mentioned if item in self.known] or before or mentioned
        elif heard.general:
            mentioned = []
        return asked if heard.items else mentioned

    def happens(self, share: float, *what: object) -> bool:
        """Draw whether something that happens to a share of the turns happens at this one."""
        return self._chance(self.number, *what) < share

    def fresh(self, wordings: Sequence[str]) -> list[str]:
        """Return the wordings not yet spoken, in an order of this turn."""
        start = int(self._chance(self.number, wordings[0]) * len(wordings))
        return [one for one in (*wordings[start:], *wordings[:start]) if one not in self._spoken]

    def pick(self, wordings: Sequence[str]) -> str:
        """Return one of the wordings, one not yet spoken where there is any."""
        return (self.fresh(wordings) or wordings)[0]
