"""The guided interviewer: the tree's line where there is one, else a model led by the guidance."""

from functools import partial

from src.interview.roles import Turns
from src.interview.views import interviewer_view, interviewer_view_guidance_first
from src.interviewers.drafts import Draft, with_objection, write_guarded
from src.interviewers.guard import Breach, Guard
from src.interviewers.tree import DialogueTree
from src.llm.caller import Asking, Request
from src.records import Guidance, Question
from src.settings import GuidedSettings

VIEWS = {"last": interviewer_view, "first": interviewer_view_guidance_first}


class GuidedInterviewer:
    """Sections 3.2 and 3.3: asks what the orchestrator wants to know next, in its own words."""

    def __init__(
        self,
        asking: Asking,
        *,
        settings: GuidedSettings,
        system: str,
        kickoff: str,
        tree: DialogueTree | None,
        guard: Guard | None,
    ) -> None:
        """Take the prompts; without a tree the model asks everything, the first question too."""
        self._asking, self._settings, self._tree, self._guard = asking, settings, tree, guard
        self._view = partial(VIEWS[settings.guidance], system, kickoff)

    async def ask(self, turns: Turns, guidance: Guidance) -> Question:
        """Return the next question, or the goodbye where guidance says stop."""
        if self._tree and (line := self._tree.next_line(turns, guidance)):
            return line

        async def write(objection: str) -> Draft:
            messages = with_objection(self._view(turns, guidance.text), objection)
            request = Request(messages=messages, settings=self._settings.call, turn=len(turns) + 1)
            reply = await self._asking.ask(request)
            cut: tuple[Breach, ...] = ("too_long",) if reply.truncated else ()
            return Draft(text=reply.text, calls=reply.calls, breaches=cut)

        return await write_guarded(write, self._guard, turns=turns, guidance=guidance)
