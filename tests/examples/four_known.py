from src.interview.roles import Orchestrator, Turns
from src.records import Guidance, StopReason

NAMED = 4
"""Key symptoms that a submission names."""


class FourKnown:
    """End an interview once the key symptoms are certain; else do what the inner one does."""

    def __init__(self, inner: Orchestrator, *, confidence: float) -> None:
        self._inner, self._confidence = inner, confidence

    def guide(self, turns: Turns) -> Guidance:
        guidance = self._inner.guide(turns)
        known = next((turn.assessment for turn in reversed(turns) if turn.assessment), None)
        if guidance.stop or known is None:
            return guidance
        sure = [n for n in known.key_symptoms if known[n].confidence >= self._confidence]
        return guidance if len(sure) < NAMED else Guidance(text="", stop=StopReason.CONFIDENT)
