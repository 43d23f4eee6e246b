"""The command lines of every option, word for word, and what is refused before one is made."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from personas_on_disk import adapter, shaped_weights
from terminal import ROOT

from serving.command_line import commands
from serving.launch import launch
from serving.lora import find_adapters, refuse_a_namesake
from serving.settings import LaunchSettings
from src import config
from src.errors import InputError

GOLDEN = Path(__file__).parent / "golden"
PERSONAS = ["serving=personas"]
PRINTED = {
    "gemma": ["serving=gemma"],
    "gemma_int4": ["serving=gemma_int4"],
    "personas": PERSONAS,
    "both": ["serving=both"],
    "cpu": ["serving=cpu"],
    "tensor_parallel": ["serving=gemma", "servers.gemma.tensor_parallel=2"],
    "replicas": ["serving=gemma", "servers.gemma.replicas=2"],
    "two_cards": [
        "serving=both",
        "servers.gemma.cards=[0]",
        "servers.gemma.memory=0.92",
        "servers.personas.cards=[1]",
        "servers.personas.memory=0.92",
    ],
    "overrides": [
        *PERSONAS,
        "persona=7",
        "servers.personas.context=4096",
        "servers.personas.sequences=8",
        "servers.personas.lora.max_loras=1",
        "servers.personas.flags.enable_prefix_caching=false",
        "servers.personas.chat_template=prompts/kickoff.md",
        "+servers.personas.environment.VLLM_LOGGING_LEVEL=DEBUG",
        "python=/opt/vllm/bin/python",
    ],
}

Print = Callable[..., str]


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Print:
    """Return what a command prints; paths of this machine are replaced by names."""
    adapter(tmp_path, "persona-07", r=12)
    adapter(tmp_path, "persona-08", "other weights", r=8, rank_pattern={"q_proj": 24})

    def run(*arguments: str) -> str:
        launch([f"adapters={tmp_path}", *arguments, "print=true"])
        text = capsys.readouterr().out
        return text.replace(str(tmp_path), "$ADAPTERS").replace(str(ROOT), "$ROOT")

    return run


@pytest.mark.parametrize("name", PRINTED)
def test_every_command_line_is_the_expected_one_word_for_word(name: str, printed: Print) -> None:
    expected = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert printed(*PRINTED[name]).replace(" --", " \\\n  --") == expected


def test_every_option_of_serving_has_a_golden_command_line() -> None:
    assert {file.stem for file in (ROOT / "conf" / "serving").glob("*.yaml")} <= PRINTED.keys()
    assert {file.stem for file in GOLDEN.glob("*.txt")} == PRINTED.keys()


@pytest.mark.parametrize(("grace", "seconds"), [("30", 25), ("12.5", 7), ("2", 1), ("0.3", 1)])
def test_a_server_that_is_told_to_end_answers_what_is_under_way_within_the_grace(
    grace: str, seconds: int, printed: Print
) -> None:
    line = printed("serving=cpu", f"lifecycle.grace={grace}")
    assert f" --shutdown-timeout {seconds} " in line


def test_a_printed_line_is_read_by_a_shell_as_it_was_meant(printed: Print) -> None:
    words = shlex.split(printed("serving=gemma"))
    assert words[words.index("--limit-mm-per-prompt") + 1] == '{"image":0}'
    assert words[:4] == ["VLLM_API_KEY=$KEY", "env", "-u", "VLLM_PORT"]
    assert words[-4:] == ["--host", "$HOST", "--port", "$PORT"]


def test_no_key_host_or_port_stands_in_a_command() -> None:
    settings = config.read_settings("launch", LaunchSettings, ["serving=gemma"])
    (command,) = commands(settings, {"gemma": 0.9}, adapters=())
    assert not {"--api-key", "--host", "--port"} & set(command.argv)
    assert "VLLM_API_KEY" not in command.environment
    assert command.served == ("google/gemma-3-27b-it",)


def test_a_printed_line_gives_the_key_to_the_server_and_to_no_list_of_arguments(
    tmp_path: Path, printed: Print
) -> None:
    python = tmp_path / "python"
    script = 'cat /proc/$PPID/cmdline /proc/$$/cmdline; printf "\n%s" "$VLLM_API_KEY" "$PYTHONPATH"'
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    line = printed("serving=cpu", f"python={python}").replace("$ADAPTERS", str(tmp_path))
    given = {"KEY": "the-key", "HOST": "h", "PORT": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["/bin/sh", "-c", f"ROOT={ROOT}; {line.strip()} & wait"], capture_output=True, text=True,
        env={**given, "PYTHONPATH": "/own", "VLLM_API_KEY": "another"}, check=True,
    )  # fmt: skip
    arguments, key, places = done.stdout.rsplit("\n", 2)
    assert (key, places) == ("the-key", f"{ROOT}:/own")
    assert "vllm.entrypoints" in arguments
    assert "the-key" not in arguments


def test_nothing_is_reported_or_fetched(printed: Print) -> None:
    for option in ("gemma", "personas", "cpu"):
        line = printed(f"serving={option}")
        for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS"):
            assert f" {name}=1 " in line
        assert " DO_NOT_TRACK=1 " in line


def test_other_weights_are_served_under_another_name(tmp_path: Path) -> None:
    one = adapter(tmp_path / "a", "persona-07", "one")
    other = adapter(tmp_path / "b", "persona-07", "other")
    again = adapter(tmp_path / "c", "persona-07", "one")
    names = [find_adapters(folder.parent)[0].name for folder in (one, other, again)]
    assert all(re.fullmatch(r"persona-07-[0-9a-f]{8}", name) for name in names)
    assert names[0] == names[2] != names[1]


def test_identity_follows_the_command_line_and_the_weights(tmp_path: Path) -> None:
    def identity(folder: str, *overrides: str) -> str:
        settings = config.read_settings("launch", LaunchSettings, [*PERSONAS, *overrides])
        found = find_adapters(tmp_path / folder)
        (command,) = commands(settings, {"personas": 0.9}, adapters=found)
        return command.identity

    adapter(tmp_path / "a", "persona-07", "one")
    adapter(tmp_path / "b", "persona-07", "other")
    assert identity("a") == identity("a")
    assert len({identity("a"), identity("b"), identity("a", "servers.personas.context=4096")}) == 3


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["persona=9"], r"no adapter of persona 9; python -m serving\.models fetch=true"),
        (["persona=[7,7]"], "persona: 7 stands there twice"),
        (["persona=0"], "persona"),
        (["adapters=no/such/folder"], "no adapter; python -m serving.models fetch=true"),
        (["servers.personas.dtype=float16"], "dtype"),
        (["servers.personas.tensor_parallel=3"], "tensor_parallel=3 does not divide 8 heads"),
        (["servers.personas.cards=[0,1]"], "1 different ones are needed"),
        (["servers.personas.architecture=null"], "needs an architecture"),
        (["servers.personas.architecture.window=1024"], "window belongs to layers without full"),
        (["+servers.personas.flags.api_key=x"], r"flags\.api_key: not here"),
        (["+servers.personas.flags.middleware=x"], r"flags\.middleware: not here"),
        (["+servers.personas.flags.shutdown_timeout=0"], r"flags\.shutdown_timeout: not here"),
        (["+servers.personas.flags.max-model-len=1"], r"flags\.max-model-len: not here"),
        (["servers.personas.memory=null"], "card: the memory"),
        (["card=16384"], "servers.personas: needs"),
        (["serving=nonsense"], "no such option; choose from both, cpu, gemma, gemma_int4"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    overrides: list[str], line: str, printed: Print
) -> None:
    option = [] if overrides[0].startswith("serving=") else PERSONAS
    with pytest.raises(InputError, match=line) as refused:
        printed(*option, *overrides)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config_keys", "line"),
    [
        ({"r": 513}, "rank 513 is above 512, the most that vLLM takes"),
        ({"r": 0}, "r: "),
        ({"r": "x"}, "r: "),
        ({"use_dora": True}, "vLLM takes no DoRA"),
        ({"bias": "all"}, "no bias"),
        ({"modules_to_save": ["embed_tokens"]}, "no modules_to_save"),
    ],
)
def test_an_adapter_that_vllm_could_not_load_is_refused(
    config_keys: dict[str, object], line: str, tmp_path: Path
) -> None:
    adapter(tmp_path, "persona-07", **config_keys)
    with pytest.raises(InputError, match=f"persona-07.*{line}"):
        find_adapters(tmp_path)


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("adapter_config.json", "adapter_config.json: cannot be read"),
        ("adapter_model.safetensors", "holds no adapter_model.safetensors"),
    ],
)
def test_an_adapter_without_one_of_its_files_is_refused(
    missing: str, line: str, tmp_path: Path
) -> None:
    (adapter(tmp_path, "persona-07") / missing).unlink()
    with pytest.raises(InputError, match=line):
        find_adapters(tmp_path)


def test_two_folders_of_one_persona_are_refused(tmp_path: Path) -> None:
    adapter(tmp_path, "persona-7")
    adapter(tmp_path, "persona-07")
    with pytest.raises(InputError, match="persona-07 and persona-7 are both persona 7"):
        find_adapters(tmp_path)


@pytest.mark.parametrize(
    ("rank", "flag"), [(1, 1), (2, 8), (8, 8), (9, 16), (17, 32), (64, 64), (65, 128), (257, 320)]
)
def test_the_rank_is_rounded_up_to_one_that_vllm_allows(
    rank: int, flag: int, tmp_path: Path, printed: Print
) -> None:
    adapter(tmp_path / "one", "persona-01", r=rank)
    launch_line = printed(*PERSONAS, f"adapters={tmp_path / 'one'}")
    assert f" --max-lora-rank {flag} " in launch_line


def test_an_adapter_made_for_another_model_is_refused(tmp_path: Path, printed: Print) -> None:
    shaped_weights(adapter(tmp_path / "small", "persona-07"), 576)
    with pytest.raises(InputError, match=r"persona-07: made for a model of width 576, .* has 4096"):
        printed(*PERSONAS, f"adapters={tmp_path / 'small'}")


def test_an_adapter_of_another_model_of_one_publisher_is_refused(
    tmp_path: Path, printed: Print
) -> None:
    for number, base in enumerate(("Llama-3.1-8B-Instruct", "Meta-Llama-3-8B"), start=1):
        folder = tmp_path / str(number)
        adapter(folder, "persona-07", base_model_name_or_path=f"meta-llama/{base}")
        with pytest.raises(InputError, match=rf"persona-07: made for meta-llama/{base}, not for"):
            printed(*PERSONAS, f"adapters={folder}")


def test_an_adapter_made_for_another_publishers_copy_is_served_with_a_warning(
    tmp_path: Path,
) -> None:
    model = "meta-llama/Meta-Llama-3-8B-Instruct"
    adapter(tmp_path, "persona-07", base_model_name_or_path="unsloth/llama-3-8b-Instruct")
    adapter(tmp_path, "persona-08", base_model_name_or_path=model)
    adapter(tmp_path, "persona-09", base_model_name_or_path="/scratch/llama")
    (line,) = refuse_a_namesake(find_adapters(tmp_path), model)
    assert "persona-07: made for unsloth/llama-3-8b-Instruct, not for meta-llama" in line
    assert refuse_a_namesake(find_adapters(tmp_path), "models/smollm2") == []


def test_the_width_of_a_model_in_a_folder_is_read_there(tmp_path: Path, printed: Print) -> None:
    model, adapters = tmp_path / "model", tmp_path / "small"
    model.mkdir()
    (model / "config.json").write_text('{"hidden_size": 4096}', encoding="utf-8")
    shaped_weights(adapter(adapters, "persona-07"), 576)
    arguments = ["serving=cpu", f"adapters={adapters}", f"servers.cpu.model={model}"]
    with pytest.raises(InputError, match=r"made for a model of width 576, .* has 4096"):
        printed(*arguments)
    (model / "config.json").write_text('{"hidden_size": 576}', encoding="utf-8")
    assert "--lora-modules" in printed(*arguments)
