"""A job's way to its model: by a repository's name from the hub's cache, without net and token."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_server import Models, RealServer

NAME, SHA = "HuggingFaceTB/SmolLM2-135M-Instruct", "a" * 40
TOKENS = "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE"


@pytest.fixture
def by_name(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealServer]:
    """Return a server whose model lies where the hub's client would have put it."""
    folder = tmp_path / "hub" / f"models--{NAME.replace('/', '--')}" / "snapshots" / SHA
    folder.mkdir(parents=True)
    for file in Path(models.base).iterdir():
        (folder / file.name).symlink_to(file)  # as the client has its files: links
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in TOKENS:
        monkeypatch.delenv(name, raising=False)
    revision = (f"servers.cpu.revision={SHA}",)
    server = RealServer(tmp_path, Models(base=NAME, adapters=models.adapters, choices=revision))
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_a_pinned_model_starts_from_the_hubs_cache_by_its_name(by_name: RealServer) -> None:
    assert f"--model {NAME} " in by_name.processes[by_name.api_process]
    body = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1}
    for model in by_name.endpoint.served:
        assert by_name.ask("/v1/chat/completions", {**body, "model": model})[0] == 200
