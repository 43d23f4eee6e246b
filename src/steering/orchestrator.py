"""The coverage orchestrator: ranks what is least known, words the guidance, decides the end.

Section 3.2 and Appendix E of the DS@GT paper, read as the README's Decisions table says. Pure: the
same turns give the same guidance. "turn" in every rule means finished turns.
"""

import math
from collections.abc import Callable, Sequence
from operator import ge, gt

from src.clinical import bdi
from src.errors import InputError
from src.prompts import fill, load_prompt_lines
from src.records import ITEMS, Assessment, Guidance, StopReason, SymptomScore, Turn
from src.settings import CoverageSettings

UNKNOWN = Assessment(symptoms=(SymptomScore(score=0, confidence=0.0),) * ITEMS)
"""Before anything was scored: 21 items not assessed."""
ALL = tuple(range(1, ITEMS + 1))
PLACEHOLDERS = {
    "opening": {"focus"},
    "focus": set[str](),
    "unassessed": {"name"},
    "assessed": {"name", "confidence", "score"},
    "well_assessed": {"names"},
    "coverage": {"assessed", "base", "needed"},
    "low_budget": {"left"},
    "stable": set[str](),
    "signals": {"names"},
    "wrap_up": {"reason"},
    **{f"reasons.{reason}": set[str]() for reason in StopReason},
}


class CoverageOrchestrator:
    """Guides by coverage and confidence, and stops by rules (a) to (d)."""

    def __init__(
        self, settings: CoverageSettings, signals: Callable[[str], Sequence[int]] | None = None
    ) -> None:
        """Take the thresholds, and what finds cues in a reply (none: they are not named)."""
        for item in bdi.SENSITIVE.intersection(settings.first_focus):
            raise InputError(f"orchestrator.first_focus: item {item} is never asked about")
        self._rules = settings
        self._signals = signals
        self._texts = load_prompt_lines(settings.texts.path, PLACEHOLDERS)
        self._base = bdi.ASSESSABLE if settings.coverage_base == "assessable" else ALL
        exact = settings.coverage_share * len(self._base)
        # rounded first, since 0.7 * 20 is a hair above 14 in binary
        self._needed = (math.ceil if settings.coverage_rounding == "ceil" else int)(round(exact, 9))

    def guide(self, turns: Sequence[Turn]) -> Guidance:
        """Return the guidance before question n, n - 1 turns being finished."""
        known = _known(turns)
        if stop := self.stop(turns):
            reason = fill(self._texts[f"reasons.{stop}"], {})
            text = fill(self._texts["wrap_up"], {"reason": reason})
            return Guidance(text=text, stop=stop, closing=self._rules.closing)
        if not turns:
            focus = tuple(self._rules.first_focus)
            names = " and ".join(bdi.name(item) for item in focus)
            return Guidance(text=fill(self._texts["opening"], {"focus": names}), focus=focus)
        focus = self.focus(known)
        return Guidance(text=self._text(turns, known, focus), focus=focus)

    def stop(self, turns: Sequence[Turn]) -> StopReason | None:
        """Return why the interview ends now, the hard limit first, or None (decisions 3 to 6)."""
        known = _known(turns)
        rules = self._rules
        if rules.max_messages - len(turns) - rules.closing <= 0:
            return StopReason.MAX_MESSAGES
        covered = self._covered(known) >= self._needed
        if rules.coverage == "guard" and not covered:
            return None
        if self._all_confident(known) and len(turns) > rules.confident_turn:
            return StopReason.CONFIDENT
        if self._stable(turns):
            return StopReason.STABLE
        if rules.coverage == "stop" and covered:
            return StopReason.COVERED
        return None

    def focus(self, known: Assessment) -> tuple[int, ...]:
        """Return up to four items to ask about: the least known clusters first (decision 8)."""
        ranked = sorted(enumerate(bdi.CLUSTERS), key=lambda c: (*self._rank(known, c[1][1]), c[0]))
        chosen = [
            item
            for _, (_, items) in ranked
            for item in sorted(items, key=lambda n: (known[n].assessed, -self._priority(known, n)))
            if not self._confident(known[item])
        ]
        if not chosen:  # nothing left to focus on, and no stop: the least confident (decision 5)
            chosen = sorted(bdi.ASSESSABLE, key=lambda n: (known[n].confidence, n))
        return tuple(chosen[: self._rules.focus_size])

    def _rank(self, known: Assessment, items: Sequence[int]) -> tuple[float, float]:
        unassessed = sum(not known[item].assessed for item in items) / len(items)
        mean = sum(self._priority(known, item) for item in items) / len(items)
        return -unassessed, -round(mean, 9)

    def _priority(self, known: Assessment, item: int) -> float:
        severity = self._rules.severity_weight * known[item].score / 3
        return round((1 - known[item].confidence) + severity, 9)

    def _confident(self, symptom: SymptomScore) -> bool:
        return symptom.confidence > self._rules.confidence_threshold

    def _all_confident(self, known: Assessment) -> bool:
        base = ALL if self._rules.confident_base == "all" else bdi.ASSESSABLE
        return all(self._confident(known[item]) for item in base)

    def _stable(self, turns: Sequence[Turn]) -> bool:
        totals = [turn.assessment.total for turn in turns if turn.assessment]
        last = totals[-self._rules.stable_span :]
        if len(turns) <= self._rules.stable_turn or len(last) < self._rules.stable_span:
            return False
        return max(last) - min(last) < self._rules.stable_below

    def _covered(self, known: Assessment) -> int:
        return sum(known[item].assessed for item in self._base)

    def _text(self, turns: Sequence[Turn], known: Assessment, focus: Sequence[int]) -> str:
        """Word the elements of Appendix E that hold now; sensitive items are never named."""
        rules, texts = self._rules, self._texts
        lines = [fill(texts["focus"], {})]
        for item in focus:
            symptom, name = known[item], bdi.name(item)
            values = {"confidence": f"{symptom.confidence:.1f}", "score": symptom.score}
            key = "assessed" if symptom.assessed else "unassessed"
            lines.append(fill(texts[key], {"name": name, **values}))
        if well := self._well_assessed(known, focus):
            lines.append(fill(texts["well_assessed"], {"names": _names(well)}))
        if (covered := self._covered(known)) < self._needed:
            values = {"assessed": covered, "base": len(self._base), "needed": self._needed}
            lines.append(fill(texts["coverage"], values))
        if (left := rules.max_messages - len(turns)) <= rules.low_budget:
            lines.append(fill(texts["low_budget"], {"left": left}))
        if self._stable(turns):
            lines.append(fill(texts["stable"], {}))
        found = self._signals(turns[-1].answer.text) if self._signals else ()
        if cues := [item for item in found if item not in bdi.SENSITIVE]:
            lines.append(fill(texts["signals"], {"names": _names(cues)}))
        return "\n".join(lines)

    def _well_assessed(self, known: Assessment, focus: Sequence[int]) -> list[int]:
        reaches = ge if self._rules.revisit == "at_least" else gt
        rest = [item for item in bdi.ASSESSABLE if known[item].assessed and item not in focus]
        rest.sort(key=lambda item: (-known[item].confidence, item))
        floor = self._rules.confidence_threshold
        well = [item for item in rest if reaches(known[item].confidence, floor)]
        return well[: self._rules.well_assessed_max]


def _known(turns: Sequence[Turn]) -> Assessment:
    return next((turn.assessment for turn in reversed(turns) if turn.assessment), UNKNOWN)


def _names(items: Sequence[int]) -> str:
    return ", ".join(bdi.name(item) for item in items)
