"""What every test gets: no way out of this machine, and settings to start from."""

import sys
from pathlib import Path

import pytest

from src import config
from src.settings import RunSettings

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def refuse_the_network(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse every connection and look-up that leaves this machine."""
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a path: a local socket
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = arguments[0]
    else:
        return
    if host is not None and host not in LOOPBACK:
        raise PermissionError(f"a test tried to reach {host}")


sys.addaudithook(refuse_the_network)


def pytest_configure() -> None:
    """Let a law take its time: a busy machine is no counterexample."""
    import hypothesis  # noqa: PLC0415 - commands that a test starts read this file, too

    hypothesis.settings.register_profile("patient", deadline=None)
    hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def settings() -> RunSettings:
    return config.read_settings("config", RunSettings, ["experiment=offline"])


@pytest.fixture
def shared_data() -> Path:
    """Return the folder of real data, or skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent: real conversations are not part of the project")
    return folder
