"""Jobs that serve: what they publish, and every way in which they end."""

import time

from slurm_site import Site, mode_of


def test_a_served_model_says_where_it_answers_and_to_whom(site: Site) -> None:
    job = site.serve("gemma")
    told = site.wait_ready("gemma", job)
    assert told["host"] == site.cluster.node
    assert mode_of(site.endpoints / "gemma.json") == 0o600
    listed = site.ask("gemma", "/v1/models")["data"]
    assert [one["id"] for one in listed] == ["google/gemma-3-27b-it"]
    assert site.ask("gemma", "/v1/models", key="a-wrong-key") == 401
    commands = "\n".join(site.cluster.processes(job).values())
    logs = "\n".join(path.read_text() for path in (site.folder / "logs").iterdir())
    assert told["key"] not in commands + logs + site.cluster.output(job)


def test_adapters_are_served_under_persona_and_content(site: Site) -> None:
    job = site.serve("personas", "persona=[1,7]")
    site.wait_ready("personas", job)
    _, first, seventh = (one["id"] for one in site.ask("personas", "/v1/models")["data"])
    assert first.startswith("persona-01-")
    assert seventh.startswith("persona-07-")


def test_scancel_ends_a_server_and_all_it_started(site: Site) -> None:
    job = site.serve("gemma")
    site.wait_ready("gemma", job)
    assert any("vllm_stand_in" in line for line in site.cluster.processes(job).values())
    site.cluster.say("scancel", job)
    assert site.cluster.wait_for_end(job) == "CANCELLED"
    site.cluster.wait_for_no_process(job)
    assert site.endpoint("gemma")["state"] == "ended"
    assert "Traceback" not in site.cluster.output(job)
    assert "killed" not in site.cluster.output(job)


def test_a_signal_to_the_script_alone_ends_the_server_in_order(site: Site) -> None:
    job = site.serve("gemma")
    site.wait_ready("gemma", job)
    site.cluster.say("scancel", "--batch", "--signal=TERM", job)  # as where cgroups track processes
    assert site.cluster.wait_for_end(job) == "COMPLETED"
    assert site.endpoint("gemma")["state"] == "ended"
    assert "ended, on SIGTERM" in site.cluster.output(job)
    site.cluster.wait_for_no_process(job)


def test_a_server_whose_time_is_nearly_up_ends_in_order(site: Site) -> None:
    job = site.serve("gemma", options=["--time=1", "--signal=B:USR1@45"])
    site.wait_ready("gemma", job)
    began = time.monotonic()
    assert site.cluster.wait_for_end(job, seconds=90) == "COMPLETED", site.cluster.output(job)
    assert time.monotonic() - began < 60
    assert site.endpoint("gemma")["state"] == "ended"
    assert site.cluster.shown(job)["Restarts"] == "0"
    site.cluster.wait_for_no_process(job)


def test_a_preempted_server_makes_room_and_serves_anew(site: Site) -> None:
    job = site.serve("gemma", options=["--exclusive"])
    before = site.wait_ready("gemma", job)
    urgent = site.cluster.sleep(1, options=["--partition=urgent", "--exclusive"])
    assert site.cluster.wait_for_end(urgent, seconds=30) == "COMPLETED"
    after = site.wait_ready("gemma", job)
    assert after["start"] != before["start"]
    assert after["key"] != before["key"]
    assert site.cluster.shown(job)["Restarts"] == "1"


def test_a_server_that_died_fails_its_job_and_shows_its_log(site: Site) -> None:
    job = site.serve("gemma", environment={"STAND_IN_ENDS": "7"})
    assert site.cluster.wait_for_end(job) == "FAILED"
    assert site.cluster.shown(job)["ExitCode"] == "3:0"
    assert "stand-in, line 80" in site.cluster.output(job)
    assert site.endpoint("gemma")["state"] == "ended"


def test_what_no_node_can_give_is_refused_at_once(site: Site) -> None:
    cluster, script = site.cluster, "slurm/serve_gemma.sh"
    for wish in ("--partition=nowhere", "--gres=gpu:a100:1", "--mem=2000G", "--time=9-00:00:00"):
        refused = cluster.ask(["sbatch", wish, script])
        assert refused.returncode != 0, wish
        assert "Batch job submission failed" in refused.stderr, refused.stderr
