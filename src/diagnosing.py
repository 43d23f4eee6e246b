"""From the interviews of one case to diagnoses: what is owed, what is kept, what is suppressed."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from rich.table import Table

from src.errors import ModelFailed, TacitError
from src.interview.roles import Diagnoser
from src.interview.views import tagged
from src.llm.ledger import Ledger
from src.patients.cases import Case
from src.records import (
    INTENDED_USE,
    Failure,
    Interview,
    Message,
    Record,
    SafetyEvent,
    StopReason,
    sha256_of,
    visible,
)
from src.reports import Diagnosis
from src.settings import ReportSettings, RunSettings
from src.store import Manifest
from src.summary import Problem, counted, page_of, problems_of, spent_lines, what_went_wrong

OFFLINE = (
    "Patient, interviewer or diagnoser are rule-based: this shows that the machinery works, not "
    "how well it diagnoses anyone."
)
UNREVIEWED = "For review by qualified people; never shown to the participant."


class StoppedInterview(SafetyEvent):
    """An interview that was stopped for someone's safety."""

    sample: int
    exchanges: int


class CaseResult(Record):
    """One analyst's reports on one subject, as stored in `results/`."""

    intended_use: str = INTENDED_USE
    caution: str | None
    run: str
    subject: str
    analyst: dict[str, object]
    n_planned: int
    n_held: int
    """Interviews that ended as planned or for safety."""
    stops: dict[str, int]
    flags: dict[str, int]
    case: Case | None
    """The case with the reference that reports are compared with; None for personas."""
    safety_present: bool | None
    """Whether the case's profile holds a present danger; None where nobody said."""
    events: tuple[StoppedInterview, ...]
    """Open for review by a person."""
    hosts: tuple[str, ...]
    served: dict[str, str]
    diagnoser: str
    """Name of the model that diagnosed; empty: none."""
    ledger: Ledger
    problems: tuple[Problem, ...]
    diagnoses: tuple[Diagnosis, ...]


def held(ended: Sequence[Interview]) -> list[Interview]:
    """Return the interviews that have something to be read."""
    return [interview for interview in ended if interview.failure is None and interview.turns]


@dataclass(frozen=True)
class Reading:
    """What is to be read of one interview."""

    sample: int
    said: tuple[Message, ...]
    suppressed: bool

    @property
    def transcript(self) -> str:
        """Return the hash of what is read."""
        return sha256_of(tagged(self.said))

    def diagnosis(self, **outcome: object) -> Diagnosis:
        """Return what became of it."""
        return Diagnosis.model_validate(
            {
                "sample": self.sample,
                "exchanges": len(self.said) // 2,
                "transcript": self.transcript,
                **outcome,
            }
        )


def readings(interviews: Sequence[Interview], settings: ReportSettings) -> list[Reading]:
    """Return what an analyst reads: each interview whole, and its first exchanges as asked for."""
    return [
        Reading(
            interview.sample,
            visible(list(interview.turns[:exchanges])),
            suppressed=interview.event is not None and not settings.include_stopped,
        )
        for interview in interviews
        for exchanges in _lengths(len(interview.turns), settings.prefixes)
    ]


def current(interviews: Sequence[Interview], known: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Return what is known of these interviews as they are: one held again has other words."""
    turns = {interview.sample: interview.turns for interview in interviews}
    return [
        d
        for d in known
        if d.transcript == sha256_of(tagged(visible(turns.get(d.sample, ())[: d.exchanges])))
    ]


def owed(wanted: Sequence[Reading], known: Sequence[Diagnosis]) -> list[Reading]:
    """Return those that nobody has diagnosed yet; a failure is owed again."""
    there = {(d.sample, d.transcript) for d in known if d.findings}
    return [r for r in wanted if not r.suppressed and (r.sample, r.transcript) not in there]


async def diagnosed(
    wanted: Sequence[Reading],
    known: Sequence[Diagnosis],
    diagnoser_for: Callable[[int], Diagnoser],
) -> tuple[list[Diagnosis], TacitError | None]:
    """Return a diagnosis of each reading; what is known of the same words is not asked again.

    What was paid for stays where it is suppressed now: it is marked, and neither shown nor counted.
    Where something ends the run, what came before it is returned beside the error.
    """
    jobs = [_diagnosed(r, diagnoser_for) for r in owed(wanted, known)]
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    new = [outcome for outcome in outcomes if isinstance(outcome, Diagnosis)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    ending = next((error for error in errors if isinstance(error, TacitError)), None)
    if ending is None and errors:
        raise errors[0]
    there = {(d.sample, d.transcript): d for d in (*known, *new) if d.findings}
    hidden = {reading.sample for reading in wanted if reading.suppressed}
    kept = [d.model_copy(update={"suppressed": d.sample in hidden}) for d in there.values()]
    failed = [d for d in new if not d.findings]
    stopped = [
        reading.diagnosis(suppressed=True)
        for reading in wanted
        if reading.suppressed and (reading.sample, reading.transcript) not in there
    ]
    return sorted([*kept, *failed, *stopped], key=lambda d: (d.sample, d.exchanges)), ending


async def _diagnosed(reading: Reading, diagnoser_for: Callable[[int], Diagnoser]) -> Diagnosis:
    began = time.monotonic()
    outcome: dict[str, object]
    try:
        outcome = {"findings": await diagnoser_for(reading.sample).diagnose(reading.said)}
    except ModelFailed as error:
        outcome = {"failure": Failure(kind=error.kind, text=str(error), transport=error.transport)}
    return reading.diagnosis(**outcome, seconds=round(time.monotonic() - began, 3))


def _lengths(whole: int, prefixes: Sequence[int]) -> list[int]:
    return sorted({whole, *(n for n in prefixes if n < whole)})


def case_result(
    ended: Sequence[Interview],
    diagnoses: Sequence[Diagnosis],
    *,
    settings: RunSettings,
    subject: str,
    case: Case | None,
    safety_present: bool | None,
    diagnoser: str,
    ledger: Ledger,
    manifest: Manifest | None,
) -> CaseResult:
    """Put an analyst's reports together with how the interviews went."""
    turns = [turn for interview in ended for turn in interview.turns]
    flags = [{*t.question.flags, *t.answer.flags, *t.flags} for t in turns]
    flags += [{*i.closing.flags} for i in ended if i.closing]
    kinds = {settings.patient.kind, settings.analyst.kind}
    rules = {"offline", "profile_offline", "diagnosis_offline"} & kinds
    scripted = getattr(settings.interviewer, "script", None) is not None
    return CaseResult(
        caution=OFFLINE if rules or scripted else None,
        run=settings.run or settings.name,
        subject=subject,
        analyst=settings.analyst.model_dump(mode="json"),
        n_planned=settings.samples,
        n_held=len(held(ended)),
        stops=dict(Counter(str(i.stop) for i in ended if i.stop).most_common()),
        flags=dict(Counter(chain.from_iterable(flags)).most_common()),
        case=case,
        safety_present=safety_present,
        events=tuple(
            StoppedInterview(sample=i.sample, exchanges=len(i.turns), **i.event.model_dump())
            for i in ended
            if i.event
        ),
        hosts=manifest.hosts if manifest else (),
        served=manifest.served if manifest else {},
        diagnoser=diagnoser,
        ledger=ledger,
        problems=problems_of(ended),
        diagnoses=tuple(diagnoses),
    )


def shortfall_of(result: CaseResult, failed: Sequence[Failure]) -> str | None:
    """Return why nothing can be read from a subject's interviews; None: something can."""
    if result.n_held == 0:
        kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(f.kind for f in failed).items())
        again = "; retry_failed=true holds them again" if failed else ""
        return f"0/{result.n_planned} interviews were held{f': {kinds}' if kinds else ''}{again}"
    if any(d.findings or d.suppressed for d in result.diagnoses):
        return None
    kinds = ", ".join({d.failure.kind: "" for d in result.diagnoses if d.failure})
    return f"none of its interviews is diagnosed ({kinds}); the same command tries again"


def case_lines(result: CaseResult) -> list[str]:
    """Return the reports as short lines for a terminal or a page."""
    lines = [f"Interviews {result.n_held}/{result.n_planned} held; {UNREVIEWED}"]
    lines += [
        f"Sample {event.sample} was stopped for safety after exchange {event.exchanges} "
        f"({event.source}: {event.kind}): open for review by a person."
        for event in result.events
    ]
    if result.stops.get(StopReason.PARTICIPANT):
        lines.append(f"The person ended {result.stops[StopReason.PARTICIPANT]} of them.")
    whole = {d.sample: d.exchanges for d in result.diagnoses}
    for diagnosis in result.diagnoses:
        part = (
            f", first {diagnosis.exchanges}"
            if diagnosis.exchanges < whole[diagnosis.sample]
            else ""
        )
        lines.append(f"Sample {diagnosis.sample}{part}: {_named(diagnosis)}")
    if result.case:
        codes = ", ".join(f"{r.code} {r.name}" for r in result.case.references) or "no disorder"
        lines.append(f"Reference of the case: {codes}")
    if result.flags:
        lines.append(f"Flags, by messages: {counted(result.flags)}")
    return [*lines, *spent_lines(result.ledger)]


def _named(diagnosis: Diagnosis) -> str:
    if diagnosis.suppressed:
        return "no diagnosis, since it was stopped for safety (analyst.include_stopped)"
    if diagnosis.failure:
        return f"not diagnosed: {diagnosis.failure.kind}: {diagnosis.failure.text}"
    if not diagnosis.hypotheses:
        return "no hypothesis is justified"
    return "; ".join(
        f"{h.rank}. {h.base} {h.title} ({h.confidence}{'' if h.known else ', unknown code'})"
        for h in diagnosis.hypotheses
    )


def case_table(results: Sequence[CaseResult]) -> Table:
    """Return one line a subject: its reference, and what was made of its first interview."""
    shown = Table("subject", "reference", "diagnosed", "held", "stopped", box=None)
    for result in results:
        references = result.case.references if result.case else ()
        whole = [d for d in result.diagnoses if d.sample == 1]
        shown.add_row(
            result.subject,
            ", ".join(r.code for r in references) or ("none" if result.case else ""),
            _named(whole[-1]) if whole else "",
            f"{result.n_held}/{result.n_planned}",
            str(len(result.events) or ""),
        )
    return shown


def case_page(result: CaseResult) -> str:
    """Return `summary.md`; it ends with what went wrong and what to do."""
    body = [f"> {result.caution}", ""] if result.caution else []
    body += [f"- {line}" for line in case_lines(result)]
    wrong = what_went_wrong(result.problems)
    failed = [d for d in result.diagnoses if d.failure]
    if failed:
        wrong = [line for line in wrong if line != "Nothing."]
        wrong.append(f"{len(failed)} interviews are not diagnosed; the same command tries again.")
    return page_of(f"{result.subject}, run {result.run}", body, wrong)
