"""The tools of an interviewer: what each does with its arguments, within one turn."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field, RootModel

from src.clinical.icd11 import Reference
from src.errors import InputError
from src.interviewers.notepad import Notepad
from src.interviewers.skills import Skills
from src.llm.tools import Ran, Tool
from src.prompts import load_yaml
from src.records import SafetyEvent
from src.settings import AgentSettings

TOOLS = "prompts/toolbox.yaml"
"""Names, descriptions and arguments, as the model reads them."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "notepad": ("read_interview_notepad", "update_interview_notepad"),
    "skills": ("load_skill",),
    "icd": ("lookup_icd_category", "lookup_icd_disorder"),
    "safety": ("safety_stop",),
}
REASON_MAX = 500
"""Characters of a reason that an event keeps."""

Arguments = Mapping[str, Any]


class Sheet(RootModel[tuple[Tool, ...]]):
    root: tuple[Tool, ...] = Field(min_length=1)


def load_tools() -> dict[str, Tool]:
    """Return every tool by its name; a malformed file is an `InputError`."""
    return {tool.name: tool for tool in load_yaml(TOOLS, Sheet).root}


class Toolbox:
    """What all interviews share: the tools that the settings name, and what they look up."""

    def __init__(self, settings: AgentSettings, *, skills: Skills, reference: Reference) -> None:
        """Read the tools' texts."""
        known = load_tools()
        names = [name for group in GROUPS if group in settings.tools for name in GROUPS[group]]
        if missing := [name for name in names if name not in known]:
            raise InputError(f"{TOOLS}: the tool {missing[0]} is missing")
        self.tools = tuple(known[name] for name in names)
        self.ending = tuple(tool.name for tool in self.tools if tool.ends)
        self.skills, self.reference, self.plan_max = skills, reference, settings.plan_max
        self.keeps_notes = "notepad" in settings.tools

    def opened(self, notes: str | None) -> "Session":
        """Return the tools for one turn, with the notepad as the last turn left it."""
        return Session(self, Notepad.read(notes))


class Session:
    """One turn's work: grows from call to call and is written into the turn's question."""

    def __init__(self, box: Toolbox, notepad: Notepad) -> None:
        self._box, self._notepad = box, notepad
        self.event: SafetyEvent | None = None
        """Set once the model has stopped the interview."""
        self._tools: Mapping[str, Callable[[Arguments], Ran]] = {
            "read_interview_notepad": self._read,
            "update_interview_notepad": self._update,
            "load_skill": self._load,
            "lookup_icd_category": self._category,
            "lookup_icd_disorder": self._disorder,
            "safety_stop": self._stop,
        }

    @property
    def notes(self) -> str | None:
        """Return the notepad for the record; None where there is none."""
        return str(self._notepad) if self._box.keeps_notes else None

    async def run(self, name: str, arguments: Arguments) -> Ran:
        """Run one tool; an `InputError` names what is wrong with its arguments."""
        return self._tools[name](arguments)

    async def end(self, name: str, arguments: Arguments) -> Ran:
        """Run a tool that ends the interview; an `InputError` for any other."""
        if name not in self._box.ending:
            raise InputError(
                f"only {', '.join(self._box.ending)} may be used now; else write the message"
            )
        return await self.run(name, arguments)

    def _read(self, _: Arguments) -> Ran:
        return Ran(output=str(self._notepad))

    def _update(self, arguments: Arguments) -> Ran:
        actions = arguments["actions"]
        if not actions:
            raise InputError("the batch is empty")
        update = self._notepad.updated(actions, plan_max=self._box.plan_max)
        self._notepad = update.notepad
        return Ran(output=str(update), ok=update.done > 0)

    def _load(self, arguments: Arguments) -> Ran:
        skills, key = self._box.skills, arguments["skill_id"]
        if key not in skills.ids:
            near = ", ".join(skills.nearest(key))
            raise InputError(f"no skill has this id; nearest: {near}")
        return Ran(output=skills.text(key))

    def _category(self, arguments: Arguments) -> Ran:
        return Ran(output=self._box.reference.category(arguments["category"]))

    def _disorder(self, arguments: Arguments) -> Ran:
        return Ran(output=self._box.reference.disorder(arguments["code"]))

    def _stop(self, arguments: Arguments) -> Ran:
        reason = arguments["reason"].strip()[:REASON_MAX]
        self.event = SafetyEvent(source="model", kind=arguments["kind"], reason=reason)
        return Ran(output="stopped; the event is open until a person has reviewed it", ends=True)
