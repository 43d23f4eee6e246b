"""The interviewer's private notepad: pure, written out as text that the next turn reads again.

PsyCIDRA, section 4.1 and Appendix B.2: five categories, ids that stay, one ordered batch of
actions that is answered with what it did and the whole notepad.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

CATEGORIES = ("evidence", "coverage", "unresolved", "hypotheses", "plan")
QUOTED = 60
"""Characters of a wrong value that an error line repeats."""
NEXT = "next id: "
_LINE = re.compile(r"(N\d{3,}) (.+)")


@dataclass(frozen=True)
class Note:
    id: str
    """N001, N002 …: one counter for all categories; an id is never used again."""
    category: str
    text: str
    """One line."""


@dataclass(frozen=True)
class Notepad:
    """All notes in the order of their ids, and how many ids were given out."""

    notes: tuple[Note, ...] = ()
    given: int = 0

    @classmethod
    def read(cls, text: str | None) -> "Notepad":
        """Return the notepad that was written out as this text; None is an empty one.

        Raises `ValueError` for a text that no notepad was written out as.
        """
        notes, category, given = [], "", 0
        for line in (text or "").splitlines():
            if line.removesuffix(":") in CATEGORIES:
                category = line.removesuffix(":")
            elif line.startswith(NEXT):
                given = int(line.removeprefix(NEXT + "N")) - 1
            elif found := _LINE.fullmatch(line):
                notes.append(Note(found[1], category, found[2]))
            elif line:
                raise ValueError(f"no line of a notepad: {line[:QUOTED]!r}")
        return cls(tuple(sorted(notes, key=_number)), given)

    def __str__(self) -> str:
        """Return it as its reader sees it, and as `read` takes it."""
        parts = []
        for category in CATEGORIES:
            lines = [f"{note.id} {note.text}" for note in self.notes if note.category == category]
            parts.append("\n".join([f"{category}:", *lines]))
        return "\n\n".join([*parts, f"{NEXT}{_id(self.given + 1)}"])

    def updated(self, actions: Sequence[object], *, plan_max: int) -> "Update":
        """Return the notepad after one batch, action by action; a wrong one changes nothing."""
        notepad, lines, done = self, [], 0
        for number, action in enumerate(actions, 1):
            try:
                notepad, line = notepad._after(action)
            except _Wrong as wrong:
                line = f"error: {wrong}"
            else:
                done += 1
            lines.append(f"{number}. {line}")
        lines += _warnings(notepad.notes, plan_max)
        return Update(notepad, tuple(lines), done)

    def _after(self, action: object) -> tuple["Notepad", str]:
        given = action if isinstance(action, Mapping) else {}
        match given.get("action"):
            case "add":
                return self._added(_category(given.get("category")), _text(given.get("text")))
            case "edit":
                note = self._note(given.get("id"))
                if (category := given.get("category")) not in (None, "", note.category):
                    raise _Wrong(
                        f"{note.id} stays in {note.category}; delete it and add one to "
                        f"{_category(category)}"
                    )
                new = replace(note, text=_text(given.get("text")))
                notes = tuple(new if one is note else one for one in self.notes)
                return replace(self, notes=notes), f"edited {note.id} ({note.category})"
            case "delete":
                note = self._note(given.get("id"))
                notes = tuple(one for one in self.notes if one is not note)
                return replace(self, notes=notes), f"deleted {note.id} ({note.category})"
            case other:
                raise _Wrong(f"{_short(other)} is no action: add, edit or delete")

    def _added(self, category: str, text: str) -> tuple["Notepad", str]:
        note = Note(_id(self.given + 1), category, text)
        return Notepad((*self.notes, note), self.given + 1), f"added {note.id} ({category})"

    def _note(self, key: object) -> Note:
        found = next((note for note in self.notes if note.id == key), None)
        if found is None:
            known = ", ".join(note.id for note in self.notes) or "none yet"
            raise _Wrong(f"no entry has the id {_short(key)}; there are: {known}")
        return found


@dataclass(frozen=True)
class Update:
    """What a batch came to."""

    notepad: Notepad
    lines: tuple[str, ...]
    """One for each action, then the warnings."""
    done: int
    """Actions that changed something."""

    def __str__(self) -> str:
        return "\n".join([*self.lines, "", str(self.notepad)])


class _Wrong(Exception):
    """An action that cannot be done; its text is for the model."""


def _warnings(notes: Sequence[Note], plan_max: int) -> Iterator[str]:
    plans = sum(note.category == "plan" for note in notes)
    if plans > plan_max:
        yield (
            f"warning: the plan has {plans} entries; keep the {plan_max} questions or fewer "
            "that would tell most"
        )


def _id(number: int) -> str:
    return f"N{number:03}"


def _number(note: Note) -> int:
    return int(note.id[1:])


def _category(value: object) -> str:
    if value not in CATEGORIES:
        raise _Wrong(f"{_short(value)} is no category: {', '.join(CATEGORIES)}")
    return str(value)


def _text(value: object) -> str:
    """Return a note's text in one line, so that no note can look like two."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text:
        raise _Wrong("the text is empty")
    return text


def _short(value: object) -> str:
    return repr(value)[:QUOTED]
