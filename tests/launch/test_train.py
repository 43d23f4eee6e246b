"""A stand-in learns from an offline person's finished interviews, and from their replies alone."""

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from personas_on_disk import adapter
from terminal import ROOT, tacit

from serving.base import base_folder
from serving.dialogues import (
    UNLABELLED,
    Dialogue,
    Example,
    Messages,
    batches,
    dialogues_of,
    labelled,
    padded,
    split,
    windows,
)
from serving.fetched import Fetched, refuse_fetched
from serving.lessons import (
    BASE,
    Losses,
    Training,
    digest_of_training,
    finished,
    keep_losses,
    measured,
    no_better,
)
from serving.train_persona import card, train
from serving.training import TrainSettings, save_memory
from src import config
from src.errors import InputError
from src.records import Answer, Question, Turn

OPENS, STOPS, PAD = 1, 2, 0
"""Tokens of the double's template; every other character is a token of its own."""
WORDS = st.text(alphabet="abc ", min_size=1, max_size=8)


def template(chat: Messages) -> list[int]:
    """Render as chat templates do: who speaks, what, a stop, a line's end."""
    tokens: list[int] = []
    for message in chat:
        tokens += [OPENS, *map(ord, message["role"] + "\n" + message["content"]), STOPS, ord("\n")]
    if chat[-1]["role"] == "user":
        tokens += [OPENS, *map(ord, "assistant\n")]
    return tokens


def forgetful(chat: Messages) -> list[int]:
    """Render the last exchange alone, as templates do that strip what was thought before."""
    return template(chat[-2:])


def endless(chat: Messages) -> list[int]:
    return [token for token in template(chat) if token != STOPS]


def turn(number: int, question: str, answer: str) -> Turn:
    asked = Question(text=question, source="fixed")
    return Turn(number=number, question=asked, answer=Answer(text=answer))


def dialogue(sample: int, *lines: tuple[str, str]) -> Dialogue:
    turns = tuple(turn(n, *line) for n, line in enumerate(lines, 1))
    return Dialogue(subject="persona-07", sample=sample, turns=turns)


def read(tokens: list[int]) -> str:
    return "".join(chr(token) if token > STOPS else "<|>"[token] for token in tokens)


def learnt(example: Example) -> list[int]:
    return [label for label in example.labels if label != UNLABELLED]


def composed(*overrides: str) -> TrainSettings:
    return config.read_settings("train", TrainSettings, list(overrides))


# labels -------------------------------------------------------------------------------------


def test_only_the_replies_are_learnt_each_with_its_stop() -> None:
    example = labelled(dialogue(1, ("How?", "Well."), ("So?", "Yes.")).turns, template, stop=STOPS)
    assert read(learnt(example)) == "Well.>Yes.>"


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_whatever_is_said_the_labels_are_the_replies(lines: list[tuple[str, str]]) -> None:
    example = labelled(dialogue(1, *lines).turns, template, stop=STOPS)
    assert read(learnt(example)) == "".join(reply + ">" for _, reply in lines)
    assert all(
        label in {token, UNLABELLED}
        for token, label in zip(example.tokens, example.labels, strict=True)
    )


def test_a_template_that_rewrites_the_history_is_refused() -> None:
    with pytest.raises(InputError, match="rewrites what was said before"):
        labelled(dialogue(1, ("a", "b"), ("c", "d")).turns, forgetful, stop=STOPS)


def test_a_template_without_the_stop_is_refused() -> None:
    with pytest.raises(InputError, match=r"base\.stop"):
        labelled(dialogue(1, ("a", "b")).turns, endless, stop=STOPS)


# windows ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8), st.integers(60, 200))
def test_windows_hold_every_reply_once_and_none_is_too_long(
    lines: list[tuple[str, str]], max_length: int
) -> None:
    found = list(windows(dialogue(1, *lines), template, stop=STOPS, max_length=max_length))
    said = "".join(read(learnt(window)) for window in found)
    assert said == "".join(reply + ">" for _, reply in lines)
    assert max(len(window.tokens) for window in found) <= max_length


def test_a_turn_longer_than_a_window_is_refused_by_its_place() -> None:
    long = dialogue(3, ("a", "b"), ("c", "d" * 100))
    with pytest.raises(InputError, match="persona-07, sample 3, turn 2: longer than"):
        list(windows(long, template, stop=STOPS, max_length=60))


def test_what_fills_up_a_batch_is_neither_read_nor_learnt() -> None:
    batch = padded([Example([5, 6, 7], [UNLABELLED, 6, 7]), Example([8], [8])], PAD)
    assert batch.tokens == [[5, 6, 7], [8, PAD, PAD]]
    assert batch.labels == [[UNLABELLED, 6, 7], [8, UNLABELLED, UNLABELLED]]
    assert batch.read == [[1, 1, 1], [1, 0, 0]]


def test_every_window_is_learnt_before_one_is_learnt_again() -> None:
    examples = [Example([n], [n]) for n in range(7)]
    drawn = [one.tokens[0] for batch in islice(batches(examples, 3, seed=1), 7) for one in batch]
    for round_begins in (0, 7, 14):
        assert sorted(drawn[round_begins : round_begins + 7]) == list(range(7))
    again = [one.tokens[0] for batch in islice(batches(examples, 3, seed=1), 7) for one in batch]
    assert drawn == again


# split --------------------------------------------------------------------------------------


@given(st.integers(2, 30), st.floats(0.01, 0.99), st.integers(0, 2**31 - 1))
def test_the_split_parts_whole_interviews_the_same_way_for_the_same_seed(
    samples: int, share: float, seed: int
) -> None:
    held = [dialogue(n, ("q", f"a{n}")) for n in range(1, samples + 1)]
    to_learn, to_measure = split(held, share, seed=seed)
    assert to_learn
    assert to_measure
    assert sorted(one.sample for one in to_learn + to_measure) == list(range(1, samples + 1))
    assert split(held[::-1], share, seed=seed) == (to_learn, to_measure)


def test_one_interview_cannot_be_split() -> None:
    with pytest.raises(InputError, match="two different finished interviews"):
        split([dialogue(1, ("q", "a"))], 0.2, seed=1)


# reading a run ------------------------------------------------------------------------------


def journal(folder: Path, *, kind: str = "offline", samples: int = 3) -> Path:
    """Write a run folder of one subject, as a run leaves it behind; samples 1 and 2 are alike."""
    subject = folder / "persona-07"
    subject.mkdir(parents=True)
    manifest = {
        "run": "r", "subject": "persona-07", "digest": "0" * 16, "identity": {}, "files": {},
        "config": {"patient": {"kind": kind}}, "version": "0", "commit": None, "dirty": None,
        "python": "3", "created": "2026-11-30T00:00:00Z",
    }  # fmt: skip
    (subject / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    lines: list[dict[str, object]] = []
    for sample in range(1, samples + 1):
        one = turn(1, "How?", f"Like {max(sample, 2)}.").model_dump(mode="json")
        lines.append({"tag": "turn", "sample": sample, "turn": one})
        rated = [{"score": 0, "confidence": 0.0}] * 21
        ending = {"subject": "persona-07", "sample": sample, "seed": 1, "stop": "max_messages"}
        if sample < samples:
            lines.append(
                {
                    "tag": "end",
                    "sample": sample,
                    "interview": ending | {"final": {"symptoms": rated}},
                }
            )
        else:  # the last one failed
            failed = {"kind": "patient_failed", "text": "t"}
            lines.append(
                {
                    "tag": "end",
                    "sample": sample,
                    "interview": ending | {"stop": None, "failure": failed},
                }
            )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (subject / "journal.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_only_finished_interviews_count_and_the_same_one_once(tmp_path: Path) -> None:
    found = dialogues_of(journal(tmp_path / "run", samples=4))
    assert [one.sample for one in found["persona-07"]] == [1, 3]


def test_nobody_but_an_offline_person_is_stood_in_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the interviews of an offline person"):
        dialogues_of(journal(tmp_path / "run", kind="lora"))


def test_a_folder_without_a_run_says_how_to_hold_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="experiment=offline"):
        dialogues_of(tmp_path)


# settings and what is finished --------------------------------------------------------------


@pytest.mark.parametrize("base", ["smollm2", "llama3"])
def test_every_base_composes_and_never_pads_with_its_stop(base: str) -> None:
    settings = composed(f"base={base}")
    assert settings.base.pad != settings.base.stop
    assert settings.training.rank == 8


@pytest.mark.parametrize("value", ["0", "21", "[7,7]", "[]"])
def test_a_persona_beyond_the_twenty_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="persona"):
        composed(f"persona={value}")


def test_a_base_that_is_not_here_is_refused_with_the_way_on(tmp_path: Path) -> None:
    settings = composed(f"base.path={tmp_path}")
    with pytest.raises(InputError, match=r"python -m serving\.convert"):
        base_folder(settings.base)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return folder


CHANGES = ("training.steps=3", "seed=1", "held_out=0.5", "base.stop=x")


@pytest.mark.parametrize("change", CHANGES)
def test_another_setting_makes_another_adapter(base: Path, change: str) -> None:
    data = [dialogue(1, ("q", "a"))]
    first = digest_of_training(composed(), base, data)
    assert digest_of_training(composed(), base, data) == first
    assert digest_of_training(composed(change), base, data) != first


def test_what_only_saves_memory_makes_no_other_adapter(base: Path) -> None:
    data = [dialogue(1, ("q", "a"))]
    saving = composed("training.checkpointing=true")
    assert digest_of_training(saving, base, data) == digest_of_training(composed(), base, data)


@pytest.mark.parametrize(("base", "called"), [("smollm2", []), ("llama3", ["layers", "inputs"])])
def test_the_large_base_keeps_little_for_its_gradients(base: str, called: list[str]) -> None:
    class Model:
        def __init__(self) -> None:
            self.told: list[str] = []

        def gradient_checkpointing_enable(self) -> None:
            self.told.append("layers")

        def enable_input_require_grads(self) -> None:
            self.told.append("inputs")

    model = Model()
    save_memory(model, composed(f"base={base}").training)
    assert model.told == called


def test_other_data_or_another_base_makes_another_adapter(base: Path) -> None:
    first = digest_of_training(composed(), base, [dialogue(1, ("q", "a"))])
    assert digest_of_training(composed(), base, [dialogue(1, ("q", "b"))]) != first
    (base / "model.safetensors").write_bytes(b"0")
    assert digest_of_training(composed(), base, [dialogue(1, ("q", "a"))]) != first


def trained(digest: str = "0" * 16) -> Training:
    return Training(
        digest=digest,
        subject="persona-07",
        base="some/base",
        learnt=(1, 2),
        held_out=(3,),
        windows=4,
        settings={},
        losses=(1.0,),
        base_loss=4.25,
        own_loss=2.5,
        seconds=1.0,
        device="cpu",
        peft="0",
    )


def test_an_adapter_is_reused_only_where_it_is_of_the_same_digest(tmp_path: Path) -> None:
    assert finished(tmp_path, "0" * 16) is None
    (tmp_path / "training.json").write_text(trained().model_dump_json(), encoding="utf-8")
    assert finished(tmp_path, "0" * 16) == trained()
    assert finished(tmp_path, "1" * 16) is None


def test_an_adapter_that_was_fetched_is_not_replaced(tmp_path: Path) -> None:
    refuse_fetched(tmp_path / "persona-07")
    folder = adapter(tmp_path, "persona-07")
    refuse_fetched(folder)
    for content in ("{}", fetched().model_dump_json()):  # whole or not, it is none of ours
        (folder / "origin.json").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=r"persona-07: was fetched.* adapters=FOLDER"):
            refuse_fetched(folder)


def test_training_into_fetched_adapters_is_refused_before_anything_is_loaded(
    base: Path, tmp_path: Path
) -> None:
    journal(tmp_path / "run", samples=4)
    (subject,) = dialogues_of(tmp_path / "run")
    folder = adapter(tmp_path / "adapters", subject)
    (folder / "origin.json").write_text(fetched().model_dump_json(), encoding="utf-8")
    told = [f"from={tmp_path / 'run'}", f"out={folder.parent}", f"base.path={base}", "persona=all"]
    with pytest.raises(InputError, match=f"{subject}: was fetched"):
        train(told)
    assert (folder / "adapter_model.safetensors").read_text(encoding="utf-8") == "weights"


def test_what_needs_torch_goes_on_in_the_serving_environment_with_the_same_arguments(
    base: Path, tmp_path: Path
) -> None:
    journal(tmp_path / "run", samples=4)
    program = tmp_path / "python"
    there = f'[ "$1" = -c ] && exit {{code}}; cd "{tmp_path}" && printf "%s\\n" "$@" >told\n'
    told = [
        f"from={tmp_path / 'run'}", f"out={tmp_path}", f"base.path={base}", "persona=7",
        f"python={program}",
    ]  # fmt: skip
    for code in (1, 0):
        program.write_text("#!/bin/sh\n" + there.format(code=code), encoding="utf-8")
        program.chmod(0o755)
        done = tacit("serving.train_persona", *told)
        if code:
            assert done.returncode == 3
            assert "install the serving environment first" in done.stderr
            assert done.stderr.count("\n") == 1
    assert (done.returncode, done.stderr) == (0, "")
    given = (tmp_path / "told").read_text(encoding="utf-8").splitlines()
    assert given == ["-m", "serving.train_persona", *told]


def fetched() -> Fetched:
    return Fetched(adapter="org/adapter", revision="a" * 40, licence=None, files={})


def test_losses_are_those_of_exactly_these_adapters(tmp_path: Path) -> None:
    losses = Losses(
        digests={"persona-07": "a"}, table={"persona-07": {BASE: 4.0, "persona-07": 3.0}}
    )
    assert measured(tmp_path, {"persona-07": "a"}) is None
    keep_losses(tmp_path, losses)
    assert measured(tmp_path, {"persona-07": "a"}) == losses
    assert measured(tmp_path, {"persona-07": "b"}) is None


@pytest.mark.parametrize(
    ("row", "worse"),
    [
        ({BASE: 4.0, "persona-07": 3.0, "persona-08": 3.5}, 0),
        ({BASE: 3.0, "persona-07": 3.0, "persona-08": 3.5}, 1),
        ({BASE: 4.0, "persona-07": 3.5, "persona-08": 3.5}, 1),
        ({BASE: float("nan"), "persona-07": float("nan"), "persona-08": 1.0}, 2),
    ],
)
def test_an_adapter_has_to_be_better_than_the_base_and_than_each_other(
    row: dict[str, float], worse: int
) -> None:
    assert len(no_better(Losses(digests={}, table={"persona-07": row}))) == worse


def test_a_card_says_that_nobody_is_real_and_what_was_measured() -> None:
    text = card(trained(), composed("from=outputs/stand_in"))
    for said in ("invented person", "Not a diagnostic device", "apache-2.0", "4.250", "2.500"):
        assert said in text
    assert "`stand_in`" in text
    assert str(ROOT) not in text
