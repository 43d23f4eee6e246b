"""A diagnoser without a model: counts signs, looks entries up, and writes a whole report.

It tries the machinery and shows what a report holds; it diagnoses nobody.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Literal

from src.analysts.candidates import Match, Signs, dated, intact, justified, matches_of
from src.analysts.cues import load_cues
from src.analysts.reported import named
from src.analysts.signs import SignReader
from src.clinical.icd11 import Reference
from src.clinical.safety import SafetyCheck
from src.clinical.text import words
from src.errors import InputError
from src.records import Message, ToolUse
from src.reports import (
    Alternative,
    Candidate,
    DiagnosticReport,
    Evidence,
    Findings,
    Hypothesis,
    SafetyAssessment,
    Sufficiency,
)
from src.settings import RuleDiagnosisSettings

DANGER = "death_wish"
"""The sign whose questions go into danger."""


class RuleAnalyst:
    """Reads the transcript alone, as every diagnoser."""

    def __init__(self, settings: RuleDiagnosisSettings, reference: Reference) -> None:
        """Read the cues; a malformed file, or a code without entry, is an `InputError`."""
        self._cues = cues = load_cues(settings.cues.path)
        if missing := sorted(cues.disorders.keys() - set(reference.codes)):
            raise InputError(f"{settings.cues.path}: disorders.{missing[0]}: has no entry")
        if DANGER not in cues.signs:
            raise InputError(f"{settings.cues.path}: signs: {DANGER} is missing")
        self._reference, self._reader = reference, SignReader(cues)
        self._safety = SafetyCheck(cues.safety)

    async def diagnose(self, said: Sequence[Message]) -> Findings:
        """Report on what was said."""
        signs = self._reader.read(said)
        matches = matches_of(signs, self._cues)
        looked_up = [self._look_up(match.code) for match in matches]
        final = self._final(matches, signs, sufficiency := self._sufficiency(said))
        lines = self._cues.lines
        report = DiagnosticReport(
            data_sufficiency=sufficiency,
            problem_representation=self._problem(signs),
            evidence=tuple(self._evidence(signs, matches)),
            alternative_explanations=tuple(self._alternatives(signs)),
            ranked_differential=tuple(
                self._candidate(rank, match, signs) for rank, match in enumerate(matches, 1)
            ),
            diagnostic_synthesis=(
                f"{lines.synthesis} {final[0].name} ({final[0].code})."
                if final
                else lines.intact
                if intact(signs, self._cues)
                else lines.withheld
            ),
            key_uncertainties=tuple(self._uncertainties(signs, matches)),
            safety_assessment=self._danger(said, signs),
            final_hypotheses=final,
        )
        return Findings(
            report=report, hypotheses=named(final, self._reference), tools=tuple(looked_up)
        )

    def _final(
        self, matches: Sequence[Match], signs: Signs, sufficiency: Sufficiency
    ) -> tuple[Hypothesis, ...]:
        """Return what is named in the end: nothing where little was said or life is intact."""
        if sufficiency.level == "insufficient" or intact(signs, self._cues):
            return ()
        return tuple(
            Hypothesis(
                rank=rank,
                name=self._reference.title(match.code),
                code=match.code,
                confidence=confidence,
            )
            for rank, (match, confidence) in enumerate(justified(matches, signs, self._cues), 1)
        )

    def _look_up(self, code: str) -> ToolUse:
        arguments = json.dumps({"code": code})
        text = self._reference.disorder(code)
        return ToolUse(name="lookup_icd_disorder", arguments=arguments, ok=True, output=text)

    # what the report says -------------------------------------------------------------------

    def _sufficiency(self, said: Sequence[Message]) -> Sufficiency:
        told = sum(len(words(message.text)) for message in said if message.speaker == "patient")
        limits = self._cues.limits
        level: Literal["sufficient", "partial", "insufficient"] = "insufficient"
        if told >= limits.words_partial:
            level = "sufficient" if told >= limits.words_sufficient else "partial"
        return Sufficiency(level=level, reason=self._cues.lines.sufficiency[level])

    def _problem(self, signs: Signs) -> str:
        lines = self._cues.lines
        found = [
            f"{self._finding(name).lower()} ({seen.timeframe or lines.no_timeframe})"
            for name, seen in signs.items()
            if seen.state == "present"
        ]
        return f"{lines.presenting}: {'; '.join(found)}." if found else lines.nothing

    def _evidence(self, signs: Signs, matches: Sequence[Match]) -> Iterator[Evidence]:
        """Yield every sign that came up, and what the candidates need that did not."""
        lines = self._cues.lines
        unheard = dict.fromkeys(n for match in matches for n in match.open if n not in signs)
        for name in (*signs, *unheard):
            seen = signs.get(name)
            yield Evidence(
                finding=self._finding(name),
                state=seen.state if seen else "unassessed",
                source=f"{lines.source} {seen.exchange}: “{seen.quote}”" if seen else lines.unheard,
                timeframe=(seen and seen.timeframe) or lines.no_timeframe,
                salience=self._salience(name, matches),
                relevance=self._relevance(name, matches),
            )

    def _salience(
        self, name: str, matches: Sequence[Match]
    ) -> Literal["decisive", "high", "moderate", "low"]:
        disorders = [self._cues.disorders[match.code] for match in matches]
        if disorders and name in disorders[0].core:
            return "decisive"
        if any(name in disorder.core for disorder in disorders):
            return "high"
        return "moderate" if any(name in disorder.signs for disorder in disorders) else "low"

    def _relevance(self, name: str, matches: Sequence[Match]) -> str:
        lines, disorders = self._cues.lines, self._cues.disorders
        codes = [match.code for match in matches]
        against = [code for code in codes if name in disorders[code].against]
        speaks_for = [c for c in codes if name in disorders[c].signs and c not in against]
        parts = ((lines.speaks_for, speaks_for), (lines.speaks_against, against))
        told = [f"{text} {', '.join(found)}" for text, found in parts if found]
        return "; ".join(told) or lines.context

    def _alternatives(self, signs: Signs) -> Iterator[Alternative]:
        lines = self._cues.lines
        states = {"present": lines.told, "denied": lines.denied, "unclear": lines.unclear}
        for name, explanation in self._cues.alternatives.items():
            seen = signs.get(name)
            told = f"{states[seen.state]}: “{seen.quote}”" if seen else lines.unassessed
            yield Alternative(explanation=explanation, assessment=told)

    def _candidate(self, rank: int, match: Match, signs: Signs) -> Candidate:
        lines = self._cues.lines
        undated = () if dated(match, signs) else (lines.duration,)
        judgement = lines.supporting if match.met else lines.incomplete
        return Candidate(
            rank=rank,
            name=self._reference.title(match.code),
            code=match.code,
            supporting=tuple(map(self._finding, match.supporting)),
            contradictory=tuple(map(self._finding, match.contradictory)),
            unresolved=(*map(self._finding, match.open), *undated),
            support=match.support,
            judgement=lines.outweighed if match.points <= 0 else judgement,
        )

    def _uncertainties(self, signs: Signs, matches: Sequence[Match]) -> Iterator[str]:
        """Yield what is open in the leading candidate, and what else might explain it."""
        for name in matches[0].open if matches else ():
            yield self._finding(name)
        for name, explanation in self._cues.alternatives.items():
            if name not in signs:
                yield f"{explanation}: {self._cues.lines.unassessed}"

    def _danger(self, said: Sequence[Message], signs: Signs) -> SafetyAssessment:
        lines = self._cues.lines.safety
        texts = [message.text for message in said]
        for number, message in enumerate(said):
            if message.speaker != "patient":
                continue
            if danger := self._safety.danger(message.text, previous=texts[:number]):
                told = f"{lines['indicated']} “{danger.sentence}”"
                return SafetyAssessment(current="indicated", narrative=told)
        seen = signs.get(DANGER)
        if seen and seen.state == "present":
            told = f"{lines['indicated']} “{seen.quote}”"
            return SafetyAssessment(current="indicated", narrative=told)
        denied = seen is not None and seen.state == "denied"
        current: Literal["not_indicated", "not_assessed"] = (
            "not_indicated" if denied else "not_assessed"
        )
        return SafetyAssessment(current=current, narrative=lines[current])

    def _finding(self, name: str) -> str:
        return self._cues.signs[name].finding
