"""The fake server behind vLLM's command line: what `python=` of serving.launch is set to in tests.

    python=<a wrapper by write_stand_in(), which goes on to this file>

It reads the few flags that say what is served and where, takes the key as vLLM does, and first
writes `LINES` numbered lines, so that a log's end can be told. STAND_IN_PLAN in the environment
holds a plan of `fake_plan.py` as JSON; with STAND_IN_ENDS it ends with that code before it listens.
"""

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path

import yaml
from aiohttp import web
from fake_plan import Plan, served
from fake_server import FakeServer
from terminal import ROOT

LINES = 80
MODULE = "vllm.entrypoints.openai.api_server"


def write_stand_in(folder: Path) -> Path:
    """Write an interpreter's stand-in that starts this file, whatever module is asked for."""
    return _program(folder / "python", f'exec {sys.executable} {Path(__file__).resolve()} "$@"')


def write_cards(folder: Path, count: int) -> Path:
    """Write an nvidia-smi that lists some cards; return its folder."""
    cards = "".join(f"{n}, GPU-0000000{n}, NVIDIA H200, 143771, 9.0\\n" for n in range(count))
    return _program(folder / "nvidia-smi", f"printf '{cards}'").parent


def write_adapters(folder: Path, *personas: int, base: str) -> Path:
    """Write what the launcher reads of some adapters; their weights are nobody's."""
    for number in personas:
        own = folder / f"persona-{number:02}"
        own.mkdir(parents=True)
        told = {"peft_type": "LORA", "r": 8, "base_model_name_or_path": base}
        (own / "adapter_config.json").write_text(json.dumps(told), encoding="utf-8")
        (own / "adapter_model.safetensors").write_bytes(number.to_bytes())
    return folder


def write_cache(folder: Path, *names: str) -> Path:
    """Write as much of a hub's cache as says that the models of some options are there."""
    for name in names:
        option = ROOT / "conf" / "serving" / f"{name}.yaml"
        server = yaml.safe_load(option.read_text(encoding="utf-8"))["servers"][name]
        model = f"models--{server['model'].replace('/', '--')}"
        snapshot = folder / "hub" / model / "snapshots" / server["revision"]
        snapshot.mkdir(parents=True)
        for file in ("config.json", "model.safetensors"):
            (snapshot / file).touch()
    return folder


def flags_of(arguments: list[str]) -> dict[str, list[str]]:
    """Return every flag with its values."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for argument in arguments:
        if argument.startswith("--"):
            values = found[argument] = []
        else:
            values.append(argument)
    return found


async def serve(flags: dict[str, list[str]]) -> None:
    """Serve the model and its adapters until told to end."""
    names = list(flags["--served-model-name"])
    names += [str(json.loads(module)["name"]) for module in flags.get("--lora-modules", ())]
    context = int(flags["--max-model-len"][0])
    told = {
        "key": os.environ["VLLM_API_KEY"],
        "models": [served(name, context=context).model_dump() for name in names],
    }
    plan = Plan.model_validate(json.loads(os.environ.get("STAND_IN_PLAN", "{}")) | told)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with FakeServer(plan) as server:
        asked = web.TCPSite(server._runner, flags["--host"][0], int(flags["--port"][0]))
        await asked.start()
        await ended.wait()


def main(arguments: list[str]) -> None:
    assert arguments[:2] == ["-m", MODULE], arguments
    for number in range(1, LINES + 1):
        sys.stdout.write(f"stand-in, line {number}\n")
    sys.stdout.flush()
    if code := os.environ.get("STAND_IN_ENDS"):
        sys.exit(int(code))
    asyncio.run(serve(flags_of(arguments[2:])))


def _program(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
