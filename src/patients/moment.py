"""Where a conversation stands when a person answers: read from the turns, kept nowhere."""

from dataclasses import dataclass

from src.clinical.bdi import SENSITIVE
from src.interview.roles import Turns
from src.patients.lines import Lines
from src.patients.listening import Heard

COOLING = frozenset({9, 21})
"""Items that offend when asked about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Where the conversation stands when a person answers."""

    number: int
    heard: Heard
    repeated: bool
    """The question was asked before, word for word, or closed on what was asked before."""
    asked: frozenset[int]
    told: dict[int, int]
    """Level last said of an item; nobody takes a level back."""
    last: tuple[int, ...]
    """What a follow-up is about: the last answer, after a question that was sidestepped."""
    spoken: str
    cooled: bool
    offended: bool
    """Something cold was asked before, at any time."""


def moment(lines: Lines, turns: Turns, text: str) -> Moment:
    """Return where a conversation stands when a message arrives, from the turns alone."""
    ear = lines.ear
    this = ear.hear(text)
    heard = [ear.hear(turn.question.text) for turn in turns]
    told: dict[int, int] = {}
    said: list[tuple[int, int]] = []
    for turn in turns:
        said = list(lines.said(turn.answer.text))
        told.update(said)
    cold = [is_cold(one) for one in heard]
    last = [item for item, _ in sorted(said, key=lambda pair: pair[1] == 0)]
    if heard and not set(last) & set(heard[-1].items):
        last = [*heard[-1].items, *last]
    return Moment(
        number=len(turns) + 1,
        heard=this,
        repeated=not this.gentle or any(turn.question.text == text for turn in turns),
        asked=frozenset(item for one in heard for item in one.items),
        told=told,
        last=tuple(item for item in last if item not in SENSITIVE),
        spoken="\n".join(turn.answer.text for turn in turns),
        cooled=bool(cold) and cold[-1],
        offended=any(cold),
    )


def is_cold(heard: Heard) -> bool:
    """Return whether a message is of the kind that is refused."""
    return heard.direct or not COOLING.isdisjoint(heard.items)
