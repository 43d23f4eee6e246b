"""The real vLLM on two processors in Gemma's place, by the same scripts.

It serves models/smollm2 and models/adapters, which the Makefile makes first. Interviewer and
personas are real; the scorer has no model, since an assessment takes such a small machine a minute
or more (tests/serving has it).
"""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from slurm_cluster import Cluster
from slurm_site import Site

REAL = (
    *("serving=cpu", "python=.venv-serving/bin/python", "adapters=models/adapters"),
    "lifecycle.grace=15",
)
TALK = (
    *("servers=[cpu]", "models=smollm2", "privacy=local", "run=talk", "samples=2"),
    *("orchestrator.max_messages=4", "tree.turns_max=1", "scorer=lexical"),
    *(
        "interviewer.models=[smollm2]",
        "interviewer.call.top_k=-1",
        "interviewer.call.max_tokens=24",
    ),
    "preflight.truncated_max=1.0",
    *("patient.models=[smollm2]", "patient.stop_token_ids=[2]", "patient.call.max_tokens=24"),
)
"""As experiment=cpu has it, but for the scorer, and with texts cut short."""
FIRST = ("run=first", "persona=7", "samples=1")
START = 240.0
"""Seconds that a real server may take to get ready; on a quiet machine it takes 40."""
HELD = 240.0


@pytest.fixture(scope="module")
def real(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site where the real server is ready; the first test waits for it in a job."""
    site = Site(cluster, tmp_path_factory.mktemp("real"))
    site.serve("gemma", *REAL, options=["--gres=none"])
    yield site
    site.close()


def test_a_dependent_job_waits_for_the_real_server_and_holds_an_interview(real: Site) -> None:
    server = real.jobs[0]
    job = real.interview(
        f"jobs=[{server}]", *TALK, *FIRST, options=[f"--dependency=after:{server}"]
    )
    told = real.wait_ready("cpu", server, seconds=START)
    assert told["host"] == real.cluster.node
    assert {name[:10] for name in told["served"]} == {"smollm2", "persona-07", "persona-08"}
    completed(real, job)
    assert real.results("first") == {"persona-07": 1}


def test_the_tasks_of_an_array_share_the_real_server(real: Site) -> None:
    job = real.interview(*TALK, "run=array", "samples=1", options=["--array=7-8"])
    completed(real, f"{job}_7")
    completed(real, f"{job}_8")
    assert real.results("array") == {"persona-07": 1, "persona-08": 1}


def test_a_requeued_job_goes_on_with_the_real_server(real: Site) -> None:
    job = real.interview(*TALK, "persona=7")
    real.wait_for_turns("talk", 2, job=job, seconds=HELD)
    real.cluster.say("scontrol", "requeue", job)
    completed(real, job)
    assert real.cluster.shown(job)["Restarts"] == "1"
    assert real.results("talk") == {"persona-07": 2}
    turns = real.turns("talk")
    assert len(turns) == len(set(turns))


def test_the_real_server_refuses_another_key(real: Site) -> None:
    assert real.ask("cpu", "/v1/models", key="a-wrong-key") == 401


def test_a_model_that_the_real_server_lacks_is_one_line(real: Site) -> None:
    job = real.interview(*TALK, "persona=7", "run=lacking", "models.smollm2.name=smollm9")
    assert real.cluster.wait_for_end(job, seconds=HELD) == "FAILED"
    assert real.cluster.shown(job)["ExitCode"] == "3:0"
    assert "smollm9" in real.cluster.output(job)
    assert not (real.outputs / "lacking").exists()


def test_scancel_ends_the_real_server_with_requests_under_way(real: Site) -> None:
    server = real.jobs[0]
    job = real.interview(f"jobs=[{server}]", *TALK, "persona=8", "samples=8", "run=cut")
    real.wait_for_turns("cut", 2, job=job, subject="persona-08", seconds=HELD)
    real.cluster.say("scancel", server)
    ends_with_its_server(real, job, server, "CANCELLED")
    real.cluster.wait_for_no_process(server)
    assert real.endpoint("cpu")["state"] == "ended"


def test_a_killed_real_server_leaves_no_process_and_ends_the_interviews(site: Site) -> None:
    server = site.serve("gemma", *REAL, options=["--gres=none"])
    site.wait_ready("cpu", server, seconds=START)
    job = site.interview(f"jobs=[{server}]", *TALK, "persona=8", "samples=8", "run=killed")
    site.wait_for_turns("killed", 2, job=job, subject="persona-08", seconds=HELD)
    api = [
        pid
        for pid, line in site.cluster.processes(server).items()
        if "vllm.entrypoints" in line and "guard.py" not in line
    ]
    os.kill(min(api), signal.SIGKILL)
    ends_with_its_server(site, job, server, "FAILED")
    site.cluster.wait_for_no_process(server)
    assert site.cluster.output(job).count("\n") > 50  # the end of the server's log


def completed(site: Site, job: str) -> None:
    assert site.cluster.wait_for_end(job, seconds=HELD) == "COMPLETED", site.cluster.output(job)


def ends_with_its_server(site: Site, job: str, server: str, state: str) -> None:
    """Expect a server's job to end in a state, and the interviews 5 s later at most."""
    assert site.cluster.wait_for_end(server) == state
    began = time.monotonic()
    assert site.cluster.wait_for_end(job) == "FAILED"
    assert time.monotonic() - began < 5
    assert site.cluster.shown(job)["ExitCode"] == "3:0", site.cluster.output(job)
