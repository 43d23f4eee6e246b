"""One interview as a page for the researcher: reports, notepad and tools beside the transcript."""

from collections.abc import Iterator, Mapping
from html import escape

from src.evaluation.judged import Label
from src.records import INTENDED_USE, Interview, Question, ToolUse
from src.reports import Diagnosis, DiagnosticReport

HEADING = "For the researcher only; never for the participant."
SHOWN_AT_MOST = 600
"""Characters of a tool's output; the journal holds all of it."""


def page(
    interview: Interview,
    reports: Mapping[str, Diagnosis],
    *,
    title: str,
    references: tuple[Label, ...] | None,
) -> str:
    """Return the page in Markdown, each text escaped; `reports` by analyst."""
    lines = [f"# {HEADING}", "", f"**{_text(title)}**", "", f"> {INTENDED_USE}", ""]
    lines.append(f"Ended: {interview.stop}, {len(interview.turns)} exchanges.")
    if event := interview.event:
        found = f"{event.source}, {event.kind}: {_text(event.reason)}"
        lines.append(f"Stopped for safety ({found}); open for review by a person.")
    if references is not None:
        named = "; ".join(f"{r.code} {_text(r.name)}" for r in references) or "no disorder"
        lines.append(f"Reference of the case: {named}.")
    for analyst, diagnosis in reports.items():
        lines += ["", f"## Report: {analyst}", "", *_report(diagnosis)]
    lines += ["", "## Transcript", *_transcript(interview)]
    return "\n".join([*lines, ""])


def _transcript(interview: Interview) -> Iterator[str]:
    """Yield the greeting, then the exchanges: each an answer, and what the interviewer made of it.

    These are the exchanges that tools are counted by.
    """
    questions = [turn.question for turn in interview.turns]
    later = [*questions[1:], interview.closing]
    yield from ("", "### Greeting", "", *_asked(questions[0], None))
    for turn, question in zip(interview.turns, later, strict=True):
        marks = f" [{', '.join(turn.answer.flags)}]" if turn.answer.flags else ""
        yield from ("", f"### Exchange {turn.number}", "")
        yield f"**Patient**{marks}: {_text(turn.answer.text)}"
        if question:
            yield from ("", *_asked(question, turn.question.notes))


def _asked(question: Question, notes: str | None) -> Iterator[str]:
    """Yield what the interviewer did before a message, and the message."""
    for use in question.tools:
        yield from _used(use)
    if question.notes and question.notes != notes:
        yield from ("<details><summary>Notepad after this</summary>", "")
        yield from (f"    {line}" for line in question.notes.splitlines())
        yield from ("", "</details>", "")
    marks = f", {', '.join(question.flags)}" if question.flags else ""
    yield f"**Interviewer** [{question.source}{marks}]: {_text(question.text)}"


def _used(use: ToolUse) -> Iterator[str]:
    yield f"- `{use.name}`{'' if use.ok else ' (failed)'}"
    shown = use.output[:SHOWN_AT_MOST] + ("…" if len(use.output) > SHOWN_AT_MOST else "")
    for what in (use.arguments, shown):
        yield from ("", *(f"      {line}" for line in what.splitlines()))
    yield ""


def _report(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.suppressed:
        yield "None, since the interview was stopped for safety."
        return
    if diagnosis.failure or diagnosis.findings is None:
        why = diagnosis.failure.text if diagnosis.failure else "nothing came of it"
        yield f"None: {_text(why)}"
        return
    report = diagnosis.findings.report
    if isinstance(report, DiagnosticReport):
        yield from _reasoning(report)
    for named in diagnosis.hypotheses:
        unknown = "" if named.known else ", unknown code"
        raw = "" if named.raw == named.base else f", written {_text(named.raw)}"
        title = f"{named.base} {_text(named.title)}"
        yield f"{named.rank}. **{title}**, confidence {named.confidence}{raw}{unknown}"
    if not diagnosis.hypotheses:
        yield "No hypothesis is justified."
    if diagnosis.findings.tools:
        yield ""
    for use in diagnosis.findings.tools:
        yield f"- `{use.name}` {_text(use.arguments)}{'' if use.ok else ' (failed)'}"


def _reasoning(report: DiagnosticReport) -> Iterator[str]:
    """Yield what comes before the hypotheses, in the order in which it was generated."""
    known = report.data_sufficiency
    yield f"Data: {known.level}. {_text(known.reason)}"
    yield from ("", _text(report.problem_representation), "")
    yield "| finding | state | salience | timeframe | source | relevance |"
    yield "|---|---|---|---|---|---|"
    for one in report.evidence:
        cells = (one.finding, one.state, one.salience, one.timeframe, one.source, one.relevance)
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""
    for other in report.alternative_explanations:
        yield f"- {_text(other.explanation)}: {_text(other.assessment)}"
    yield from ("", "| rank | disorder | support | for | against | open | judgement |")
    yield "|---|---|---|---|---|---|---|"
    for candidate in report.ranked_differential:
        lists = (
            "; ".join(x)
            for x in (candidate.supporting, candidate.contradictory, candidate.unresolved)
        )
        head = (str(candidate.rank), f"{candidate.code} {candidate.name}", candidate.support)
        yield f"| {' | '.join(map(_cell, (*head, *lists, candidate.judgement)))} |"
    yield from ("", _text(report.diagnostic_synthesis), "")
    yield from (f"- Uncertain: {_text(one)}" for one in report.key_uncertainties)
    safety = report.safety_assessment
    yield from (f"- Safety: {safety.current}. {_text(safety.narrative)}", "")


def _text(text: str) -> str:
    """Return a text in one line that can open neither a tag nor a heading."""
    return escape(" ".join(text.split()), quote=False)


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")
