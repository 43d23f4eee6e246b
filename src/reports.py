"""The nouns of a diagnosis: PsyDARA's report, the baseline's, and what is stored of either.

The order of the fields is the order in which they are generated: evidence and comparison come
before conclusions (§4.2, B.3).
"""

from typing import Annotated, Literal

from pydantic import Field

from src.records import Call, Failure, Record, ToolUse

HYPOTHESES_MAX = 3
Level = Literal["high", "moderate", "low"]
State = Literal["present", "denied", "unclear", "unassessed"]


class Sufficiency(Record):
    level: Literal["sufficient", "partial", "insufficient"]
    reason: str


class Evidence(Record):
    """One finding of the transcript. Denied is not unassessed."""

    finding: str
    state: State
    source: str
    timeframe: str
    salience: Literal["decisive", "high", "moderate", "low"]
    relevance: str


class Alternative(Record):
    """Another kind of explanation, and what the transcript says about it."""

    explanation: str
    assessment: str


class Candidate(Record):
    """One disorder of the differential, before anything is concluded."""

    rank: Annotated[int, Field(ge=1)]
    name: str
    code: str
    supporting: tuple[str, ...]
    contradictory: tuple[str, ...]
    unresolved: tuple[str, ...]
    support: Level
    judgement: str


class SafetyAssessment(Record):
    current: Literal["indicated", "not_indicated", "not_assessed"]
    narrative: str


class Hypothesis(Record):
    """A final hypothesis. Its level is no function of a candidate's support (D5)."""

    rank: Annotated[int, Field(ge=1, le=HYPOTHESES_MAX)]
    name: str
    code: str
    """As generated."""
    confidence: Level


class DiagnosticReport(Record):
    """PsyDARA's report for expert review; never shown to the participant."""

    data_sufficiency: Sufficiency
    problem_representation: str
    evidence: tuple[Evidence, ...]
    alternative_explanations: tuple[Alternative, ...]
    ranked_differential: tuple[Candidate, ...]
    diagnostic_synthesis: str
    key_uncertainties: tuple[str, ...]
    safety_assessment: SafetyAssessment
    final_hypotheses: Annotated[tuple[Hypothesis, ...], Field(max_length=HYPOTHESES_MAX)]


class DirectReport(Record):
    """The baseline's answer. `low` means that the evidence does not justify naming it."""

    final_hypotheses: Annotated[tuple[Hypothesis, ...], Field(max_length=HYPOTHESES_MAX)]


class Named(Record):
    """A hypothesis as it is counted: by its base code."""

    rank: int
    base: str
    raw: str
    title: str
    """The reference's title; the report's own name where the code is unknown."""
    family: str | None
    """None: the code is in no family of the chapter (unmapped)."""
    known: bool
    """Whether the reference has the base code; an unknown one is kept and flagged."""
    confidence: Level


class Findings(Record):
    """What an analyst makes of one transcript."""

    report: DiagnosticReport | DirectReport
    hypotheses: tuple[Named, ...]
    """Empty: none was justified, which is an answer."""
    tools: tuple[ToolUse, ...] = ()
    calls: tuple[Call, ...] = ()


class Diagnosis(Record):
    """What became of the analysis of one interview, or of its first exchanges."""

    sample: int
    exchanges: int
    """Finished exchanges that were read."""
    transcript: str
    """Hash of what was read."""
    findings: Findings | None = None
    suppressed: bool = False
    """No diagnosis after a safety stop (I12); findings made where it was asked for are kept."""
    failure: Failure | None = None
    seconds: float = 0.0

    @property
    def hypotheses(self) -> tuple[Named, ...]:
        return self.findings.hypotheses if self.findings and not self.suppressed else ()
