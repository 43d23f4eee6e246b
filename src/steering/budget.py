"""The budget orchestrator: no guidance, and an end when the messages are used up."""

from collections.abc import Sequence

from src.prompts import fill, load_prompt_lines
from src.records import Guidance, StopReason, Turn
from src.settings import BudgetSettings
from src.steering.orchestrator import PLACEHOLDERS


class BudgetOrchestrator:
    """Leaves the interviewer alone until the last message. Pure."""

    def __init__(self, settings: BudgetSettings) -> None:
        """Take the number of messages, and whether the last of them is a closing."""
        self._settings = settings
        texts = load_prompt_lines(settings.texts.path, PLACEHOLDERS)
        reason = fill(texts[f"reasons.{StopReason.MAX_MESSAGES}"], {})
        self._wrap_up = fill(texts["wrap_up"], {"reason": reason})

    def guide(self, turns: Sequence[Turn]) -> Guidance:
        """Return an empty guidance, or the wrap-up once no question is left."""
        if self._settings.max_messages - len(turns) - self._settings.closing > 0:
            return Guidance(text="")
        return Guidance(
            text=self._wrap_up, stop=StopReason.MAX_MESSAGES, closing=self._settings.closing
        )
