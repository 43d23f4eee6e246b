"""What is installed, what is reachable and what is gated, on this machine."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from serving.cached import cache, home
from serving.installed import CPU, GPU, versions
from src import config
from src.errors import InputError
from src.llm.endpoints import Endpoint, read_endpoint
from src.prompts import ROOT
from src.settings import RunSettings

PACKAGES = (GPU, CPU, "torch", "transformers", "peft")
GATED = {"google/gemma": "google/gemma-3-27b-it", "meta-llama": "Meta-Llama-3-8B-Instruct"}
"""Publishers who ask for consent to a licence, and the model of theirs that is used here."""
SECONDS = 4.0


def whereabouts(settings: RunSettings, *, python: str, adapters: str) -> Iterator[str]:
    """Yield a line for everything that a run may need."""
    yield "installed"
    yield from _installed(ROOT / Path(python).expanduser())
    yield "reachable"
    yield from _reachable(config.folder(settings.endpoints))
    yield from _keys(settings)
    yield "on disk"
    yield from _on_disk(config.folder(adapters))
    yield "gated"
    yield from _gated()


def _installed(python: Path) -> Iterator[str]:
    if not python.exists():
        yield f"  vLLM: no {python.name} in {python.parent.parent.name}; see serving/README.md"
    else:
        found = [f"{name} {version}" for name, version in versions(python, PACKAGES).items()]
        yield f"  {python.parent.parent.name}: {', '.join(found) or 'none of the packages'}"
    gpus = _said(
        ["nvidia-smi", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader"]
    )
    yield f"  GPUs: {'; '.join(gpus) or 'none found'}"
    yield f"  Slurm: {' '.join(_said(['sbatch', '--version'])) or 'not installed'}"


def _reachable(folder: Path) -> Iterator[str]:
    files = sorted(folder.glob("*.json"))
    if not files:
        yield "  servers of ours: none was started (python -m serving.launch serving=gemma)"
    for file in files:
        try:
            endpoint = read_endpoint(folder, file.stem)
        except InputError as error:
            yield f"  {error}"
            continue
        if endpoint is not None:
            job = f", job {endpoint.job}" if endpoint.job else ""
            yield f"  {endpoint.name}: {endpoint.state}{job}, {_answers(endpoint)}"


def _answers(endpoint: Endpoint) -> str:
    if endpoint.state != "ready":
        return f"log {endpoint.log}"
    headers = {"Authorization": f"Bearer {endpoint.key}"}
    request = Request(f"{endpoint.base_url}/models", headers=headers)  # noqa: S310 - http alone
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=SECONDS):
            return (
                f"answers at {endpoint.host}:{endpoint.port}, serves {', '.join(endpoint.served)}"
            )
    except (URLError, OSError) as error:
        return f"does not answer at {endpoint.host}:{endpoint.port} ({error})"


def _keys(settings: RunSettings) -> Iterator[str]:
    wanted = {model.key_env for model in settings.models.values() if model.key_env}
    for name in sorted(wanted):
        yield f"  {name}: {'set' if os.environ.get(name) else 'not set'}"


def _on_disk(adapters: Path) -> Iterator[str]:
    there = sorted(f.parent.name for f in adapters.glob("persona-*/adapter_config.json"))
    none = "none (python -m serving.models fetch=true persona=all)"
    yield f"  adapters: {', '.join(there) or none}"
    models = sorted(f.name.removeprefix("models--") for f in cache().glob("models--*"))
    yield f"  hub's cache: {', '.join(models).replace('--', '/') or 'empty'}"


def _gated() -> Iterator[str]:
    kept = Path(os.environ.get("HF_TOKEN_PATH") or home() / "token").expanduser()
    token = bool(os.environ.get("HF_TOKEN")) or kept.exists()
    for publisher, model in GATED.items():
        yield f"  {publisher}: {model} needs consent on its page, and a token to fetch it"
    yield f"  token of the hub: {'there' if token else 'none (HF_TOKEN); only fetching needs one'}"


def _said(argv: list[str]) -> list[str]:
    if shutil.which(argv[0]) is None:
        return []
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
