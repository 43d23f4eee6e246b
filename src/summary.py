"""From a subject's interviews and consensus to what a person reads, and what is stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median_high

from rich.table import Table

from src.clinical import bdi
from src.llm.ledger import Ledger, dollars
from src.records import (
    INTENDED_USE,
    Consensus,
    Failure,
    Interview,
    Record,
    SymptomScore,
    Truth,
)
from src.settings import RunSettings
from src.store import Manifest

MACHINERY = (
    "The patient is rule-based: these figures show that the machinery works, not how well it "
    "screens anyone."
)


class Problem(Failure):
    """An interview that gave no answer, and why."""

    sample: int


class SubjectResult(Record):
    """One analyst's answer on one subject, as stored in `results/`."""

    intended_use: str = INTENDED_USE
    caution: str | None
    run: str
    subject: str
    analyst: dict[str, object]
    n_planned: int
    n_valid: int
    bands: bdi.Bands
    band: str
    key_symptoms: tuple[str, ...]
    messages: tuple[int, ...]
    """k of each valid interview, by sample."""
    stops: dict[str, int]
    unscored_turns: int
    flags: dict[str, int]
    """In how many turns a question or an answer carried a flag."""
    hosts: tuple[str, ...]
    """Hosts that saw text of the conversations."""
    served: dict[str, str]
    """Model or adapter by role, as its server lists it."""
    ledger: Ledger
    problems: tuple[Problem, ...]
    truth: Truth | None
    result: Consensus


def problems_of(interviews: Sequence[Interview]) -> tuple[Problem, ...]:
    """Return the failed interviews, by sample."""
    return tuple(
        Problem(sample=interview.sample, **failure.model_dump())
        for interview in interviews
        if (failure := interview.failure)
    )


def result_of(
    ended: Sequence[Interview],
    consensus: Consensus,
    *,
    settings: RunSettings,
    subject: str,
    truth: Truth | None,
    ledger: Ledger,
    manifest: Manifest | None,
) -> SubjectResult:
    """Put an analyst's answer together with how the interviews went."""
    valid = [interview for interview in ended if interview.valid]
    turns = [turn for interview in ended for turn in interview.turns]
    flags = ({*t.question.flags, *t.answer.flags, *t.flags} - {"unscored"} for t in turns)
    return SubjectResult(
        caution=MACHINERY if settings.patient.kind == "offline" else None,
        run=settings.run or settings.name,
        subject=subject,
        analyst=settings.analyst.model_dump(mode="json"),
        n_planned=settings.samples,
        n_valid=len(valid),
        bands=settings.bands,
        band=bdi.band(consensus.total, settings.bands),
        key_symptoms=tuple(map(bdi.name, consensus.key_symptoms)),
        messages=tuple(interview.messages for interview in valid),
        stops=dict(Counter(str(i.stop) for i in valid).most_common()),
        unscored_turns=sum("unscored" in turn.flags for turn in turns),
        flags=dict(Counter(chain.from_iterable(flags)).most_common()),
        hosts=manifest.hosts if manifest else (),
        served=manifest.served if manifest else {},
        ledger=ledger,
        problems=problems_of(ended),
        truth=truth,
        result=consensus,
    )


def answer_lines(answer: SubjectResult) -> list[str]:
    """Return the answer as short lines for a terminal or a page."""
    result, spread, truth = answer.result, answer.result.spread, answer.truth
    band = f"{truth.total}, {bdi.band(truth.total, answer.bands)}" if truth else ""
    simulated = f"   (simulated truth {band})" if truth else ""
    median = f"median {spread.median:g}"
    half = f"middle half {spread.lower_quartile:g}–{spread.upper_quartile:g}"
    lines = [
        f"BDI-II total {result.total}, {answer.band} ({answer.bands} bands){simulated}",
        f"  samples {spread.minimum}–{spread.maximum}, {median}, {half}",
        "Key symptoms" if result.key_symptoms else "Key symptoms: none",
    ]
    for item in result.key_symptoms:
        symptom = result.profile[item]
        words = f"“{symptom.evidence}”" if symptom.evidence else "no words of the persona"
        lines.append(f"  {bdi.name(item)} {symptom.score}: {words}")
    if truth:
        named = ", ".join(map(bdi.name, truth.key_symptoms)) or "none"
        lines.append(f"  (simulated truth: {named})")
    k = answer.messages
    ended = f"; ended by {counted(answer.stops)}" if answer.stops else ""
    about = {
        "Interviews": f"{answer.n_valid}/{answer.n_planned} valid{ended}",
        "Messages": f"{min(k)}–{max(k)}, middle {median_high(k)}" if k else "",
        "Nearest runs": ", ".join(f"{r.sample} (total {r.total})" for r in result.selected),
    }
    lines += [f"{what} {text}" for what, text in about.items() if text]
    lines += spent_lines(answer.ledger)
    if answer.flags:
        lines.append(f"Flags, by turns: {counted(answer.flags)}")
    if "sensitive" in answer.flags:
        lines.append("Self-harm came up by itself (flag sensitive). This program alerts nobody.")
    if result.other_total is not None:
        lines.append(f"Consensus total under the other agreement mode: {result.other_total}")
    if result.identical:
        groups = "; ".join(", ".join(map(str, group)) for group in result.identical)
        lines.append(f"Identical transcripts, counted once: samples {groups}")
    return lines


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as words, in their order."""
    return ", ".join(f"{what} {n}" for what, n in counts.items())


def spent_lines(ledger: Ledger) -> list[str]:
    """Return a line a role: calls, tokens by kind, dollars."""
    lines = [
        f"{role}: {a.delivered} calls answered, {a.failed} not; tokens in {a.input_tokens} "
        f"(cached {a.cached_tokens}), out {a.output_tokens} (reasoning {a.reasoning_tokens}), "
        f"{a.output_tokens / a.seconds if a.seconds else 0:.0f} a second in each call; "
        f"{dollars(a.cost)}"
        for role, a in ledger.roles.items()
    ]
    if ledger.unknown:
        lines.append(f"{ledger.unknown} calls were cut off by a kill; nobody knows their cost")
    return lines


def what_went_wrong(problems: Sequence[Problem], unscored_turns: int = 0) -> list[str]:
    """Return each problem with what to do about it."""
    lines = [f"Sample {p.sample}: {p.kind}: {p.text}" for p in problems]
    if unscored_turns:
        lines.append(f"{unscored_turns} turns stayed unscored: known from the turns around them.")
    if any(p.transport for p in problems):
        lines.append("The same command tries again where the way to a server failed.")
    if any(not p.transport for p in problems):
        lines.append("retry_failed=true holds the other failed interviews again.")
    return lines or ["Nothing."]


def table(answers: Sequence[SubjectResult]) -> Table:
    """Return one line a subject."""
    headings = ("subject", "total", "samples", "band", "truth", "key symptoms", "valid", "k")
    shown = Table(*headings, box=None)
    for answer in answers:
        result = answer.result
        shown.add_row(
            answer.subject,
            str(result.total),
            f"{result.spread.minimum}–{result.spread.maximum}",
            answer.band,
            str(answer.truth.total) if answer.truth else "",
            ", ".join(answer.key_symptoms),
            f"{answer.n_valid}/{answer.n_planned}",
            str(median_high(answer.messages)) if answer.messages else "",
        )
    return shown


def unanswered_page(subject: str, shortfall: str, ended: Sequence[Interview]) -> str:
    """Return `summary.md` where too few interviews are valid for an answer."""
    return page_of(subject, [f"No answer: {shortfall}"], what_went_wrong(problems_of(ended)))


def page(answer: SubjectResult, folder: Path) -> str:
    """Return `summary.md`; it ends with what went wrong and what to do."""
    body = [f"> {answer.caution}", ""] if answer.caution else []
    body += [f"- {line.strip()}" for line in answer_lines(answer)]
    body += [f"- Files: {folder}", ""]
    body += [
        "| item | symptom | score | confidence | the persona's words |",
        "|---|---|---|---|---|",
    ]
    for n, symptom in enumerate(answer.result.profile.symptoms, 1):
        words = "" if symptom.imputed else symptom.evidence.replace("|", "/")
        cells = (str(n), bdi.name(n), _level(symptom), f"{symptom.confidence:.2f}", words)
        body.append(f"| {' | '.join(cells)} |")
    wrong = what_went_wrong(answer.problems, answer.unscored_turns)
    return page_of(f"{answer.subject}, run {answer.run}", body, wrong)


def page_of(title: str, body: Sequence[str], wrong: Sequence[str]) -> str:
    """Return a page for a person to read; it ends with what went wrong and what to do."""
    lines = [f"# {title}", "", f"> {INTENDED_USE}", "", *body, ""]
    lines += ["## What went wrong, and what to do", *(f"- {line}" for line in wrong), ""]
    return "\n".join(lines)


def _level(symptom: SymptomScore) -> str:
    """Show what was not assessed as such: it is not a zero."""
    if symptom.imputed:
        return f"{symptom.score} (imputed)"
    return str(symptom.score) if symptom.assessed else "not assessed"
