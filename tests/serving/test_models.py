"""Fetching by the hub's real client, from a hub at a loopback address."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_hub import SHA, Hub, Repository, serving
from terminal import ROOT, variables

PYTHON = ROOT / ".venv-serving" / "bin" / "python"
NINE, TEN = (f"Anxo/erisk26-task1-patient-{n}-adapter" for n in ("08", "09"))
BASE = "meta-llama/Meta-Llama-3-8B-Instruct"
BASE_SHA = "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"
WEIGHTS = "adapter_model.safetensors"
FOUND = "import importlib.util as u, sys; sys.exit(u.find_spec('huggingface_hub') is None)"


def _client_is_there() -> bool:
    return PYTHON.exists() and not subprocess.call([str(PYTHON), "-c", FOUND])


pytestmark = pytest.mark.skipif(
    not _client_is_there(), reason=".venv-serving with huggingface_hub is not installed"
)


def published(weights: bytes = b"w" * 3000, **more: Any) -> Repository:
    """Return an adapter as somebody publishes it, with files that nobody wants."""
    files = {
        "adapter_config.json": json.dumps({"r": 16, "base_model_name_or_path": BASE}).encode(),
        WEIGHTS: weights,
        "README.md": b"a persona",
        "training_args.bin": b"pickle",
        "checkpoint-10/adapter_model.safetensors": b"old",
        ".gitattributes": b"",
    }
    return Repository(files, **more)


def base(**more: Any) -> Repository:
    files = {"config.json": b"{}", "model.safetensors": b"m", "LICENSE": b"l"}
    files["original/consolidated.00.pth"] = b"pickle"
    return Repository(files, sha=BASE_SHA, gated=True, licence="llama3", **more)


class Fetching:
    """A folder to fetch into, from a hub."""

    def __init__(self, folder: Path, url: str) -> None:
        self.adapters, self._home = folder / "adapters", folder / "home"
        self.environment = {"HF_ENDPOINT": url, "HF_HOME": str(self._home), "NO_PROXY": "*"}

    def words(self, *arguments: str) -> list[str]:
        adapters = f"adapters={self.adapters}"
        return [sys.executable, "-m", "serving.models", "fetch=true", *arguments, adapters]

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, limit: str = ":"
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end; `limit` is shell that runs before it."""
        return subprocess.run(
            ["bash", "-c", f'{limit}; exec "$@"', "bash", *self.words(*arguments)],
            cwd=ROOT,
            env=variables({**self.environment, **(environment or {})}),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def snapshot(self, name: str, revision: str) -> list[str]:
        folder = self._home / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / revision
        return sorted(path.name for path in folder.iterdir())

    def served(self) -> list[str]:
        """Return what serving would find, whole or not."""
        if not self.adapters.is_dir():
            return []
        return sorted(one.name for one in self.adapters.iterdir() if one.name[0] != ".")


def fetching(hub: Hub, folder: Path) -> Fetching:
    return Fetching(folder, hub.url)


def test_a_new_week_is_fetched_whole_and_pinned(tmp_path: Path) -> None:
    with serving({NINE: published(licence="llama3"), TEN: published()}) as hub:
        weeks = fetching(hub, tmp_path)
        done = weeks.run("persona=[9,10]")
    assert (done.returncode, done.stderr) == (0, "")
    assert weeks.served() == ["persona-09", "persona-10"]
    folder = weeks.adapters / "persona-09"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "adapter_config.json", WEIGHTS, "origin.json",
    ]  # fmt: skip
    origin = json.loads((folder / "origin.json").read_text(encoding="utf-8"))
    assert (origin["adapter"], origin["revision"]) == (NINE, SHA)
    assert origin["licence"] == "Llama 3 Community License"
    assert f"  9: {{adapter: {NINE}, revision: {SHA}, released: null}}" in done.stdout
    assert "model=personas" in done.stdout  # their base is still to be fetched
    assert not any("torch" in agent for agent in hub.agents)  # tells nobody what is installed


def test_one_that_is_not_published_yet_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with serving({NINE: published()}) as hub:
        weeks = fetching(hub, tmp_path)
        named, anybody = weeks.run("persona=[9,10]"), weeks.run()
        alone = weeks.run("persona=10")
    assert named.returncode == 3
    assert "persona-10 is not published yet" in named.stdout
    assert named.stderr == "tacit: 1 of 2 could not be fetched, see above\n"
    assert weeks.served() == ["persona-09"]
    assert anybody.returncode == 0  # the rest comes week by week
    assert alone.returncode == 3
    assert alone.stderr.startswith("tacit: persona-10 is not published yet")


def test_a_gate_is_one_line_before_anything_is_fetched_and_a_token_opens_it(tmp_path: Path) -> None:
    with serving({BASE: base()}) as hub:
        bases = fetching(hub, tmp_path)
        shut = bases.run("model=personas")
        assert shut.returncode == 3
        assert "is gated: accept its licence on" in shut.stderr
        assert "HF_TOKEN" in shut.stderr
        assert shut.stderr.count("\n") == 1
        assert not any("/resolve/" in path for _, path in hub.requests)  # no file was touched
        let_in = bases.run("model=personas", environment={"HF_TOKEN": "hf_consenting"})
    assert let_in.returncode == 0, let_in.stderr
    assert "Llama 3 Community License, gated: its terms bind you" in let_in.stdout
    assert bases.snapshot(BASE, BASE_SHA) == ["LICENSE", "config.json", "model.safetensors"]
    offline = (
        f"import huggingface_hub as h; print(h.snapshot_download({BASE!r}, revision={BASE_SHA!r}))"
    )
    found = subprocess.run(
        [str(PYTHON), "-c", offline],
        env=variables({**bases.environment, "HF_HUB_OFFLINE": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.strip().endswith(BASE_SHA), found.stderr  # as a job's server asks for it


def test_a_broken_connection_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with serving({NINE: published(breaks={WEIGHTS: 6})}) as hub:
        weeks = fetching(hub, tmp_path)
        broken = weeks.run("persona=9")
        assert broken.returncode == 3
        assert broken.stderr.startswith("tacit: the hub cannot be reached")
        assert broken.stderr.count("\n") == 1
        assert weeks.served() == []
        hub.requests.clear()
        done = weeks.run("persona=9")
        assert done.returncode == 0, done.stderr
        assert hub.fetched() == [WEIGHTS, "README.md"]  # what had arrived is not asked for again
    assert weeks.served() == ["persona-09"]


def test_a_command_that_is_killed_leaves_nothing_to_serve_and_goes_on(tmp_path: Path) -> None:
    with serving({NINE: published(breaks={WEIGHTS: 6})}) as hub:
        weeks = fetching(hub, tmp_path)
        process = subprocess.Popen(
            weeks.words("persona=9"), cwd=ROOT, env=variables(weeks.environment)
        )
        while WEIGHTS not in hub.fetched():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert weeks.served() == []
        hub.repositories[NINE].breaks.clear()
        assert weeks.run("persona=9").returncode == 0
    assert weeks.served() == ["persona-09"]
    assert not list(weeks.adapters.glob(".persona*"))


def test_a_file_that_arrives_damaged_is_not_kept(tmp_path: Path) -> None:
    with serving({NINE: published(bytes(range(250)), damaged={WEIGHTS})}) as hub:
        weeks = fetching(hub, tmp_path)
        refused = weeks.run("persona=9")
        assert refused.returncode == 3
        assert "arrived damaged" in refused.stderr
        hub.repositories[NINE].damaged.clear()
        assert weeks.run("persona=9").returncode == 0
    assert (weeks.adapters / "persona-09" / WEIGHTS).read_bytes() == bytes(range(250))


def test_a_disk_without_room_is_one_line_before_anything_is_fetched(tmp_path: Path) -> None:
    with serving({NINE: published(sizes={WEIGHTS: 10**18})}) as hub:
        refused = fetching(hub, tmp_path).run("persona=9")
        assert refused.returncode == 4
        assert "1000000000.0 GB are to be fetched" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert not hub.fetched()


def test_a_disk_that_fills_up_meanwhile_is_one_line_and_the_same_command_goes_on(
    tmp_path: Path,
) -> None:
    with serving({NINE: published(b"w" * 9000)}) as hub:
        weeks = fetching(hub, tmp_path)
        refused = weeks.run("persona=9", limit="ulimit -f 4")  # KiB of one file
        assert refused.returncode == 4
        assert "cannot be written" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert weeks.served() == []
        assert weeks.run("persona=9").returncode == 0


def test_weights_that_would_be_unpickled_are_refused(tmp_path: Path) -> None:
    pickled = published()
    pickled.files["adapter_model.bin"] = pickled.files.pop(WEIGHTS)
    with serving({NINE: pickled}) as hub:
        refused = fetching(hub, tmp_path).run("persona=9")
        assert refused.returncode == 3
        assert "weights in other forms are not taken" in refused.stderr
        assert not hub.fetched()


def test_an_adapter_that_could_not_be_served_is_not_put_in_place(tmp_path: Path) -> None:
    other = published()
    other.files["adapter_config.json"] = b'{"r": 16, "use_dora": true}'
    with serving({NINE: other}) as hub:
        weeks = fetching(hub, tmp_path)
        refused = weeks.run("persona=9")
    assert refused.returncode == 2
    assert "no DoRA" in refused.stderr
    assert weeks.served() == []


def test_a_pinned_revision_is_the_one_that_is_fetched(tmp_path: Path) -> None:
    path = tmp_path / "published.yaml"

    def pin(revision: str) -> str:
        line = f"9: {{adapter: {NINE}, revision: {revision}, released: null}}"
        path.write_text(f"base: {BASE}\npersonas:\n  {line}\n", encoding="utf-8")
        return f"published={path}"

    with serving({NINE: published(b"first")}) as hub:
        weeks = fetching(hub, tmp_path)
        assert weeks.run("persona=9", pin(SHA)).returncode == 0
        hub.repositories[NINE] = published(b"second", sha="f" * 40)
        gone = weeks.run("persona=9", pin("e" * 40))
        assert gone.returncode == 3
        assert f"has no revision {'e' * 40}" in gone.stderr
        weights = weeks.adapters / "persona-09" / WEIGHTS
        assert weights.read_bytes() == b"first"
        done = weeks.run("persona=9", pin("f" * 40))
        assert done.returncode == 0, done.stderr
        assert weights.read_bytes() == b"second"
        assert "To pin" not in done.stdout


def test_a_hub_that_cannot_be_reached_or_is_broken_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        refused = Fetching(tmp_path, address).run("persona=9")
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"tacit: the hub cannot be reached at {address}")
    with serving({NINE: published()}) as hub:
        hub.broken = True
        broken = fetching(hub, tmp_path).run("persona=9")
    assert broken.returncode == 3
    assert "out of order (503)" in broken.stderr
    assert refused.stderr.count("\n") == broken.stderr.count("\n") == 1
