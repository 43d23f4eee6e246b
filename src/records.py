"""The frozen nouns that flow between the players and are stored. Nothing here acts."""

import hashlib
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

INTENDED_USE = (
    "Research on simulated personas. Not a diagnostic device: nobody is diagnosed, and no result "
    "says anything about a real person."
)
ITEMS = 21
"""Items of the BDI-II; item numbers run from 1 to 21."""
Score = Annotated[int, Field(ge=0, le=3, strict=True)]
Confidence = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Item = Annotated[int, Field(ge=1, le=ITEMS, strict=True)]


class Record(BaseModel):
    """Frozen, and refusing what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StopReason(StrEnum):
    """Why an interview ended."""

    MAX_MESSAGES = "max_messages"
    """No message is left in the budget."""
    CONFIDENT = "confident"
    """Every symptom that may be probed is known well enough."""
    STABLE = "stable"
    """The total has stopped moving."""
    COVERED = "covered"
    """Enough symptoms were probed (only where coverage is a stop rule of its own)."""
    SAFETY = "safety"
    """Ordinary interviewing stopped for someone's safety; an ending, not an error."""
    PARTICIPANT = "participant"
    """The person asked to end it."""
    DONE = "done"
    """The interviewer said that it had enough."""


class Call(Record):
    """One request to a model, delivered or not."""

    role: str
    asked: str
    """Name of the model that was asked for."""
    reported: str | None = None
    """Name of the model that the server says answered."""
    attempt: int = 1
    input_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the input, what the server had in its cache."""
    written_tokens: int | None = None
    """Of the input, what the provider charges for putting into its cache."""
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    at_most: tuple[int, int] | None = None
    """Tokens of prompt and answer that it may have taken, where no server told them."""
    seconds: float = 0.0
    finish: str | None = None
    outcome: str = "ok"


class ToolUse(Record):
    """One invocation of an interviewer's tool; never shown to patient, scorer or analyst."""

    name: str
    arguments: str
    ok: bool
    output: str


class SafetyEvent(Record):
    """Why an interview was stopped for someone's safety; open until a person has reviewed it."""

    source: Literal["model", "check"]
    """The interviewer's model, or the check without a model."""
    kind: str
    reason: str
    review: Literal["open"] = "open"


class Question(Record):
    """One message of the interviewer."""

    text: str
    source: str
    """`tree:<node>`, `model`, `fixed` or `guard`: this makes the tree stateless, since what was
    used is read from the turns."""
    focus: tuple[Item, ...] = ()
    """Items that this question is after."""
    tools: tuple[ToolUse, ...] = ()
    stop: StopReason | None = None
    """Set where the interviewer itself ends the interview; the text is then its last message."""
    calls: tuple[Call, ...] = ()
    flags: tuple[str, ...] = ()
    """What the guard found in the model's drafts, whether repaired or replaced."""
    notes: str | None = None
    """The interviewer's private notepad after this message; never part of `visible`."""
    event: SafetyEvent | None = None


class Answer(Record):
    """One message of the patient."""

    text: str
    raw: str | None = None
    """What the model sent, where cleaning changed it."""
    flags: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()


class SymptomScore(Record):
    """What is believed of one BDI-II item. Not assessed is not zero."""

    score: Score
    confidence: Confidence
    """0 = never spoken of; such an item counts as not assessed."""
    evidence: str = ""
    """The persona's own words."""
    imputed: bool = False

    @property
    def assessed(self) -> bool:
        return self.confidence > 0 and not self.imputed


class Assessment(Record):
    """One reading of a transcript: the 21 items in BDI-II order."""

    symptoms: Annotated[tuple[SymptomScore, ...], Field(min_length=ITEMS, max_length=ITEMS)]
    calls: tuple[Call, ...] = ()

    def __getitem__(self, item: int) -> SymptomScore:
        """Return the entry of an item by its number, 1 to 21."""
        if not 1 <= item <= ITEMS:
            raise IndexError(f"no item {item}")
        return self.symptoms[item - 1]

    @property
    def total(self) -> int:
        """Sum of the scores, 0 to 63; an item that was not assessed adds nothing."""
        return sum(symptom.score for symptom in self.symptoms)

    @property
    def assessed(self) -> tuple[int, ...]:
        """Numbers of the items that were affirmed or denied."""
        return tuple(n for n, symptom in enumerate(self.symptoms, 1) if symptom.assessed)

    @property
    def key_symptoms(self) -> tuple[int, ...]:
        """Up to four items with a score, the most certain and severe first (decision 9)."""
        ranked = sorted(
            (n for n, symptom in enumerate(self.symptoms, 1) if symptom.score > 0),
            key=lambda n: (self[n].imputed, -self[n].score, -self[n].confidence, n),
        )
        return tuple(ranked[:4])


class Turn(Record):
    """Question n, answer n, and what the scorer made of the transcript so far."""

    number: Annotated[int, Field(ge=1)]
    question: Question
    answer: Answer
    assessment: Assessment | None = None
    flags: tuple[str, ...] = ()
    """`unscored` where the scorer failed on this turn."""


class Message(Record):
    """One line of what both sides could see."""

    speaker: Literal["interviewer", "patient"]
    text: str


def visible(turns: tuple[Turn, ...] | list[Turn]) -> tuple[Message, ...]:
    """Return the messages alone: no notes, no tools, no scores, no sources."""
    return tuple(
        message
        for turn in turns
        for message in (
            Message(speaker="interviewer", text=turn.question.text),
            Message(speaker="patient", text=turn.answer.text),
        )
    )


class Guidance(Record):
    """What the orchestrator tells the interviewer before question n."""

    text: str
    focus: tuple[Item, ...] = ()
    stop: StopReason | None = None
    closing: bool = False
    """With `stop`: whether a closing message is still sent."""


class Failure(Record):
    """Why an interview could not be finished; data, never a score."""

    kind: str
    text: str
    transport: bool = False


class Interview(Record):
    """One sample of one subject, finished or failed."""

    subject: str
    sample: int
    seed: int
    turns: tuple[Turn, ...] = ()
    closing: Question | None = None
    stop: StopReason | None = None
    final: Assessment | None = None
    failure: Failure | None = None

    @model_validator(mode="after")
    def _ends_once(self) -> "Interview":
        if (self.stop is None) == (self.failure is None):
            raise ValueError("an interview ends with a stop reason or with a failure")
        return self

    @property
    def valid(self) -> bool:
        """Whether an analyst may use it: ended as planned, with a final assessment."""
        return self.failure is None and self.final is not None

    @property
    def event(self) -> SafetyEvent | None:
        """What stopped it for someone's safety, where anything did."""
        return self.closing.event if self.closing else None

    @property
    def messages(self) -> int:
        """k: messages of the interviewer, the closing included."""
        return len(self.turns) + (self.closing is not None)


class SelectedRun(Record):
    """One interview that stands for the subject in a submission, with its own answer."""

    sample: int
    total: int
    key_symptoms: tuple[Item, ...]
    messages: int


class Spread(Record):
    """Distribution of the samples' own totals (after imputation)."""

    minimum: int
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: int


class Truth(Record):
    """What a simulated person was written to be."""

    total: int
    key_symptoms: tuple[Item, ...]
    manner: str


class Consensus(Record):
    """What all samples of one subject say together."""

    profile: Assessment
    total: int
    key_symptoms: tuple[Item, ...]
    spread: Spread
    selected: tuple[SelectedRun, ...]
    """Nearest to the consensus first."""
    weights: dict[int, float] = Field(default_factory=dict)
    """Reliability of each distinct sample, 0 to 1, by sample number."""
    totals: dict[int, int] = Field(default_factory=dict)
    """Every valid sample's own total, after imputation."""
    identical: tuple[tuple[int, ...], ...] = ()
    """Groups of samples with the same transcript; each group counted once."""
    other_total: int | None = None
    """Consensus total under the other agreement mode."""


def seed_of(*parts: object) -> int:
    """Return 31 bits that depend on all parts and on nothing else."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) >> 1


def sha256_of(text: str) -> str:
    """Return the hash of a text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()
