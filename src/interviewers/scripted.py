"""The interviewer without a model: the tree on demand, fixed lines where the tree has none."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from src.interview.roles import Turns
from src.interviewers.tree import DialogueTree, Statement, Targets, Text, refuse_repeated
from src.prompts import load_yaml
from src.records import Guidance, Question, Record

SOURCE = "fixed"


class Line(Record):
    """A question of everyday talk and the items that it is after."""

    items: Targets
    text: Text


class Lines(Record):
    """All that the scripted interviewer says besides the tree."""

    lines: Annotated[tuple[Line, ...], Field(min_length=1)]
    continuers: Annotated[tuple[Text, ...], Field(min_length=2)]
    """Asked when every line is used up; these come again, the one asked longest ago first."""
    closing: Statement

    @model_validator(mode="after")
    def _every_line_is_its_own(self) -> "Lines":
        lines = ((line.text, ("lines", n, "text")) for n, line in enumerate(self.lines))
        refuse_repeated([*lines, *((t, ("continuers", n)) for n, t in enumerate(self.continuers))])
        return self


class ScriptedInterviewer:
    """Ask the tree's line, else the fixed line nearest to the focus. Without chance."""

    def __init__(self, *, tree: DialogueTree, lines: str | Path) -> None:
        self._tree = tree
        self._file = load_yaml(lines, Lines)

    @property
    def texts(self) -> dict[str, str]:
        """Every question by its place in the file."""
        return {f"lines[{n}]": line.text for n, line in enumerate(self._file.lines)} | {
            f"continuers[{n}]": text for n, text in enumerate(self._file.continuers)
        }

    async def ask(self, turns: Turns, guidance: Guidance) -> Question:
        """Return the next question, or the closing where guidance says stop."""
        if guidance.stop is not None:
            return Question(text=self._file.closing, source=SOURCE)
        return self._tree.next_line(turns, guidance) or self._fixed(turns, guidance.focus)

    def _fixed(self, turns: Turns, focus: Sequence[int]) -> Question:
        """Prefer a line on the first item in the focus, then on what was asked about least."""
        said = Counter(turn.question.text for turn in turns)
        asked = Counter(item for turn in turns for item in turn.question.focus)
        unused = [line for line in self._file.lines if not said[line.text]]
        if not unused:
            return Question(text=min(self._file.continuers, key=said.__getitem__), source=SOURCE)

        def distance(line: Line) -> tuple[int, int]:
            places = [focus.index(item) for item in line.items if item in focus]
            return min(places, default=len(focus)), sum(asked[item] for item in line.items)

        line = min(unused, key=distance)
        return Question(text=line.text, source=SOURCE, focus=line.items)
