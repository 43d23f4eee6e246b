"""A small model double: says what it is told to, and keeps what it was asked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel

from src.errors import ModelFailed
from src.llm.caller import Reply, Request
from src.prompts import ROOT
from src.records import Call

Model = TypeVar("Model", bound=BaseModel)
CUT = "…cut"
"""A reply that ends so counts as cut off by the token limit."""


class Speaker:
    """Gives its replies one by one, the last one for ever; raises those that are errors."""

    def __init__(self, *replies: str | ModelFailed) -> None:
        self._replies: Sequence[str | ModelFailed] = replies
        self.requests: list[Request] = []

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        number = len(self.requests)
        reply = self._replies[min(number, len(self._replies)) - 1]
        if isinstance(reply, ModelFailed):
            raise reply
        call = Call(role="interviewer", asked="double", attempt=number)
        return Reply(text=reply, truncated=reply.endswith(CUT), calls=(call,))

    @property
    def last_lines(self) -> list[str]:
        """Return the last message of every request."""
        return [request.messages[-1]["content"] for request in self.requests]


def settings_of(path: str, model: type[Model], **changes: object) -> Model:
    """Return a file of conf/ as settings, with some values changed."""
    content = yaml.safe_load(Path(ROOT, "conf", path).read_text(encoding="utf-8"))
    return model.model_validate_json(json.dumps(content | changes))
