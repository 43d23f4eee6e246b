"""Train stand-ins for personas as LoRA adapters.

python -m serving.train_persona persona=[7,8] from=outputs/offline

The finished interviews of an offline person are the data; some are held out whole, and on them each
adapter has to do better than the base and than the other adapters. What is finished is reused.
Whatever is left to do goes on in .venv-serving, which holds torch and peft.
"""

import os
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.table import Table

from serving.base import base_folder
from serving.dialogues import Dialogue, Example, dialogues_of, split, windows
from serving.fetched import refuse_fetched
from serving.lessons import (
    BASE,
    TRAINING,
    Losses,
    Training,
    digest_of_training,
    finished,
    keep_losses,
    measured,
    no_better,
)
from serving.origin import whole_folder
from serving.other_python import go_on, is_here
from serving.training import TrainSettings
from src import command, config
from src.errors import InputError, TacitError
from src.prompts import fill, load_prompt, located, shown
from src.records import INTENDED_USE

CARD = "serving/adapter_card.md"
NEEDS = ("torch", "transformers", "peft")
REPORTED_EVERY = 10
"""Steps between two lines of progress."""


class Lesson:
    """One person's interviews, split, and where the adapter goes."""

    def __init__(self, settings: TrainSettings, base: Path, dialogues: Sequence[Dialogue]) -> None:
        self.subject = dialogues[0].subject
        self.folder = config.folder(settings.out) / self.subject
        self.digest = digest_of_training(settings, base, dialogues)
        self.learnt, self.held = split(dialogues, settings.held_out, seed=settings.seed)


def train(arguments: Sequence[str]) -> None:
    """Train what is not finished, and show each adapter's loss beside the others'."""
    settings = config.read_settings("train", TrainSettings, arguments)
    base = base_folder(settings.base)
    lessons = [Lesson(settings, base, d) for d in _chosen(settings)]
    digests = {lesson.subject: lesson.digest for lesson in lessons}
    owed = [one for one in lessons if finished(one.folder, one.digest) is None]
    out = config.folder(settings.out)
    for lesson in owed:
        refuse_fetched(lesson.folder)
    losses = measured(out, digests)
    if owed or losses is None:
        if not is_here(NEEDS):
            go_on(settings.python, "serving.train_persona", arguments, needs=NEEDS, environment={})
        losses = Classroom(settings, lessons).measure(owed)
        keep_losses(out, losses)
    _show(losses, out)
    if worse := no_better(losses):
        raise TacitError(f"{worse[0]}; give more interviews or training.steps")


class Classroom:
    """The base, loaded once, and all that is trained and measured on it."""

    def __init__(self, settings: TrainSettings, lessons: Sequence[Lesson]) -> None:
        os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")  # read when they are imported
        from serving.tuning import Tuner  # noqa: PLC0415 - torch; --help and refusals need none

        self._settings, self._lessons = settings, lessons
        self._tuner = Tuner(settings.base, settings.training, seed=settings.seed)
        self._print = command.console().print

    def measure(self, owed: Sequence[Lesson]) -> Losses:
        """Train what is owed, load the rest, and return the losses on everybody's replies."""
        known = [
            self._teach(lesson) if lesson in owed else self._take_in(lesson)
            for lesson in self._lessons
        ]
        return Losses(
            digests={lesson.subject: lesson.digest for lesson in self._lessons},
            table={one.subject: self._row(number, one) for number, one in enumerate(known)},
        )

    def _row(self, number: int, known: Training) -> dict[str, float]:
        """Return the losses on one person's held-out replies: base, own, and the next others."""
        after = [*self._lessons[number + 1 :], *self._lessons[:number]]
        held = self._examples(self._lessons[number].held)
        others = (lesson.subject for lesson in after[: self._settings.others])
        return {
            BASE: known.base_loss,
            known.subject: known.own_loss,
            **{name: self._tuner.loss(name, held) for name in others},
        }

    def _take_in(self, lesson: Lesson) -> Training:
        known = finished(lesson.folder, lesson.digest)
        assert known is not None  # what is not finished is owed
        self._print(f"{lesson.subject}: {shown(lesson.folder)} is finished, and reused")
        self._tuner.load(lesson.subject, lesson.folder)
        return known

    def _teach(self, lesson: Lesson) -> Training:
        """Train one adapter and write it whole, with its card, or not at all."""
        learnt, held = self._examples(lesson.learnt), self._examples(lesson.held)
        base_loss = self._tuner.loss(None, held)
        begun = time.monotonic()
        losses: list[float] = []

        def progress(step: int, loss: float) -> None:
            losses.append(loss)
            if step % REPORTED_EVERY == 0:
                recent = losses[-REPORTED_EVERY:]
                mean = sum(recent) / len(recent)
                steps = self._settings.training.steps
                self._print(f"{lesson.subject}: step {step} of {steps}, loss {mean:.3f}")

        self._tuner.train(lesson.subject, learnt, progress)
        training = Training(
            digest=lesson.digest,
            subject=lesson.subject,
            base=self._settings.base.name,
            learnt=tuple(one.sample for one in lesson.learnt),
            held_out=tuple(one.sample for one in lesson.held),
            windows=len(learnt),
            settings=self._settings.training.model_dump(mode="json"),
            losses=tuple(round(loss, 4) for loss in losses),
            base_loss=base_loss,
            own_loss=self._tuner.loss(lesson.subject, held),
            seconds=round(time.monotonic() - begun, 1),
            device=self._tuner.device,
            peft=version("peft"),
        )
        with whole_folder(lesson.folder) as folder:
            self._tuner.save(lesson.subject, folder)
            (folder / "README.md").write_text(card(training, self._settings), encoding="utf-8")
            text = training.model_dump_json(indent=1) + "\n"
            (folder / TRAINING).write_text(text, encoding="utf-8")
        self._print(f"{lesson.subject}: {shown(lesson.folder)}, {training.seconds:g} s")
        return training

    def _examples(self, dialogues: Sequence[Dialogue]) -> list[Example]:
        longest = self._settings.training.max_length
        return [
            window
            for one in dialogues
            for window in windows(
                one, self._tuner.render, stop=self._tuner.stop, max_length=longest
            )
        ]


def card(training: Training, settings: TrainSettings) -> str:
    """Return an adapter's model card."""
    told = {**settings.training.model_dump(), **training.model_dump()}
    keys = ("max_length", "steps", "batch", "rank", "alpha", "learning_rate", "dtype", "device")
    values: Mapping[str, object] = {
        **{key: told[key] for key in (*keys, "subject", "base", "windows", "seconds", "peft")},
        "licence": settings.base.licence,
        "stop": settings.base.stop,
        "run": Path(settings.run).name,
        "seed": settings.seed,
        "intended_use": INTENDED_USE,
        "learnt": len(training.learnt),
        "held": len(training.held_out),
        "base_loss": f"{training.base_loss:.3f}",
        "own_loss": f"{training.own_loss:.3f}",
    }
    return fill(load_prompt(CARD, frozenset(values)), values) + "\n"


def _chosen(settings: TrainSettings) -> list[tuple[Dialogue, ...]]:
    """Return the interviews of the wanted persons, in the order given."""
    found = dialogues_of(located(settings.run))
    if settings.persona == "all":
        return list(found.values())
    names = [f"persona-{number:02d}" for number in settings.persona]
    if missing := [name for name in names if not found.get(name)]:
        raise InputError(
            f"{settings.run}: holds no finished interview with {missing[0]}; there are "
            f"{', '.join(name for name, interviews in found.items() if interviews)}"
        )
    return [found[name] for name in names]


def _show(losses: Losses, out: Path) -> None:
    table = Table(title="Loss per token on held-out replies", title_justify="left")
    table.add_column("person")
    for heading in ("base alone", "own adapter", "other adapters"):
        table.add_column(heading, justify="right")
    for subject, row in losses.table.items():
        others = [f"{loss:.3f}" for name, loss in row.items() if name not in {BASE, subject}]
        table.add_row(subject, f"{row[BASE]:.3f}", f"{row[subject]:.3f}", " ".join(others) or "–")
    console = command.console()
    console.print(table)
    console.print(f"Adapters: {shown(out)}/<person>, each with its card. Invented persons all.")


if __name__ == "__main__":
    command.main(__doc__, "train", train)
