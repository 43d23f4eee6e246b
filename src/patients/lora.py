"""The patient behind an adapter: a served model that plays one persona, and what it lets slip.

A reply is cleaned of what belongs to the chat template and cut where the model speaks for the
other side. Nothing is hidden: the raw text stays beside the cleaned, and flags say what was seen.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from src.clinical.text import about_other, sentences
from src.errors import ModelFailed, PatientFailed
from src.interview.roles import Turns
from src.interview.views import patient_view
from src.llm.caller import Asking, Request
from src.records import Answer, Question, Record
from src.settings import LoraSettings

Patterns = Annotated[tuple[re.Pattern[str], ...], Field(min_length=1)]
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u00a0", "''\"\" ")
SHOWN = 80
"""Characters of an unusable reply that an error repeats."""


Leaks = Annotated[dict[Literal["opening", "ending", "other_side"], Patterns], Field(min_length=3)]
Reversal = Annotated[dict[Literal["asks", "supports"], Patterns], Field(min_length=2)]
Sensitive = Annotated[
    dict[Literal["own", "anyone", "idioms", "denied"], Patterns], Field(min_length=4)
]


class Signs(Record):
    """What to look for in a persona's reply, `prompts/patient_signs.yaml`."""

    leaks: Leaks
    ai_disclaimer: Patterns
    role_reversal: Reversal
    sensitive: Sensitive


class LoraPatient:
    """Asks a persona's model to answer, and says what became of the answer."""

    def __init__(
        self, asking: Asking, *, settings: LoraSettings, system: str | None, signs: Signs
    ) -> None:
        """Take the text of the user's own system prompt; None, as a rule, sends none at all."""
        self._asking, self._settings = asking, settings
        self._system, self._signs = system, signs

    async def reply(self, turns: Turns, question: Question) -> Answer:
        """Answer a question; raise `PatientFailed` where there is nothing to work with."""
        request = persona_request(self._settings, turns, question.text, system=self._system)
        return await played(self._asking, request, self._signs)


async def played(asking: Asking, request: Request, signs: Signs) -> Answer:
    """Return a model's answer, cleaned as a persona's is; what fails keeps its kind."""
    try:
        reply = await asking.ask(request)
    except ModelFailed as error:
        raise PatientFailed(str(error), kind=error.kind, transport=error.transport) from error
    text, flags = cleaned(reply.text, signs.leaks)
    if not text:
        rest = reply.text.strip()[:SHOWN]
        raise PatientFailed(f"nothing is left of the reply {rest!r}", kind="empty")
    return Answer(
        text=text,
        raw=reply.text if text != reply.text else None,
        flags=(*flags, *["truncated"] * reply.truncated, *flags_of(text, signs)),
        calls=reply.calls,
    )


def persona_request(
    settings: LoraSettings, turns: Turns, question: str, *, system: str | None
) -> Request:
    """Return what a persona's model is sent."""
    return Request(
        messages=patient_view(turns, question, system=system),
        settings=settings.call,
        turn=len(turns) + 1,
        stop=settings.stop,
        stop_token_ids=settings.stop_token_ids,
    )


def cleaned(raw: str, leaks: Leaks) -> tuple[str, list[str]]:
    """Return the persona's own message, and `role_leak` and `both_sides` where they apply."""
    text, before = raw.strip(), None
    leaked = spoke = False
    while text != before:  # a cut may lay bare another opening
        before = text
        if opened := max((m.end() for p in leaks["opening"] if (m := p.match(text))), default=0):
            text, leaked = text[opened:].lstrip(), True
            continue
        ending, other = _first(leaks["ending"], text), _first(leaks["other_side"], text)
        leaked, spoke = leaked or ending is not None, spoke or other is not None
        text = text[: min((n for n in (ending, other) if n is not None), default=None)].strip()
    return text, ["role_leak"] * leaked + ["both_sides"] * spoke


def flags_of(text: str, signs: Signs) -> list[str]:
    """Return what a cleaned reply shows beyond an answer."""
    whole, said = _plain(text), [_plain(sentence) for sentence in sentences(text)]
    asks, supports = signs.role_reversal["asks"], signs.role_reversal["supports"]
    seen = {
        "empty": not any(character.isalnum() for character in text),
        "ai_disclaimer": _any(signs.ai_disclaimer, whole),
        # asks after the interviewer and comforts, as a helper would
        "role_reversal": any(_any(asks, one) for one in said if "?" in one)
        and _any(supports, whole),
        "sensitive": any(harms(sentence, signs.sensitive) for sentence in said),
    }
    return [flag for flag, found in seen.items() if found]


def harms(sentence: str, signs: Sensitive) -> bool:
    """Say whether the speaker tells of harm to themselves: no denial, no idiom, nobody else."""
    for idiom in signs["idioms"]:
        sentence = idiom.sub(" ", sentence)
    own, patterns = signs["own"], (*signs["own"], *signs["anyone"])
    found = [(p, sentence[: m.start()]) for p in patterns for m in p.finditer(sentence)]
    return any(
        (pattern in own or not about_other(before)) and not _any(signs["denied"], before)
        for pattern, before in found
    )


def _plain(text: str) -> str:
    """Return a text as the signs are written: lower case, straight quotes, single blanks."""
    return " ".join(text.translate(_QUOTES).lower().split())


def _any(patterns: Iterable[re.Pattern[str]], text: str) -> bool:
    return any(pattern.search(text) for pattern in patterns)


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> int | None:
    """Return where the earliest match begins."""
    return min((m.start() for p in patterns if (m := p.search(text))), default=None)
