"""One subject of a run: what is owed of it, and its answer once nothing is."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from src import config
from src.analysts.median import require_enough
from src.build import Casting, analyst
from src.diagnosing import (
    CaseResult,
    case_page,
    case_result,
    current,
    diagnosed,
    held,
    owed,
    readings,
    shortfall_of,
)
from src.errors import TooFewInterviews
from src.interview.batch import Owed, StopRequest
from src.live import Watch
from src.llm.ledger import Allowance, Prices, ledger_of
from src.llm.servers import ANALYST, Servers
from src.prompts import load_yaml, sha256
from src.records import Call, Interview, Turn
from src.settings import AnalystSettings, ReportSettings, RunSettings
from src.store import SampleState, SubjectFolder, digest_of, subject_folders
from src.summary import SubjectResult, page, result_of, unanswered_page


class SubjectRun:
    """Ties a subject's folder to its casts and to the analyst."""

    def __init__(
        self,
        settings: RunSettings,
        casting: Casting,
        *,
        servers: Servers,
        folder: Path,
        watch: Watch,
        allowance: Allowance,
        stop: StopRequest,
    ) -> None:
        """Take the subject's folder; its name is the subject's."""
        self.subject = folder.name
        self.folder = SubjectFolder(folder)
        self.answer: SubjectResult | CaseResult | None = None
        self.shortfall: str | None = None
        """Why there is no answer, where the interviews were too few."""
        self._settings, self._casting, self._servers = settings, casting, servers
        self._watch, self._allowance, self._stop = watch, allowance, stop
        self._left = 0

    def has_ended(self, sample: int) -> bool:
        """Whether a sample's interview has ended, as planned or not."""
        state = self.folder.load().get(sample)
        return state is not None and state.ended is not None

    async def redo(self, sample: int, reason: str) -> None:
        """Supersede a sample's interview, so that it is owed again."""
        await self.folder.keep_redo(sample, reason)

    def owed(self) -> Iterator[Owed]:
        """Yield the interviews to hold; the journal is read when the first one is asked for."""
        owed, finished = owed_samples(self._settings, self.folder)
        self._watch.begin(self.subject, self._settings.samples, finished)
        for call in self.folder.calls()[0]:
            self._watch.call(self.subject, call)
        self._left = len(owed)
        for n, state in owed.items():
            yield Owed(
                cast=self._casting.cast(
                    self.subject,
                    n,
                    servers=self._servers,
                    book=SampleBook(
                        self.folder, n, self._watch, self._allowance, refuse=lambda: None
                    ),
                ),
                turns=state.turns,
                keep_turn=partial(self._keep_turn, n),
                keep_end=self._keep_end,
            )

    async def analyse(self) -> None:
        """Answer from what the journal holds, and write result and summary."""
        planned = self._settings.samples
        states = self.folder.load()
        ended = [s.ended for n, s in sorted(states.items()) if n <= planned and s.ended]
        valid = [interview for interview in ended if interview.valid]
        about = self._settings.analyst
        if isinstance(about, ReportSettings):
            await self._diagnose(about, ended)
            return
        try:
            require_enough(len(valid), planned, share=about.min_share, least=about.min_interviews)
            consensus = await analyst(about).analyse(valid)
        except TooFewInterviews as error:
            failed = Counter(i.failure.kind for i in ended if i.failure)
            kinds = ", ".join(f"{kind} {n}" for kind, n in failed.most_common())
            self.shortfall = f"{error}{f'; failed: {kinds}' if kinds else ''}"
            if kinds and not owed_samples(self._settings, self.folder)[0]:
                self.shortfall += "; retry_failed=true holds them again"
            if self._settings.only is None:
                self.folder.write_summary(unanswered_page(self.subject, self.shortfall, ended))
            return
        calls, unknown = self.folder.calls()
        self.answer = result_of(
            ended,
            consensus,
            settings=self._settings,
            subject=self.subject,
            truth=self._casting.truth(self.subject),
            ledger=ledger_of(calls, load_yaml(self._settings.price_list, Prices), unknown=unknown),
            manifest=self.folder.manifest(),
        )
        self.folder.write_result(result_name(about), self.answer.model_dump(mode="json"))
        self.folder.write_summary(page(self.answer, self.folder.path))

    async def _diagnose(self, about: ReportSettings, ended: Sequence[Interview]) -> None:
        """Report on each interview, and write result and summary."""
        name = report_name(about, self._settings)
        known = self.folder.read_result(name, CaseResult)
        there = held(ended)
        found, ending = await diagnosed(
            readings(there, about),
            current(there, known.diagnoses if known else ()),
            lambda sample: self._casting.diagnoser(
                self.subject,
                sample,
                servers=self._servers,
                book=SampleBook(
                    self.folder, sample, self._watch, self._allowance, refuse=self._stop.refuse_more
                ),
            ),
        )
        calls, unknown = self.folder.calls()
        file = self._casting.case(self.subject)
        service = self._servers.services.get(ANALYST)
        result = case_result(
            ended,
            found,
            settings=self._settings,
            subject=self.subject,
            case=file.case if file else None,
            safety_present=bool(file.profile.safety.concerns) if file and file.profile else None,
            diagnoser=service.model.settings.name if service else known.diagnoser if known else "",
            ledger=ledger_of(calls, load_yaml(self._settings.price_list, Prices), unknown=unknown),
            manifest=self.folder.manifest(),
        )
        self.folder.write_result(name, result.model_dump(mode="json"))
        self.folder.write_summary(case_page(result))
        if ending is not None:
            raise ending
        self.answer = result
        self.shortfall = shortfall_of(result, [i.failure for i in ended if i.failure])

    async def _keep_turn(self, sample: int, turn: Turn) -> None:
        await self.folder.keep_turn(sample, turn)
        self._watch.turn(self.subject, sample, turn)

    async def _keep_end(self, interview: Interview) -> None:
        await self.folder.keep_end(interview)
        self._watch.end(interview)
        self._left -= 1
        if self._left == 0:
            await self.analyse()


def count_spent(root: Path, allowance: Allowance) -> None:
    """Count towards a run's limits what its subjects took before, whoever asked for them."""
    for folder in subject_folders(root) if allowance.limited else ():
        calls, unknown = folder.calls()
        for call in calls:
            allowance.count(call)
        allowance.count_unknown(unknown)


def result_name(about: AnalystSettings) -> str:
    """Return the name of an analyst's result: other settings are another analyst."""
    chosen = {key: str(value) for key, value in about.model_dump().items()}
    return f"{chosen['kind']}-{digest_of(chosen)[:8]}"


def report_name(about: ReportSettings, settings: RunSettings) -> str:
    """Return the name of a diagnoser's result: another prompt, model or language is another one.

    Which interviews it reads beside the whole ones makes no other.
    """
    plain = about.model_dump(exclude={"prefixes", "include_stopped"})
    chosen = {key: str(value) for key, value in plain.items()} | {
        key: sha256(file.path) for key, file in config.files(about).items()
    }
    chosen["language"] = settings.language.report
    models = [settings.models[name] for name in getattr(about, "models", ())]
    chosen["asked"] = ", ".join(f"{model.name} {model.effort}" for model in models)
    return f"{chosen['kind']}-{digest_of(chosen)[:8]}"


def owes_diagnoses(settings: RunSettings, folder: SubjectFolder) -> bool:
    """Whether an analyst that asks a model has something left to ask about this subject."""
    about = settings.analyst
    if not isinstance(about, ReportSettings):
        return False
    known = folder.read_result(report_name(about, settings), CaseResult)
    ended = [s.ended for n, s in folder.load().items() if n <= settings.samples and s.ended]
    return bool(owed(readings(held(ended), about), known.diagnoses if known else ()))


def owed_samples(
    settings: RunSettings, folder: SubjectFolder
) -> tuple[dict[int, SampleState], list[Interview]]:
    """Return the samples that a command has to go on with, and the interviews it may leave."""
    states = folder.load()
    samples = {n: states.get(n, SampleState()) for n in range(1, settings.samples + 1)}
    attempts, retry = settings.limits.attempts, settings.retry_failed
    owed = {n: s for n, s in samples.items() if s.owed(attempts=attempts, retry_failed=retry)}
    return owed, [s.ended for n, s in samples.items() if n not in owed and s.ended]


class SampleBook:
    """Where one sample's calls are written down."""

    def __init__(
        self,
        folder: SubjectFolder,
        sample: int,
        watch: Watch,
        allowance: Allowance,
        *,
        refuse: Callable[[], None],
    ) -> None:
        """Take what raises where nothing more is to be begun."""
        self._refuse = refuse
        self._folder, self._sample = folder, sample
        self._watch, self._allowance = watch, allowance

    def asked(self, role: str, turn: int) -> None:
        self._refuse()
        self._allowance.refuse_more()
        self._folder.note_asked(self._sample, role, turn)

    async def delivered(self, turn: int, call: Call) -> None:
        self._allowance.count(call)  # before anybody else may send
        await self._folder.keep_call(self._sample, turn, call)
        self._watch.call(self._folder.path.name, call)
