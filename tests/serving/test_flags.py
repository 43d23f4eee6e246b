"""vLLM itself reads our command lines, and wants the memory that we compute."""

import json
import subprocess
from pathlib import Path

import pytest
from personas_on_disk import adapter
from terminal import ROOT, variables

from serving.command_line import commands
from serving.lora import RANKS, find_adapters, highest_rank
from serving.memory import GIB, need, shares
from serving.server import ServerCommand
from serving.settings import LaunchSettings
from src import config

PYTHON = ROOT / ".venv-serving" / "bin" / "python"
OPTIONS = [file.stem for file in sorted((ROOT / "conf" / "serving").glob("*.yaml"))]
PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
for words in json.load(sys.stdin):
    known = parser.parse_args(words)
    validate_parsed_serve_args(known)
    lora = [one.name for one in known.lora_modules or ()]
    limits = {str(key): value for key, value in known.limit_mm_per_prompt.items()}
    compact = known.structured_outputs_config.disable_any_whitespace
    print("READ", json.dumps([known.model, known.dtype, lora, limits, compact]))
(rank,) = [a for a in parser._actions if "--max-lora-rank" in a.option_strings]
print("RANKS", json.dumps(sorted(rank.choices)))
"""
START = """
import torch
from vllm.v1.core.kv_cache_utils import _get_kv_cache_groups_uniform_page_size
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
form = dict(block_size=16, num_kv_heads=16, head_size=128, dtype=torch.bfloat16)
window = SlidingWindowSpec(**form, sliding_window=1024)
layers = {str(n): window if n % 6 else FullAttentionSpec(**form) for n in range(1, 63)}
groups = _get_kv_cache_groups_uniform_page_size(layers)
size = max(len(group.layer_names) for group in groups)
for batch in (1024, 4096):
    held = window.max_admission_blocks_per_request(2 * batch, 16384)
    blocks = 16384 // 16 + (len(groups) - 1) * held
    print("START", batch, blocks * size * window.page_size_bytes)
"""
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=".venv-serving is absent")


def vllm(script: str, text: str = "") -> list[list[str]]:
    """Return the marked lines that a script prints in vLLM's environment, as words."""
    done = subprocess.run(
        [PYTHON, "-c", script], input=text, capture_output=True, text=True, timeout=170,
        check=False, env=variables({"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    marks = ("READ ", "RANKS ", "START ")
    return [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith(marks)]


def test_vllm_reads_every_options_command_line(tmp_path: Path) -> None:
    adapter(tmp_path, "persona-07", r=12)
    adapters = find_adapters(tmp_path)
    made: list[ServerCommand] = []
    for option in OPTIONS:
        chosen = config.read_settings("launch", LaunchSettings, [f"serving={option}"])
        ranks = {name: highest_rank(adapters) for name, one in chosen.servers.items() if one.lora}
        made += commands(chosen, shares(chosen, ranks), adapters=adapters)
    *read, (_, ranks_read) = vllm(PARSE, json.dumps([command.argv[3:] for command in made]))
    assert len(read) == len(made) == len(OPTIONS) + 1
    for command, (_, line) in zip(made, read, strict=True):
        model, dtype, lora, limits, compact = json.loads(line)
        assert (model, dtype) == (command.argv[command.argv.index("--model") + 1], "bfloat16")
        assert tuple(lora) == command.served[1:]
        assert limits == ({"image": 0} if command.endpoint == "gemma" else {})
        assert compact == (command.endpoint != "personas")
    assert tuple(json.loads(ranks_read)) == RANKS


def test_the_cache_that_vllm_wants_for_a_start_is_the_one_computed() -> None:
    for _, line in vllm(START):
        batch, size = map(int, line.split())
        chosen = config.read_settings(
            "launch", LaunchSettings, [f"servers.gemma.batch_tokens={batch}"]
        )
        computed = need(chosen.servers["gemma"], 0).start
        assert computed / GIB == pytest.approx(size / GIB, rel=3e-3)


def test_vllm_finds_the_lock_without_the_projects_other_packages() -> None:
    script = "import serving.lock, sys; print('READ', serving.lock.Lock, 'pydantic' in sys.modules)"
    ((_, line),) = vllm(script)
    assert line == "<class 'serving.lock.Lock'> False"
