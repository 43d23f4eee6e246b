"""The real vLLM on two processors in Gemma's place, by the same scripts (models: make models)."""

import pytest
from slurm_site import Site

REAL = ("serving=cpu", "python=.venv-serving/bin/python", "adapters=models/adapters")


@pytest.fixture
def cpu(site: Site) -> str:
    """Return the job in which the real server is being started."""
    return site.serve("gemma", *REAL, "lifecycle.grace=20", options=["--gres=none"])


def test_a_real_server_holds_the_interviews_of_a_dependent_job(site: Site, cpu: str) -> None:
    job = site.interview(
        f"jobs=[{cpu}]", "servers=[cpu]", "experiment=cpu", options=[f"--dependency=after:{cpu}"]
    )
    told = site.wait_ready("cpu", cpu, seconds=300)
    assert told["host"] == site.cluster.node
    assert {name[:10] for name in told["served"]} == {"smollm2", "persona-07", "persona-08"}
    assert site.cluster.wait_for_end(job, seconds=400) == "COMPLETED", site.cluster.output(job)
    assert site.results("cpu") == {"persona-07": 2, "persona-08": 2}
    site.cluster.say("scancel", cpu)
    assert site.cluster.wait_for_end(cpu) == "CANCELLED"
    site.cluster.wait_for_no_process(cpu)
    assert site.endpoint("cpu")["state"] == "ended"
