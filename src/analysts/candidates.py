"""Candidates for a diagnosis, by the signs of a transcript: support, confidence, and what is named.

Support counts the signs of one disorder; confidence asks whether what every diagnosis needs is
settled. Neither is made from the other (D5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from src.analysts.cues import DiagnosisCues, Disorder
from src.analysts.signs import Seen
from src.reports import HYPOTHESES_MAX, Level

Signs = Mapping[str, Seen]


@dataclass(frozen=True, kw_only=True)
class Match:
    """One disorder beside the signs that came up."""

    code: str
    needed: int
    supporting: tuple[str, ...]
    contradictory: tuple[str, ...]
    open: tuple[str, ...]
    """Core signs that were left open or never came up."""
    points: int
    met: bool

    @property
    def support(self) -> Level:
        """Return how much of what is counted is there, less what speaks against it."""
        spare = len(self.supporting) - len(self.contradictory) - self.needed
        return "high" if spare > 0 else "low" if spare < 0 else "moderate"


def matches_of(signs: Signs, cues: DiagnosisCues) -> list[Match]:
    """Return the candidates: those that have enough first, then by points."""
    present = {name for name, seen in signs.items() if seen.state == "present"}
    found = [
        _match(code, disorder, signs, cues)
        for code, disorder in cues.disorders.items()
        if present & set(disorder.core) and present >= set(disorder.requires)
    ]
    found.sort(key=lambda match: (not match.met, -match.points, match.code))
    return found[: cues.limits.differential_max]


def _match(code: str, disorder: Disorder, signs: Signs, cues: DiagnosisCues) -> Match:
    def those(names: Sequence[str], state: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in signs and signs[name].state == state)

    core, also = those(disorder.core, "present"), those(disorder.also, "present")
    contradictory = (*those(disorder.core, "denied"), *those(disorder.against, "present"))
    points = cues.limits.core_points * len(core) + len(also)
    points -= cues.limits.against_points * len(contradictory)
    enough = len(core) >= disorder.core_needed and len(core + also) >= disorder.needed
    return Match(
        code=code,
        needed=disorder.needed,
        supporting=core + also,
        contradictory=contradictory,
        open=tuple(n for n in disorder.core if n not in signs or signs[n].state == "unclear"),
        points=points,
        met=enough and points > 0,
    )


def justified(
    matches: Sequence[Match], signs: Signs, cues: DiagnosisCues
) -> list[tuple[Match, Level]]:
    """Return the candidates that may be named, the best first, each with its confidence."""
    met = [match for match in matches if match.met]
    near = [match for match in met if match.points >= met[0].points - cues.limits.margin]
    return [(m, _confidence(m, signs, cues, rivals=len(near) - 1)) for m in near[:HYPOTHESES_MAX]]


def _confidence(match: Match, signs: Signs, cues: DiagnosisCues, *, rivals: int) -> Level:
    others = [signs[name].state for name in cues.alternatives if name in signs]
    settled = [
        dated(match, signs),
        any(name in signs and signs[name].state == "present" for name in cues.impairment),
        bool(others) and "present" not in others,
        not match.open,
        not rivals,
    ]
    if sum(settled) >= cues.limits.settled_high:
        return "high"
    return "moderate" if sum(settled) >= cues.limits.settled_moderate else "low"


def dated(match: Match, signs: Signs) -> bool:
    """Whether the person said since when, or how often, of any of its signs."""
    return any(signs[name].timeframe for name in match.supporting)


def intact(signs: Signs, cues: DiagnosisCues) -> bool:
    """Whether the person says that daily life has not suffered."""
    return {signs[name].state for name in cues.impairment if name in signs} == {"denied"}
