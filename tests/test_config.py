"""The configuration: everything composes, and whatever is wrong ends in one line."""

import re
import shlex
from itertools import chain
from pathlib import Path

import pytest
from terminal import ROOT, tacit

from src import build, config, run
from src.errors import InputError
from src.settings import AnalystSettings, RunSettings, ScoreSettings

OPTIONS = [
    f"{group}={option}" for group, options in config.options("config").items() for option in options
]
OFFLINE = ("experiment=offline",)
BAD_PERSONAS = [
    "0", "21", "07", "07x", "on", "true", "7.0", "1_0", "1e3", "-1", "[]", "[1,1]", "null",
    "[1,21]", "[1,2_0]", "", "seven", "[all]",
]  # fmt: skip
BAD = [
    *(f"persona={value}" for value in BAD_PERSONAS),
    "samples=0", "samples=1_0", "samples=1e1", "samples=2.0", "samples=many", "samples=true",
    "nonsense=1", "+nonsense=1", "~scorer", "orchestrator.nonsense=1", "scorer=nonsense",
    "experiment=nonsense experiment=nonsense", "orchestrator.confidence_threshold=1.5",
    "orchestrator.coverage_share=-0.1", "orchestrator.max_messages=1", "tree.turns_max=-1",
    "tree.bm25=best", "analyst.imputation=some", "analyst=mean", "seed=-1", "seed=null",
    "run=../elsewhere", "run=a/b", "run=", "redo=[7/3]", "reason=why", "redo=[7] reason=x",
    "interviews=0", "limits.deadline=0", "only=everything", "bands=other",
    "models.gemma.base_url=http://127.0.0.1:99999/v1", "models.gemma.base_url=nowhere",
    "models.gemma.base_url=http://user:secret@127.0.0.1/v1", "only=analysis", "tree.path=",
    "tree.path=no/such/tree.yaml", "tree.path=README.md", "seed=${nope}", "-m", "--multirun",
    "--verbose", "persona", "no/such/file", "from=no/such/run", "samples=[1", "README.md",
    "analyst.donor_weights=[0,0,0]", "orchestrator.first_focus=[3]",
]  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_every_group_composes_and_validates(option: str) -> None:
    group, _, name = option.partition("=")
    if group == "models":  # what is described beside it plays no part
        option = f"models=[{name}]"
    of_cases = group == "cohort" or name in {"agent", "agent_offline", "direct", "none"}
    experiment = "psycidra_offline" if of_cases and group != "analyst" else "offline"
    config.read_settings("config", RunSettings, [f"experiment={experiment}", option, "frozen=run"])


@pytest.mark.parametrize("experiment", config.options("config")["experiment"])
def test_every_experiment_builds_its_players(experiment: str) -> None:
    settings = config.read_settings("config", RunSettings, [f"experiment={experiment}"])
    build.Casting(settings)
    if isinstance(settings.analyst, AnalystSettings):
        build.analyst(settings.analyst)


@pytest.mark.parametrize("scorer", [s for s in config.options("config")["scorer"] if s != "none"])
def test_every_scorer_scores_recorded_conversations(scorer: str) -> None:
    config.read_settings("score", ScoreSettings, [f"scorer={scorer}"])


def test_the_defaults_are_the_hybrid_experiment() -> None:
    plain = config.read_settings("config", RunSettings, [])
    assert plain == config.read_settings("config", RunSettings, ["experiment=hybrid"])


def test_one_persona_several_and_all() -> None:
    def personas(text: str) -> tuple[int, ...]:
        return config.read_settings("config", RunSettings, [f"persona={text}"]).personas

    assert personas("7") == (7,)
    assert personas("[1,2,7]") == personas("[1, 2, 7]") == (1, 2, 7)
    assert personas("all") == tuple(range(1, 21))


def test_a_choice_on_the_command_line_beats_the_experiment() -> None:
    chosen = ["experiment=offline", "samples=10", "analyst=median", "analyst.selected=1"]
    settings = config.read_settings("config", RunSettings, chosen)
    assert isinstance(settings.analyst, AnalystSettings)
    assert (settings.samples, settings.analyst.kind, settings.analyst.selected) == (10, "median", 1)


@pytest.mark.parametrize("overrides", BAD)
def test_bad_input_ends_with_one_line_exit_2_and_nothing_written(
    overrides: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError) as refused:
        run.run([*OFFLINE, *overrides.split(" "), f"outputs={tmp_path / 'outputs'}"])
    assert refused.value.exit_code == 2
    assert len(str(refused.value).splitlines()) == 1
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("override", ["persona=07", "nonsense=1", "tree.path=README.md", "-m"])
def test_a_process_ends_with_that_line_and_exit_2(override: str, tmp_path: Path) -> None:
    ended = tacit("src.run", *OFFLINE, override, f"outputs={tmp_path / 'outputs'}")
    assert ended.returncode == 2
    assert ended.stderr.startswith("tacit: ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("persona=07", "persona=07: a number from 1 to 20, a list of different ones"),
        ("-m", "persona=[1,2,7]"),
        ("scorer=nonsense", "choose from gemma, gpt"),
        ("orchestrator.max_mesages=3", "orchestrator.max_mesages: no such key"),
        ("orchestrator.confidence_threshold=1.5", "less than or equal to 1, not 1.5"),
        ("tree.path=README.md", "README.md"),
        ("analyst.donor_weights=[0.5,0.5,0]", "donor_weights[2]: input should be greater than 0"),
        ("orchestrator.first_focus=[1,9]", "orchestrator.first_focus: item 9 is never asked about"),
        ("README.md", "src.score"),
    ],
)
def test_the_line_says_what_is_wrong_and_the_way_on(override: str, hint: str) -> None:
    with pytest.raises(InputError, match=re.escape(hint)):
        run.run([*OFFLINE, override])


@pytest.mark.parametrize(
    "reason", ["tired, then interrupted", "heard,asked", "What's this", 'said "no"', "a=b, (c)"]
)
def test_a_reason_that_needs_quotes_is_answered_with_the_form_to_type(reason: str) -> None:
    with pytest.raises(InputError) as refused:
        config.read_settings("config", RunSettings, ["redo=[7/3]", f"reason={reason}"])
    typed = str(refused.value).partition("; type ")[2]
    assert typed
    shell = tacit("src.run", "--cfg", *shlex.split(typed), "redo=[7/3]")
    assert shell.returncode == 0, shell.stderr


def test_cfg_prints_what_a_command_would_use() -> None:
    shown = tacit("src.run", "--cfg", "persona=[1,2]", "samples=3")
    assert shown.returncode == 0
    assert "samples: 3" in shown.stdout
    assert "max_messages: 18" in shown.stdout


@pytest.mark.parametrize("arguments", [["--cfg", "samples=3"], ["samples=3", "--cfg", "job"]])
def test_cfg_may_stand_anywhere(arguments: list[str]) -> None:
    assert "samples: 3" in tacit("src.run", *arguments).stdout


def test_every_single_choice_can_be_made_on_the_command_line() -> None:
    for root, model in (("config", RunSettings), ("score", ScoreSettings)):
        plain = config.compose_plain(root, [])
        single = {k: v for k, v in plain.items() if isinstance(v, str | int) and k != "persona"}
        chosen = [f"{key}={str(value).lower()}" for key, value in single.items()]
        if root == "config":
            chosen.append("price_list=conf/prices/2026-11-30.yaml")
        assert config.validated(config.compose_plain(root, chosen), model)


def test_a_tree_whose_line_the_guard_refuses_is_refused_with_its_node(tmp_path: Path) -> None:
    text = (ROOT / "tests" / "examples" / "tree.yaml").read_text(encoding="utf-8")
    mine = tmp_path / "tree.yaml"
    mine.write_text(text.replace("How have your nights been of late?", "Are you depressed?"))
    with pytest.raises(InputError, match="nights: the guard refuses this line"):
        run.run(["experiment=hybrid", f"tree.path={mine}", f"outputs={tmp_path / 'outputs'}"])


def test_help_names_every_key_and_option() -> None:
    shown = tacit("src.run", "--help").stdout
    for word in chain(config.compose_plain("config", []), ["median", "exit codes", "resumes"]):
        assert word in shown, word


def test_paths_mean_the_same_from_any_folder(tmp_path: Path) -> None:
    here = tacit("src.run", "--cfg", cwd=ROOT)
    there = tacit("src.run", "--cfg", cwd=tmp_path)
    assert here.stdout == there.stdout
    assert config.folder("outputs") == ROOT / "outputs"


def test_a_missing_placeholder_in_a_prompt_is_one_line(tmp_path: Path) -> None:
    text = (ROOT / "prompts" / "guidance.yaml").read_text(encoding="utf-8")
    mine = tmp_path / "guidance.yaml"
    mine.write_text(text.replace("${left}", "few"), encoding="utf-8")
    with pytest.raises(InputError, match=r"low_budget: the placeholder \$\{left\} is missing"):
        run.run([*OFFLINE, f"orchestrator.texts={mine}", f"outputs={tmp_path / 'outputs'}"])
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("key", "source", "change", "place"),
    [
        ("tree.path", "trees/screening.yaml", ("targets: [1", "targets: [9"), "openers[0]"),
        (
            "patient.persons",
            "conf/personas/offline.yaml",
            ("truth: [", "truth: [4, "),
            "persons[0]",
        ),
        ("scorer.cues", "conf/lexicon/cues.yaml", ("items:", "item:"), "item"),
    ],
)
def test_a_malformed_file_is_named_with_its_place(
    key: str, source: str, change: tuple[str, str], place: str, tmp_path: Path
) -> None:
    text = (ROOT / source).read_text(encoding="utf-8")
    assert change[0] in text
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{mine}: {place}")) as refused:
        run.run([*OFFLINE, f"{key}={mine}", f"outputs={tmp_path / 'outputs'}"])
    assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "outputs").exists()
