"""What a scorer made of recorded conversations, beside the output: nothing is paid for twice."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from src import config
from src.journal import Journal
from src.llm.ledger import Allowance, Ledger, Prices, ledger_of
from src.prompts import sha256
from src.records import Assessment, Call, Turn, visible
from src.settings import ModelSettings, ScoreSettings

KeyFor = Callable[[int, Sequence[Turn]], str]
"""Gives the reading of a conversation, by its number, after some turns a key."""
NOT_IDENTITY: Any = {"models": True, "call": {"timeout"}}
"""What of a scorer's settings no reading depends on."""


class Readings:
    """Keeps every reading and call the moment it is there; is the `CallBook` of a scorer."""

    def __init__(self, path: Path | None, allowance: Allowance) -> None:
        """Take the file to keep them in, None for none, and what may be spent in all."""
        self._journal = Journal(path, way_on="give another out=FILE") if path else None
        self._allowance = allowance
        self._kept: dict[str, Assessment] = {}
        self.calls: list[Call] = []
        self.unknown = 0
        """Calls that a kill cut off."""

    @contextmanager
    def opened(self, *, to_write: bool = True) -> Iterator["Readings"]:
        """Read what is there, and hold the file; raise a `FolderError` if another does."""
        journal = self._journal
        if journal is None:
            yield self
            return
        if to_write:
            journal.open()
        try:
            journal.each(self._take)  # first: it may be no journal of ours
            self._allowance.count_unknown(self.unknown)
            if to_write:
                journal.mend()
            yield self
        finally:
            journal.close()

    def ledger(self, prices: Prices) -> Ledger:
        """Return what all of them took, over restarts."""
        return ledger_of(self.calls, prices, unknown=self.unknown)

    def _take(self, entry: Mapping[str, Any]) -> None:
        if entry["tag"] == "asked":
            self.unknown += 1
        elif entry["tag"] == "call":
            self.unknown -= 1
            self.calls.append(Call.model_validate(entry["call"]))
            self._allowance.count(self.calls[-1])
        elif entry["tag"] == "reading":
            self._kept[entry["key"]] = Assessment.model_validate(entry["assessment"])
        else:
            raise ValueError(entry["tag"])

    def get(self, key: str) -> Assessment | None:
        """Return the reading of this key, where there is one."""
        return self._kept.get(key)

    async def keep(self, key: str, reading: Assessment) -> Assessment:
        """Return a reading once it is on disk."""
        self._kept[key] = reading
        if self._journal:
            plain = reading.model_dump(mode="json")
            await self._journal.append({"tag": "reading", "key": key, "assessment": plain})
        return reading

    def asked(self, role: str, turn: int) -> None:
        self._allowance.refuse_more()
        if self._journal:
            self._journal.write({"tag": "asked", "turn": turn, "role": role})

    async def delivered(self, turn: int, call: Call) -> None:
        self._allowance.count(call)  # before anybody else may send
        self.calls.append(call)
        if self._journal:
            await self._journal.append({"tag": "call", "turn": turn, "call": call.model_dump()})


def key_for(settings: ScoreSettings, model: ModelSettings | None) -> KeyFor:
    """Return what gives a reading its key: all that it depends on, the model that rates included.

    The number is the conversation's, which is part of its seed.
    """
    scorer = settings.scorer
    same = {
        "scorer": scorer.model_dump(mode="json", exclude=NOT_IDENTITY),
        "texts": {key: sha256(file.path) for key, file in config.files(scorer).items()},
        "model": model and [model.name, model.effort],
        "seed": settings.seed,
    }

    def key(number: int, turns: Sequence[Turn]) -> str:
        said = [message.model_dump(mode="json") for message in visible(list(turns))]
        told = json.dumps(same | {"number": number, "said": said}, sort_keys=True)
        return blake2b(told.encode(errors="replace"), digest_size=16).hexdigest()

    return key
