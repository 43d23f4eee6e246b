"""Grids as a user runs them: one command, many experiments, models and analysts."""

import subprocess
from collections import Counter
from pathlib import Path

from fake_plan import Plan, adapter, served
from fake_process import ServerProcess, fake_process
from model_runs import ENVIRONMENT, bodies, chats, endings, tagged, turns
from terminal import tacit

from src.diagnosing import CaseResult

EFFORTS = ("none", "low", "medium", "high")
TERRA = served("gpt-5.6-terra", efforts=EFFORTS)
GEMMA = served("google/gemma-3-27b-it")
CASES = ("case-001", "case-004")
EXCHANGES = 3
NOWHERE = "http://127.0.0.1:9/v1"
"""Nobody listens there."""
Ended = subprocess.CompletedProcess[str]


def grid(outputs: Path, *more: str, **urls: str) -> Ended:
    """Run two experiments with models at these addresses, each read by two analysts."""
    return tacit(
        "src.run", "experiment=[psycidra,direct]", "analyst=[diagnosis,direct]",
        f"models=[{','.join(urls)}]", "cohort=invented", "case=[1,4]",
        f"orchestrator.max_messages={EXCHANGES + 1}", f"outputs={outputs}",
        *(f"models.{name}.base_url={url}" for name, url in urls.items()),
        *(f"models.{name}.rate={{requests: null, tokens: null, seconds: 60}}" for name in urls),
        *(f"models.{name}.restart_wait=0" for name in urls), *more, environment=ENVIRONMENT,
    )  # fmt: skip


def kinds(folder: Path) -> list[str]:
    """Return the analysts that have answered about a subject."""
    return sorted(path.name.rpartition("-")[0] for path in (folder / "results").iterdir())


def asked(server: ServerProcess) -> Counter[str]:
    return Counter(entry["role"] for entry in chats(server))


def test_a_grid_holds_every_transcript_once_and_both_analysts_read_it(tmp_path: Path) -> None:
    with fake_process(Plan(models=(GEMMA, TERRA))) as server:
        done = grid(tmp_path, gemma=server.url, gpt56terra=server.url)
        assert done.returncode == 0, done.stderr
        names = {f"{e}-{m}" for e in ("psycidra", "direct") for m in ("gemma", "gpt56terra")}
        assert {folder.name for folder in tmp_path.iterdir()} == names
        folders = [tmp_path / name / case for name in names for case in CASES]
        for folder in folders:
            assert kinds(folder) == ["diagnosis", "direct"]
            assert len(turns(folder)) == EXCHANGES
            assert len(endings(folder)) == len(tagged(folder, "end")) == 1
        told = [len(turn["answer"]["calls"]) for folder in folders for turn in turns(folder)]
        assert asked(server)["patient"] == sum(told), "a request beside the one transcript"
        kept = [line["call"]["role"] for folder in folders for line in tagged(folder, "call")]
        assert asked(server) == Counter(kept)
        before = len(chats(server))
        assert grid(tmp_path, gemma=server.url, gpt56terra=server.url).returncode == 0
        assert len(chats(server)) == before, "what is known is not asked again"


def test_a_missing_server_ends_its_own_runs_and_no_others(tmp_path: Path) -> None:
    with fake_process(Plan(models=(GEMMA, TERRA))) as server:
        done = grid(tmp_path, gpt56terra=NOWHERE, gemma=server.url)
    assert done.returncode == 3, done.stderr
    assert {folder.name for folder in tmp_path.iterdir()} == {"psycidra-gemma", "direct-gemma"}
    for name in ("psycidra-gemma", "direct-gemma"):
        for case in CASES:
            assert kinds(tmp_path / name / case) == ["diagnosis", "direct"]
    skipped = [line for line in done.stderr.splitlines() if "skipped" in line]
    assert [line.split(": ")[1] for line in skipped] == ["psycidra-gpt56terra", "direct-gpt56terra"]


# mixed casts ----------------------------------------------------------------------------------


def models_at(url: str) -> list[str]:
    return [f"models.{name}.base_url={url}" for name in ("gemma", "persona")]


def test_psycira_interviews_a_served_persona(tmp_path: Path) -> None:
    with fake_process(Plan(models=(GEMMA, served(adapter(7))))) as server:
        done = tacit(
            "src.run", "experiment=psycidra", "persona=7", "patient=lora",
            "orchestrator.max_messages=4", f"outputs={tmp_path}", *models_at(server.url),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        sent = bodies(server, "persona-07")
    folder = tmp_path / "psycidra" / "persona-07"
    assert {body["model"] for entry, body in sent if entry["role"] == "patient"} == {adapter(7)}
    assert len(turns(folder)) == EXCHANGES
    assert any(turn["question"]["tools"] for turn in turns(folder))
    (path,) = (folder / "results").iterdir()
    found = CaseResult.model_validate_json(path.read_bytes())
    assert found.case is None
    assert all(one.findings for one in found.diagnoses)


def test_psydara_reads_screening_conversations_with_a_model(tmp_path: Path) -> None:
    usual = ["experiment=offline", "persona=7", "samples=2", f"outputs={tmp_path}"]
    assert tacit("src.run", *usual).returncode == 0
    folder = tmp_path / "offline" / "persona-07"
    with fake_process(Plan(models=(GEMMA,))) as server:
        told = [*usual, "analyst=diagnosis", "only=analysis", *models_at(server.url)]
        done = tacit("src.run", *told, "privacy=remote")
        assert done.returncode == 0, done.stderr
        assert set(asked(server)) == {"analyst"}
        sent = [str(body["messages"]) for _, body in bodies(server, "persona-07")]
    assert kinds(folder) == ["consensus", "diagnosis"]
    last = {turn["sample"]: turn["answer"]["text"] for turn in turns(folder)}
    assert all(any(text[:20] in body for body in sent) for text in last.values())
    path = next(p for p in (folder / "results").iterdir() if p.name.startswith("diagnosis-"))
    found = CaseResult.model_validate_json(path.read_bytes())
    assert [bool(one.findings) for one in found.diagnoses] == [True, True]
