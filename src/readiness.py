"""Whether the servers can hold the interviews: windows that are long enough, and what is proved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from src import config
from src.errors import ServerError
from src.llm.caller import Request
from src.llm.preflight import Samples, checks
from src.llm.proofs import Check
from src.llm.servers import Servers
from src.patients.lora import persona_request
from src.prompts import load_yaml, read_text
from src.settings import BDISettings, LoraSettings, MonolithSettings, RunSettings

BYTES_PER_TOKEN = 3
"""English prompts have more in every tokenizer in use, so that this bounds their tokens."""
TOKENS_PER_WORD = 2
"""The same for the words of a message."""
MESSAGE_TOKENS = 8
"""What a chat template adds to a message, at most."""
SENT = frozenset({"prompt", "kickoff", "rubric", "repair", "system_prompt", "texts"})
"""Keys of the files that a model reads."""
FIXED_LINE = 120
"""Tokens of the longest line that is not a model's (tested)."""


@dataclass(frozen=True)
class Longest:
    """The longest prompt of a role with its answer, in tokens."""

    prompt: int
    answer: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.answer


def longest_prompts(settings: RunSettings, *, words_max: int | None) -> dict[str, Longest]:
    """Return each model-played role's longest prompt, every message as long as it may be.

    `words_max` is the guard's limit on a question; None: only the token limit of the call.
    """
    answers = {
        role: call.max_tokens
        for role in ("interviewer", "patient", "scorer")
        if (call := getattr(getattr(settings, role), "call", None))
    }
    question = answers.get("interviewer", FIXED_LINE)
    if words_max is not None:
        question = min(question, words_max * TOKENS_PER_WORD)
    reply = answers.get("patient", FIXED_LINE)
    turns = settings.orchestrator.max_messages
    both = question + reply + 2 * MESSAGE_TOKENS
    said = {
        "interviewer": turns * both,
        "patient": turns * both - reply,
        "scorer": turns * both,
    }
    return {role: Longest(_fixed(settings, role) + said[role], answers[role]) for role in answers}


def refuse_too_small(servers: Servers, longest: Mapping[str, Longest]) -> None:
    """Raise a `ServerError` where a window of ours cannot hold the longest interview."""
    for role, service in servers.services.items():
        settings, need = service.model.settings, longest.get(role)
        if need and settings.backend == "vllm" and need.tokens > settings.context:
            raise ServerError(
                f"{role}: {settings.name} has a window of {settings.context} tokens, the "
                f"longest interview needs {need.tokens}; serve it with a larger one, or lower "
                "orchestrator.max_messages or max_tokens"
            )


def server_checks(
    settings: RunSettings, servers: Servers, names: Sequence[str], *, every: bool = False
) -> list[Check]:
    """Return what must have been proved of the servers before interviews with these subjects.

    `every`: of those without an endpoint file as well, of which nothing is kept.
    """
    by_schema, patient = (BDISettings, MonolithSettings), settings.patient
    roles = {"scorer": settings.scorer, "interviewer": settings.interviewer}

    def asked(question: str) -> Request:
        assert isinstance(patient, LoraSettings)
        own = patient.system_prompt
        return persona_request(patient, (), question, system=read_text(own.path) if own else None)

    return checks(
        servers,
        schema_roles=[role for role, player in roles.items() if isinstance(player, by_schema)],
        subjects=names,
        samples=load_yaml(settings.preflight.samples, Samples),
        persona=asked,
        truncated_max=settings.preflight.truncated_max,
        every=every,
    )


def _fixed(settings: RunSettings, role: str) -> int:
    """Return the tokens of all texts of a role, and for an interviewer of the guidance."""
    players = [getattr(settings, role)]
    players += [settings.orchestrator] if role == "interviewer" else []
    files = {
        file.path for player in players for key, file in config.files(player).items() if key in SENT
    }
    texts = map(read_text, files)
    return sum(len(text.encode()) for text in texts) // BYTES_PER_TOKEN
