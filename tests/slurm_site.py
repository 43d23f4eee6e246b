"""The real scripts on a cluster of one node, each test with folders of its own."""

import json
import os
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_cluster import GPUS, OVER, Cluster, wait_until
from vllm_stand_in import write_adapters, write_cache, write_cards, write_stand_in

GEMMA = "google/gemma-3-27b-it"
LLAMA = "meta-llama/Meta-Llama-3-8B-Instruct"
PERSONAS = (1, 2, 3, 7)
SERVE = {"gemma": "slurm/serve_gemma.sh", "personas": "slurm/serve_personas.sh"}
SHORT = ("experiment=local", "run=short", "samples=2", "orchestrator.max_messages=4")
LONG = ("experiment=local", "run=long", "samples=4", "orchestrator.max_messages=8")
LATENCY = 0.15
"""Seconds of a stand-in's answer: a long interview takes some six seconds."""


class Site:
    """Endpoint files, logs, adapters and run folders of one test."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.endpoints, self.outputs = folder / "endpoints", folder / "outputs"
        self.jobs: list[str] = []
        self._seen = dict.fromkeys(SERVE, 0)
        self._python = write_stand_in(folder / "bin")
        self._cards = write_cards(folder / "cards", GPUS)
        self._cache = write_cache(folder / "cache", *SERVE)
        self._adapters = write_adapters(folder / "adapters", *PERSONAS, base=LLAMA)

    def beside(self, folder: Path) -> "Site":
        """Return a site with the same servers and outputs of its own."""
        other = Site(self.cluster, folder)
        other.endpoints = self.endpoints
        other._seen = {name: len(self.ask(name, "/log")["requests"]) for name in SERVE}
        return other

    def close(self) -> None:
        """End this site's jobs and wait until they are gone."""
        self.cluster.cancel(*self.jobs)

    def serve(
        self,
        name: str,
        *arguments: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Submit what serves one endpoint, with the stand-in for vLLM; return the job's id."""
        own = {
            "PATH": f"{self._cards}:{os.environ['PATH']}",
            "TACIT_GRACE": "3",
            "HF_HOME": str(self._cache),
            "STAND_IN_PLAN": json.dumps({"latency": [LATENCY, LATENCY]}),
        }
        return self._submit(
            SERVE[name],
            f"python={self._python}",
            f"adapters={self._adapters}",
            f"endpoints={self.endpoints}",
            f"lifecycle.logs={self.folder / 'logs'}",
            *arguments,
            options=options,
            environment=own | dict(environment or {}),
        )

    def serve_both(self, *, options: Sequence[str] = ()) -> dict[str, str]:
        """Serve both endpoints and wait until they are ready; return the jobs."""
        jobs = {name: self.serve(name, options=options) for name in SERVE}
        for name, job in jobs.items():
            self.wait_ready(name, job)
        return jobs

    def interview(
        self,
        *arguments: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Submit interviews; return the job's id."""
        own = (f"endpoints={self.endpoints}", f"outputs={self.outputs}")
        return self._submit(
            "slurm/interview.sh", *own, *arguments, options=options, environment=environment
        )

    def bench(self, *arguments: str) -> str:
        """Submit a measurement of the served models; return the job's id."""
        own = f"endpoints={self.endpoints}"
        return self._submit("slurm/bench.sh", own, *arguments, options=(), environment=None)

    def endpoint(self, name: str) -> dict[str, Any]:
        """Return what an endpoint file says, nothing where there is none."""
        path = self.endpoints / f"{name}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def wait_ready(self, name: str, job: str, *, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until a job's server is ready; return its endpoint."""

        def ready() -> bool:
            assert self.cluster.state(job) not in OVER, self.cluster.output(job)
            found = self.endpoint(name)
            return found.get("state") == "ready" and found.get("job") == job

        what = f"endpoint {name} of job {job}"
        wait_until(ready, what, seconds=seconds, shown=lambda: self.cluster.output(job))
        return self.endpoint(name)

    def ask(self, name: str, path: str, *, key: str | None = None) -> Any:
        """Ask a server something with its key, or another; return JSON or a status."""
        told = self.endpoint(name)
        request = urllib.request.Request(
            f"http://127.0.0.1:{told['port']}{path}",  # tests may look up no other name
            headers={"Authorization": f"Bearer {told['key'] if key is None else key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            return error.code

    def asked(self, name: str) -> Counter[tuple[str, int, int, str]]:
        """Count what this site's interviews asked, by subject, sample, turn and role."""
        entries = self.ask(name, "/log")["requests"][self._seen[name] :]
        return Counter(
            (e["subject"], e["sample"], e["turn"], e["role"])
            for e in entries
            if e["path"] == "chat" and e["subject"].startswith("persona-")
        )

    def turns(self, run: str, subject: str = "persona-07") -> list[tuple[int, int]]:
        """Return the finished turns in a journal, by sample and number."""
        path = self.outputs / run / subject / "journal.jsonl"
        whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        lines = [json.loads(line) for line in whole.splitlines()]
        return [(line["sample"], line["turn"]["number"]) for line in lines if line["tag"] == "turn"]

    def results(self, run: str) -> dict[str, int]:
        """Return how many interviews each subject's one answer rests on."""
        found = {}
        for folder in sorted((self.outputs / run).iterdir()):
            (path,) = (folder / "results").iterdir()
            found[folder.name] = json.loads(path.read_text())["n_valid"]
        return found

    def wait_for_turns(
        self,
        run: str,
        count: int,
        *,
        job: str,
        subject: str = "persona-07",
        seconds: float = 60.0,
    ) -> None:
        """Wait until so many turns are on disk."""

        def held() -> bool:
            assert self.cluster.state(job) not in OVER, self.cluster.output(job)
            return len(self.turns(run, subject)) >= count

        wait_until(
            held,
            f"{count} turns of {run}",
            seconds=seconds,
            shown=lambda: self.cluster.output(job),
        )

    def _submit(
        self,
        script: str,
        *arguments: str,
        options: Sequence[str],
        environment: Mapping[str, str] | None,
    ) -> str:
        self.jobs.append(
            self.cluster.submit(script, *arguments, options=options, environment=environment)
        )
        return self.jobs[-1]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777
