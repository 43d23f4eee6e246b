"""Who a simulated patient is: the record that a hand writes, and a generator too."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from src.records import Record

OLDEST = 110
"""Years; a greater number in a record is no age."""
Text = Annotated[str, Field(min_length=2)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Age = Annotated[int, Field(ge=0, le=OLDEST, strict=True)]
Sex = Literal["female", "male", "other"]
FactKind = Literal[
    "symptom",
    "course",
    "function",
    "history",
    "family",
    "context",
    "risk",
    "substance",
    "medical",
    "treatment",
    "observation",
    "character",
]
"""`observation` is what a clinician saw or measured; `character` is nothing clinical."""
State = Literal["present", "denied", "uncertain"]
Origin = Literal["case", "elaboration", "character"]
Disclosure = Literal[
    "spontaneous", "when_relevant", "when_asked_directly", "initially_withheld", "clinician_only"
]
"""When a fact may be told: by itself, once its area comes up, to a question that names it, only
once there is trust or a second question, or never, since the person does not know it."""
SafetyTiming = Literal["recent", "current", "imminent", "ongoing", "unspecified"]
SafetyDomain = Literal["self_harm", "harm_to_others", "vulnerability"]
DenialDomain = Literal[
    "self_harm",
    "harm_to_others",
    "vulnerability",
    "low_mood",
    "elation",
    "worry",
    "panic",
    "social_fear",
    "rituals",
    "unusual_experiences",
    "trauma",
    "detachment",
    "eating",
    "sleep",
    "body",
    "substances",
    "gambling",
    "memory",
    "attention",
    "anger",
    "medical",
    "other",
]
"""Areas that an interviewer may ask about; `other` answers for all that are not named."""


class Demographics(Record):
    """The plain facts that anyone who knows the person would know."""

    name: Text
    sex: Sex
    age: Age
    work: Text
    home: Text
    """Where they live, and with whom."""
    background: Text
    """Origin, language, schooling, faith: as far as it matters to them."""


class Fact(Record):
    """One entry of the ledger."""

    id: Annotated[str, Field(pattern=r"^F\d{2}$")]
    kind: FactKind
    state: State = "present"
    timing: Text
    text: Text
    """The fact in the third person."""
    disclosure: Disclosure
    origin: Origin = "case"
    """Stated in the case, or added: subjective colour and impact, or character."""
    topics: tuple[Text, ...] = ()
    """Lower-case words or short phrases; a question that has one of them, at the start of a word,
    is heard to be about this fact."""
    says: str = ""
    """The person's own words, one to three spoken sentences."""
    safety: SafetyDomain | None = None
    """The danger that it bears on: any question about that danger is about this fact."""

    @model_validator(mode="after")
    def _can_be_told(self) -> "Fact":
        if {bool(self.topics), bool(self.says)} != {self.known}:
            raise ValueError("topics and says belong to what the person knows, both of them")
        if any(topic != topic.lower() for topic in self.topics):
            raise ValueError("topics are written in lower case")
        allowed = {"elaboration": ("symptom", "function"), "character": ("character",)}
        if self.kind not in allowed.get(self.origin, get_args(FactKind)):
            raise ValueError(f"nothing of kind {self.kind} may be added to a case")
        return self

    @property
    def known(self) -> bool:
        """Whether the person knows it, and could tell."""
        return self.disclosure != "clinician_only"


class SafetyState(Record):
    """What the case says of one danger. Silence in the case means that there is none."""

    concern: bool = False
    timing: SafetyTiming | None = None
    quote: str = ""
    """Words of the case's text that state the concern."""
    past: str = ""
    """Words of the case's text that tell of something long over, which is no concern now."""
    guidance: str = ""
    """How the person speaks of it; never more than the case holds."""

    @model_validator(mode="after")
    def _rests_on_the_case(self) -> "SafetyState":
        if self.concern != bool(self.quote) or self.concern != bool(self.timing):
            raise ValueError("a concern needs a quote and a timing, and nothing else has them")
        if (self.quote or self.past) and not self.guidance:
            raise ValueError("what the case tells needs guidance on how it is spoken of")
        return self


class Safety(Record):
    """The three dangers that are settled before anyone plays the person."""

    self_harm: SafetyState = SafetyState()
    harm_to_others: SafetyState = SafetyState()
    vulnerability: SafetyState = SafetyState()
    """Abuse, neglect or exploitation of the person, or of someone in their care."""

    @property
    def states(self) -> tuple[tuple[SafetyDomain, SafetyState], ...]:
        return (
            ("self_harm", self.self_harm),
            ("harm_to_others", self.harm_to_others),
            ("vulnerability", self.vulnerability),
        )

    @property
    def concerns(self) -> tuple[SafetyDomain, ...]:
        """Domains of a present concern."""
        return tuple(domain for domain, state in self.states if state.concern)

    @property
    def quotes(self) -> tuple[tuple[SafetyDomain, str], ...]:
        """Every quotation, with its domain."""
        return tuple(
            (domain, quote)
            for domain, state in self.states
            for quote in (state.quote, state.past)
            if quote
        )


class Manner(Record):
    """How the person talks and deals with being asked."""

    talk: Text
    traits: str = ""
    """Personality in prose, by the five domains where they are known."""


class PatientProfile(Record):
    """Everything that plays one patient; never the case's text, its reference or a code."""

    case: str
    """Id of the case."""
    demographics: Demographics
    narrative: Annotated[tuple[Text, ...], Field(min_length=3, max_length=8)]
    """Paragraphs; the first is what the person lives through."""
    facts: Annotated[tuple[Fact, ...], Field(min_length=4, max_length=40)]
    safety: Safety
    manner: Manner
    opening: Text
    """What they say first, when greeted."""
    denials: dict[DenialDomain, Text]
    """What they answer about things that they do not have."""
    provenance: Text
    """`written by hand`, or what generated it."""
    reviewed_by: str | None = None
    """The clinician who read it; None until one did."""

    @model_validator(mode="after")
    def _complete(self) -> "PatientProfile":
        for place, fact in enumerate(self.facts, 1):
            if fact.id != f"F{place:02}":
                raise ValueError(f"fact {place} has the id {fact.id}")
        calm = [domain for domain, state in self.safety.states if not state.concern]
        for domain in (*calm, "other"):
            if domain not in self.denials:
                raise ValueError(f"denials.{domain}: field required")
        told = {fact.safety for fact in self.facts if fact.state != "denied"}
        for domain, _ in self.safety.quotes:
            if domain not in told:
                raise ValueError(f"safety.{domain}: no fact tells what the quote holds")
        return self

    @property
    def known(self) -> tuple[Fact, ...]:
        """Facts that the person could tell of."""
        return tuple(fact for fact in self.facts if fact.known)
