"""The README keeps its word: its map, its commands, its examples, its keys, its links."""

import json
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest
from doubles import NoBook
from examples.four_known import FourKnown
from examples.keyword import KeywordScorer, KeywordSettings
from terminal import ROOT, tacit

from src import build, command, config, errors
from src.interview.loop import hold
from src.interview.roles import Cast
from src.interviewers.tree import DialogueTree
from src.llm.servers import Servers
from src.prompts import load_yaml
from src.records import INTENDED_USE, StopReason, Turn
from src.settings import RunSettings

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "tests" / "examples"
NEEDED = ("src", "serving", "conf", "prompts", "trees", "tests/examples")
"""What a checkout needs for the commands."""


class Block(NamedTuple):
    kind: str
    text: str


def blocks() -> list[Block]:
    """Return the README's fenced blocks in order."""
    return [
        Block(*found) for found in re.findall(r"^```(.*)\n((?s:.*?))^```$", README, re.MULTILINE)
    ]


def commands() -> list[str]:
    """Return every line that a reader may type, except where a cluster is needed."""
    return [
        line.removeprefix("$ ")
        for block in blocks()
        if block.kind == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]


def section(heading: str) -> str:
    """Return a section's text, those below it included."""
    level = heading.partition(" ")[0]
    after = README.split(f"\n{heading}\n")[1]
    return re.split(rf"^#{{1,{len(level)}}} ", after, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables in a text, without their heads."""
    for line in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")]
        if not set(cells[0]) <= set("-"):
            yield cells


# the map ------------------------------------------------------------------------------------


def mapped() -> list[str]:
    """Return every path of the map."""
    (text,) = [block.text for block in blocks() if "\nsrc/run.py " in block.text]
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return [path for line in lines for path in line.split("   ")[0].split()]


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True
    )
    return [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]


def test_every_file_of_src_has_a_line_of_its_own_in_the_map() -> None:
    lines = [path for path in mapped() if path.startswith("src/")]
    found = {path: [line for line in lines if fnmatch(path, line)] for path in tracked()}
    assert {
        path: of for path, of in found.items() if path.startswith("src/") and len(of) != 1
    } == {}


def test_every_other_file_falls_under_a_line_of_the_map() -> None:
    folders = tuple(path for path in mapped() if path.endswith("/"))
    others = [path for path in tracked() if not path.startswith("src/")]
    assert [path for path in others if path not in mapped() and not path.startswith(folders)] == []


def test_nothing_in_the_map_is_absent_or_stands_twice() -> None:
    assert [path for path in mapped() if not list(ROOT.glob(path))] == []
    assert len(mapped()) == len(set(mapped()))


# the commands -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout in which commands may write."""
    return copy_to(tmp_path_factory.mktemp("readme"))


def copy_to(folder: Path) -> Path:
    for name in NEEDED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-cpu.lock"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def typed(checkout: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Return how each command ended, all typed in order in one checkout."""
    return {line: ended(line, checkout) for line in commands()}


def ended(line: str, checkout: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line, comments=True)
    match words:
        case ["python", "-m", module, *arguments]:
            return tacit(module, *arguments, cwd=checkout)
        case ["make", *_]:  # dry: it would fetch packages, and hold these very tests
            return subprocess.run(
                [*words, "--dry-run", "--no-print-directory"],
                cwd=checkout,
                capture_output=True,
                text=True,
                check=False,
            )
        case ["source", script]:  # made by make, from the folder that its Makefile names
            made = f"VENV   := {Path(script).parts[0]}\n" in (checkout / "Makefile").read_text()
            return subprocess.CompletedProcess(words, 0 if made else 1, "", "")
        case _:
            raise AssertionError(f"nothing here runs this: {line}")


@pytest.mark.parametrize("line", commands())
def test_a_command_ends_as_the_readme_says(
    line: str, typed: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    promised = re.search(r"# exit (\d+)\b", line)
    assert typed[line].returncode == (int(promised[1]) if promised else 0), typed[line].stderr


def test_no_command_stands_outside_a_block_that_is_run() -> None:
    text = re.sub(r"^```(?s:.*?)^```$", "", README, flags=re.MULTILINE)
    loose = re.findall(r"`((?:\$ |pip |git |bash |\./)[^`]*)`", text)
    assert loose == []
    targets = set(re.findall(r"`make (\w+)`", text))
    defined = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets <= set(defined)
    assert {block.kind for block in blocks()} <= {
        "console", "console cluster", "text", "json", "python", "yaml",
    }  # fmt: skip


def test_make_run_is_the_command_that_the_readme_explains(
    typed: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    assert (
        typed["make run"]
        .stdout.splitlines()[-1]
        .endswith("-m src.run experiment=offline persona=7")
    )
    last = typed["make test"].stdout.splitlines()[-1]
    assert "-m pytest -n auto --dist loadfile" in last


def test_the_answer_that_the_readme_shows_has_the_lines_that_are_printed(
    typed: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    (main_job,) = [
        ended for line, ended in typed.items() if "experiment=offline persona=7 " in line
    ]
    (shown,) = [block.text for block in blocks() if block.text.startswith(INTENDED_USE)]
    printed = [line for line in main_job.stdout.splitlines() if line.strip()]
    assert shown.splitlines() == printed[:-1]  # the last one says where the files are


# what every run says of itself --------------------------------------------------------------


def test_manifest_result_summary_and_terminal_say_what_a_run_is_for(tmp_path: Path) -> None:
    run = tacit("src.run", "experiment=offline", "samples=3", f"outputs={tmp_path}")
    folder = tmp_path / "offline" / "persona-07"
    (result,) = (folder / "results").iterdir()
    scores = tmp_path / "scores.json"
    scored = tacit("src.score", str(folder.parent), f"out={scores}")
    for document in (folder / "manifest.json", result, scores):
        assert json.loads(document.read_text())["intended_use"] == INTENDED_USE, document
    journal = (folder / "journal.jsonl").read_text()
    for text in (run.stdout, scored.stdout, (folder / "summary.md").read_text(), journal):
        assert INTENDED_USE in text
    arguments = ("experiment=offline", "samples=9", "only=analysis", f"outputs={tmp_path}")
    unanswered = tacit("src.run", *arguments)
    assert unanswered.returncode == 1
    assert INTENDED_USE in (folder / "summary.md").read_text()


@pytest.mark.parametrize("module", ["src.run", "src.score"])
def test_help_says_what_a_command_is_for(module: str) -> None:
    assert INTENDED_USE in tacit(module, "--help").stdout


# keys, codes, links -------------------------------------------------------------------------


def kinds_of(error: type[errors.TacitError]) -> Iterator[type[errors.TacitError]]:
    yield error
    for kind in error.__subclasses__():
        yield from kinds_of(kind)


def test_the_exit_codes_are_those_that_errors_end_in() -> None:
    codes = {kind.exit_code for kind in kinds_of(errors.TacitError)}
    codes |= {errors.Stopped(n).exit_code for n in (signal.SIGINT, signal.SIGTERM)} | {0}
    tables = [row for row in rows(section("## How to use it")) if re.match(r"\d", row[0])]
    documented = {int(code) for row in tables for code in row[0].split(",")}
    assert documented == codes
    helped = command.EXITS.partition("\n")[2]
    assert {int(code) for code in re.findall(r"\b\d+\b", helped)} <= codes


def test_all_23_decisions_stand_there_and_their_keys_exist() -> None:
    decided = [row for row in rows(section("## Decisions")) if row[0].isdecimal()]
    assert [int(row[0]) for row in decided] == list(range(1, 24))
    submit = config.compose_plain("submit", ["runs=[x]", "out=y"])
    composed = config.compose_plain("config", []) | {"split_batches": submit["split_batches"]}
    for row in decided:
        for key in re.findall(r"`([^`]+)`", row[3]):
            value: object = composed
            for part in key.split("."):
                assert isinstance(value, dict), key
                assert part in value, key
                value = value[part]


def test_every_link_leads_to_a_file_that_is_there() -> None:
    for page in ("README.md", "CHANGELOG.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        targets = [t for t in re.findall(r"\]\(([^)]+)\)", text) if not t.startswith("https://")]
        headings = re.findall(r"(?m)^#+ (.+)$", text)
        places = {"#" + heading.lower().replace(" ", "-") for heading in headings}
        assert [t for t in targets if t not in places and not (ROOT / t).exists()] == []


def test_the_changelog_has_the_version_that_is_installed() -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## [{version[1]}]" in (ROOT / "CHANGELOG.md").read_text()


# the examples -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", sorted(p.name for p in EXAMPLES.iterdir() if p.suffix not in {".json", ".jsonl", ""})
)
def test_an_example_in_the_readme_is_the_file_that_is_tested(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert any(block.text == text for block in blocks()), (
        f"the README does not show {name} as it is"
    )


def offline_cast(settings: RunSettings, subject: str) -> Cast:
    nobody = Servers(services={})
    return build.Casting(settings).cast(subject, 1, servers=nobody, book=NoBook())


async def keep_nothing(turn: Turn) -> None:
    pass


async def test_the_example_scorer_rates_a_whole_interview(settings: RunSettings) -> None:
    option = load_yaml(EXAMPLES / "keyword.yaml", KeywordSettings)
    players = replace(offline_cast(settings, "persona-07"), scorer=KeywordScorer(option))
    interview = await hold(players, [], keep_nothing)
    assert interview.final is not None
    assert set() < set(interview.final.assessed) <= set(option.words.values())
    said = [turn.answer.text for turn in interview.turns]
    for item in interview.final.assessed:
        words = [word for word, named in option.words.items() if named == item]
        assert interview.final[item].evidence in said
        assert any(word in interview.final[item].evidence.lower() for word in words)


def test_the_places_that_a_new_scorer_joins_are_where_the_readme_says() -> None:
    settings_of = {
        name: ROOT / "src" / "settings" / f"{name}.py" for name in ("commands", "players")
    }
    assert "class LexicalSettings" in settings_of["players"].read_text()
    assert "ScorerSettings = " in settings_of["commands"].read_text()
    assert callable(build.scorer_of)


async def test_the_example_stop_rule_ends_what_the_inner_one_would_go_on_with(
    settings: RunSettings,
) -> None:
    cast = offline_cast(settings, "persona-03")
    whole = await hold(cast, [], keep_nothing)
    for confidence in (0.5, 1.01):
        rule = FourKnown(cast.orchestrator, confidence=confidence)
        interview = await hold(replace(cast, orchestrator=rule), [], keep_nothing)
        shorter = confidence < 1
        assert (len(interview.turns) < len(whole.turns)) == shorter
        assert interview.turns == whole.turns[: len(interview.turns)]
        assert not shorter or interview.stop is StopReason.CONFIDENT


def test_the_example_tree_and_person_are_what_the_interviews_are_held_with(
    checkout: Path, typed: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    outputs = checkout / "outputs"
    journal = (outputs / "my-tree" / "persona-07" / "journal.jsonl").read_text()
    assert "Hello, and thank you for making time. How have your nights been of late?" in journal
    tree = DialogueTree(EXAMPLES / "tree.yaml")
    branches = [tree.choose("nights", reply) for reply in ("I lie awake.", "I sleep well.")]
    assert [branch and branch.id for branch in branches] == ["negative", None]
    journal = (outputs / "my-person" / "persona-01" / "journal.jsonl").read_text()
    assert "The lime trees are in bloom" in journal
