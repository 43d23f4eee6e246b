"""A diagnoser's model as a double, and answers for it to give."""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from src.errors import ModelFailed
from src.llm.caller import Reply, Request
from src.llm.responses import ToolCall
from src.records import (
    Answer,
    Call,
    Interview,
    Message,
    Question,
    SafetyEvent,
    StopReason,
    ToolUse,
    Turn,
    visible,
)

LookUps = Sequence[str]
"""Codes that one response looks up."""


def hypothesis(code: str, rank: int = 1, *, name: str = "", level: str = "moderate") -> Any:
    return {"rank": rank, "name": name or f"name of {code}", "code": code, "confidence": level}


def candidate(code: str, rank: int = 1, *, support: str = "low") -> dict[str, Any]:
    return {
        "rank": rank,
        "name": f"name of {code}",
        "code": code,
        "supporting": ["sleeps badly"],
        "contradictory": [],
        "unresolved": ["since when"],
        "support": support,
        "judgement": "possible",
    }


def report(*hypotheses: Any, **changes: Any) -> dict[str, Any]:
    """Return a report as a model writes it, its keys in the right order."""
    usual: dict[str, Any] = {
        "data_sufficiency": {"level": "partial", "reason": "short"},
        "problem_representation": "Sleeps badly since May.",
        "evidence": [
            {
                "finding": "sleeps badly",
                "state": "present",
                "source": "participant",
                "timeframe": "since May",
                "salience": "high",
                "relevance": "mood",
            }
        ],
        "alternative_explanations": [{"explanation": "medicines", "assessment": "not asked"}],
        "ranked_differential": [candidate("6A70")],
        "diagnostic_synthesis": "Open.",
        "key_uncertainties": ["duration"],
        "safety_assessment": {"current": "not_assessed", "narrative": "Nobody asked."},
        "final_hypotheses": list(hypotheses),
    }
    return {**usual, **changes}


class Voice:
    """Gives replies one by one, the last for ever: texts, look-ups, failures."""

    def __init__(self, *replies: str | LookUps | ModelFailed) -> None:
        self._replies, self.requests = replies, list[Request]()

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = self._replies[min(len(self.requests), len(self._replies)) - 1]
        if isinstance(reply, ModelFailed):
            raise reply
        call = Call(role="analyst", asked="double", attempt=len(self.requests))
        if isinstance(reply, str):
            return Reply(text=reply, truncated=False, calls=(call,))
        return Reply(
            text="",
            truncated=False,
            calls=(call,),
            tool_calls=tuple(
                ToolCall(id="c", name="lookup_icd_disorder", arguments=f'{{"code": "{code}"}}')
                for code in reply
            ),
        )

    @property
    def everything_sent(self) -> str:
        """Return all that was sent, in whatever field."""
        return "\n".join(
            f"{r.messages} {r.tools} {r.schema} {r.stop} {r.turn}" for r in self.requests
        )


def turns_of(*pairs: tuple[str, str]) -> tuple[Turn, ...]:
    """Return turns of questions and answers."""
    return tuple(
        Turn(number=n, question=Question(text=asked, source="model"), answer=Answer(text=answer))
        for n, (asked, answer) in enumerate(pairs, 1)
    )


def said(*pairs: tuple[str, str]) -> tuple[Message, ...]:
    return visible(turns_of(*pairs))


def telltale() -> tuple[Interview, list[str]]:
    """Return an interview that is full of what no diagnoser may see, and those words."""
    kinds = ("notes", "arguments", "output", "source", "flag", "raw", "turnflag", "subject")
    words = {kind: token_hex(8) for kind in (*kinds, "reason", "closing")}
    use = ToolUse(name="x", arguments=words["arguments"], ok=True, output=words["output"])
    turns = tuple(
        Turn(
            number=number,
            question=Question(
                text=f"Question {number}?",
                source=words["source"],
                tools=(use,),
                flags=(words["flag"],),
                notes=words["notes"],
            ),
            answer=Answer(text=f"Answer {number}.", raw=words["raw"], flags=(words["flag"],)),
            flags=(words["turnflag"],),
        )
        for number in (1, 2, 3)
    )
    event = SafetyEvent(source="model", kind="self_harm", reason=words["reason"])
    closing = Question(text=words["closing"], source="fixed", tools=(use,), event=event)
    interview = Interview(
        subject=words["subject"],
        sample=1,
        seed=1,
        turns=turns,
        closing=closing,
        stop=StopReason.SAFETY,
    )
    return interview, list(words.values())
