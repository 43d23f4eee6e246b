"""The interviewer that may use tools: PsyCIRA with all of them, the direct baseline with one.

PsyCIDRA, sections 4.1 and 5: a fixed greeting, a model's replies, and a fixed end; either safety
check ends it at once. What the model did in earlier turns is rebuilt from their records, so that
nothing is hidden state and each prompt begins with all of the last one.
"""

from src.clinical.phrases import Lexicon
from src.clinical.safety import SafetyCheck
from src.clinical.text import polarity, sentences, spaced
from src.errors import InterviewerFailed, ModelFailed
from src.interview.roles import Turns
from src.interviewers.assessment_guard import AssessmentGuard, AssessmentTexts
from src.interviewers.skills import Skills
from src.interviewers.toolbox import Session, Toolbox
from src.llm.caller import Asking, Request
from src.llm.client import Message
from src.llm.tools import Execute, Said, converse, exchanged, spoken
from src.prompts import fill, load_prompt
from src.records import Guidance, Question, SafetyEvent, StopReason, visible
from src.settings import AgentSettings

CAPPED = "rounds_used_up"
"""Flag of a question that the model had to write since it used no more tools."""
CUT_OFF = "cut_off"
"""Flag of a question that ended at the token limit, where no guard has it written anew."""
CRISIS = "unanswered_crisis"
"""The guard's concern behind which a model may stop the interview instead of writing anew."""
FIXED = 2
"""Messages of an interview that no model writes: greeting and goodbye."""


def instructions(
    settings: AgentSettings, *, language: str, max_messages: int, skills: Skills
) -> str:
    """Return the system prompt; the skills' index stands in it where they can be loaded."""
    values = {"language": language, "messages": f"{max_messages - FIXED}"}
    if "skills" in settings.tools:
        values["skills"] = skills.index
    return fill(load_prompt(settings.prompt.path, frozenset(values)), values)


class AgentInterviewer:
    """Interviews freely within its instructions, with the tools that the settings name."""

    def __init__(
        self,
        asking: Asking,
        *,
        settings: AgentSettings,
        native: bool,
        system: str,
        kickoff: str,
        texts: AssessmentTexts,
        toolbox: Toolbox,
        safety_check: SafetyCheck | None,
        guard: AssessmentGuard | None,
    ) -> None:
        """Take the filled prompts; `native`: whether the model's API has tool calls."""
        self._asking, self._settings = asking, settings
        self._native = native or not toolbox.tools
        self._opening: tuple[Message, ...] = (
            {"role": "system", "content": system},
            {"role": "user", "content": kickoff},
        )
        self._texts, self._toolbox = texts, toolbox
        self._wishes = Lexicon({})
        self._wishes.add(texts.wishes, "wish")
        self._safety_check, self._guard = safety_check, guard

    async def ask(self, turns: Turns, guidance: Guidance) -> Question:
        """Return the next message; raise `InterviewerFailed` where the model gives none."""
        if fixed := self._fixed(turns, guidance):
            notes = turns[-1].question.notes if turns else None
            return fixed.model_copy(update={"notes": notes})
        session = self._toolbox.opened(turns[-1].question.notes)
        rounds = self._settings.rounds
        said = await self._said(self._history(turns), session.run, turns, rounds=rounds)
        kept = {"tools": said.uses, "calls": said.calls, "notes": session.notes}
        if session.event:
            return self._stopped(session.event).model_copy(update=kept)
        flags = (CAPPED,) if said.capped else ()
        question = Question(text=said.text.strip(), source="model", flags=flags)
        return await self._guarded(question.model_copy(update=kept), said, session, turns)

    def _fixed(self, turns: Turns, guidance: Guidance) -> Question | None:
        """Return what no model writes: danger comes first, then the person's wish, then the end."""
        if not turns:
            return Question(text=self._texts.greeting, source="fixed")
        messages = [message.text for message in visible(list(turns))]
        check = self._safety_check
        danger = check.danger(messages[-1], previous=messages[:-1]) if check else None
        if danger and danger.urgent:
            event = SafetyEvent(source="check", kind=danger.kind, reason=danger.sentence)
            return self._stopped(event)
        if self._wants_to_end(messages[-1]):
            stop = StopReason.PARTICIPANT
            return Question(text=self._texts.participant_stop, source="fixed", stop=stop)
        if guidance.stop:
            return Question(text=self._texts.closing, source="fixed")
        return None

    def _wants_to_end(self, reply: str) -> bool:
        """Say whether a person asks to stop here, and does not deny it."""
        return any(
            cue.own_negation or polarity(match.string[: match.start()]) > 0
            for sentence in sentences(reply)
            for cue, match in self._wishes.find(spaced(sentence), "wish")
        )

    def _stopped(self, event: SafetyEvent) -> Question:
        text = self._texts.safety
        return Question(text=text, source="fixed", stop=StopReason.SAFETY, event=event)

    def _history(self, turns: Turns) -> tuple[Message, ...]:
        """Return the model's view of all turns, with its own tool calls before each message."""
        messages = list(self._opening)
        for turn in turns:
            asked = turn.question
            messages += exchanged(asked.tools, turn=turn.number, native=self._native)
            messages.append(spoken(asked.text, native=self._native))
            messages.append({"role": "user", "content": turn.answer.text})
        return tuple(messages)

    async def _said(
        self,
        messages: tuple[Message, ...],
        execute: Execute,
        turns: Turns,
        *,
        rounds: int,
        used: int = 0,
    ) -> Said:
        try:
            return await converse(
                self._asking,
                Request(messages=messages, settings=self._settings.call, turn=len(turns) + 1),
                self._toolbox.tools,
                rounds=rounds,
                execute=execute,
                native=self._native,
                used=used,
            )
        except ModelFailed as error:
            text = f"{error.kind}: {error}"
            raise InterviewerFailed(text, transport=error.transport) from error

    async def _guarded(
        self, question: Question, said: Said, session: Session, turns: Turns
    ) -> Question:
        """Return the question as the guard lets it pass: written anew once, else a safe line."""
        guard = self._guard
        if guard is None:
            cut = (CUT_OFF,) if said.truncated else ()
            return question.model_copy(update={"flags": question.flags + cut})
        question, found = _checked(guard, question, said, turns)
        if not found:
            return question
        may_stop = CRISIS in found and bool(self._toolbox.ending)
        objection = guard.objection(said.text, found)
        if again := await self._again(objection, said, session, turns, rounds=int(may_stop)):
            kept = {"calls": question.calls + again.calls, "tools": question.tools + again.uses}
            question = question.model_copy(update=kept)
            if session.event:
                flags = {"flags": question.flags, "notes": question.notes}
                return self._stopped(session.event).model_copy(update=kept | flags)
            question, found = _checked(guard, question, again, turns)
            if not found:
                return question
        line = guard.safe_line(turns, closing=False)
        return question.model_copy(update={"text": line, "source": "guard"})

    async def _again(
        self, objection: str, said: Said, session: Session, turns: Turns, *, rounds: int
    ) -> Said | None:
        """Return what the model writes instead, or its stop; None where it has nothing better."""
        draft = spoken(said.text, native=self._native)
        messages = (*said.messages, draft, {"role": "user", "content": objection})
        used = len(said.uses)
        try:
            return await self._said(messages, session.end, turns, rounds=rounds, used=used)
        except InterviewerFailed as error:
            if error.transport:
                raise
            return None


def _checked(
    guard: AssessmentGuard, question: Question, said: Said, turns: Turns
) -> tuple[Question, tuple[str, ...]]:
    """Return the question with this text and the guard's findings among its flags, and those."""
    text = guard.clean(said.text)
    cut = ("too_long",) if said.truncated else ()
    found = tuple(dict.fromkeys(cut + guard.check(text, turns=turns, closing=False)))
    flags = tuple(dict.fromkeys(question.flags + found))
    return question.model_copy(update={"text": text, "flags": flags}), found
