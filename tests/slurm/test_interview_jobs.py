"""Jobs that interview: waiting, arrays, being stopped and going on, and servers that fail."""

import json
import os
import signal
import time

from slurm_cluster import CPUS
from slurm_site import GEMMA, LLAMA, LONG, SHORT, Site


def test_a_dependent_job_holds_its_interviews(site: Site) -> None:
    jobs = [site.serve("gemma"), site.serve("personas")]
    job = site.interview(
        f"jobs=[{','.join(jobs)}]", *SHORT, "persona=7",
        options=[f"--dependency=after:{':'.join(jobs)}"],
    )  # fmt: skip
    assert site.cluster.wait_for_end(job) == "COMPLETED", site.cluster.output(job)
    assert site.results("short") == {"persona-07": 2}


def test_the_tasks_of_an_array_share_a_run(served: Site) -> None:
    job = served.interview(*SHORT, options=["--array=1-3%2"])
    for task in (1, 2, 3):
        one = f"{job}_{task}"
        assert served.cluster.wait_for_end(one) == "COMPLETED", served.cluster.output(one)
    assert served.results("short") == {"persona-01": 2, "persona-02": 2, "persona-03": 2}


def test_one_job_interviews_every_persona(served: Site) -> None:
    job = served.interview(*SHORT)
    assert served.cluster.wait_for_end(job) == "COMPLETED", served.cluster.output(job)
    assert list(served.results("short")) == ["persona-01", "persona-02", "persona-03", "persona-07"]


def test_a_bench_job_measures_what_is_served_and_names_the_card(served: Site) -> None:
    out = served.folder / "bench.json"
    job = served.bench(
        "gpu=a-card", f"out={out}", "calls=4", "saturation.pairs=1", "saturation.interviews=4",
        "saturation.alone=1", "saturation.every=0.02",
    )  # fmt: skip
    assert served.cluster.wait_for_end(job) == "COMPLETED", served.cluster.output(job)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["machine"]["gpu"] == "a-card"
    assert set(found["models"]) == {GEMMA, LLAMA}
    assert {figure["part"] for figure in found["figures"]} == {"saturation", "cache"}


def test_a_bench_job_that_names_no_card_is_refused(served: Site) -> None:
    job = served.bench("saturation.pairs=1")
    assert served.cluster.wait_for_end(job) == "FAILED"
    assert served.cluster.shown(job)["ExitCode"] == "2:0"
    assert "gpu=" in served.cluster.output(job)


def test_a_requeued_job_goes_on_and_repeats_no_turn(served: Site) -> None:
    job = served.interview(*LONG, "persona=7")
    served.wait_for_turns("long", 8, job=job)
    served.cluster.say("scontrol", "requeue", job)
    assert served.cluster.wait_for_end(job) == "COMPLETED", served.cluster.output(job)
    assert served.cluster.shown(job)["Restarts"] == "1"
    assert served.results("long") == {"persona-07": 4}
    refuse_repeats(served)


def test_a_task_out_of_time_queues_itself_again_and_no_other(served: Site) -> None:
    job = served.interview(*LONG, options=["--array=1-2"])
    tasks = [f"{job}_1", f"{job}_2"]
    last = next(task for task in tasks if served.cluster.shown(task)["JobId"] == job)
    other = next(task for task in tasks if task != last)
    subject = f"persona-{int(last.partition('_')[2]):02}"
    served.wait_for_turns("long", 8, job=last, subject=subject)
    served.cluster.say("scancel", "--batch", "--signal=USR1", last)  # as Slurm does near the end
    for task in tasks:
        assert served.cluster.wait_for_end(task) == "COMPLETED", served.cluster.output(task)
    assert served.cluster.shown(last)["Restarts"] == "1"
    assert served.cluster.shown(other)["Restarts"] == "0"
    assert served.results("long") == {"persona-01": 4, "persona-02": 4}
    refuse_repeats(served)


def test_a_preempted_job_makes_room_and_goes_on(served: Site) -> None:
    job = served.interview(*LONG, "persona=7")
    served.wait_for_turns("long", 8, job=job)
    wish = f"--cpus-per-task={CPUS - 2 * 8 - 1}"  # one more than is free beside both servers
    urgent = served.cluster.sleep(1, options=["--partition=urgent", wish])
    assert served.cluster.wait_for_end(urgent, seconds=30) == "COMPLETED"
    assert served.cluster.wait_for_end(job) == "COMPLETED", served.cluster.output(job)
    assert served.cluster.shown(job)["Restarts"] == "1"
    refuse_repeats(served)


def test_a_job_that_never_gets_done_is_not_queued_for_ever(served: Site) -> None:
    job = served.interview(*LONG, "persona=7", environment={"TACIT_REQUEUES": "0"})
    served.wait_for_turns("long", 4, job=job)
    served.cluster.say("scancel", "--batch", "--signal=USR1", job)
    assert served.cluster.wait_for_end(job) == "FAILED"
    assert served.cluster.shown(job)["ExitCode"] == "143:0"
    assert "TACIT_REQUEUES" in served.cluster.output(job)


def test_a_signal_to_the_script_alone_lets_the_turns_in_flight_finish(served: Site) -> None:
    job = served.interview(*LONG, "persona=7")
    served.wait_for_turns("long", 8, job=job)
    served.cluster.say("scancel", "--batch", "--signal=TERM", job)  # as where cgroups track them
    assert served.cluster.wait_for_end(job) == "FAILED"
    assert served.cluster.shown(job)["ExitCode"] == "143:0"
    served.cluster.wait_for_no_process(job)
    again = served.interview(*LONG, "persona=7")
    assert served.cluster.wait_for_end(again) == "COMPLETED", served.cluster.output(again)
    refuse_repeats(served)


def test_interviews_wait_for_a_server_that_is_queued_again(site: Site) -> None:
    jobs = site.serve_both()
    job = site.interview(f"jobs=[{','.join(jobs.values())}]", *LONG, "persona=7")
    site.wait_for_turns("long", 4, job=job)
    site.cluster.say("scontrol", "requeue", jobs["personas"])
    assert site.cluster.wait_for_end(job, seconds=90) == "COMPLETED", site.cluster.output(job)
    assert site.cluster.shown(jobs["personas"])["Restarts"] == "1"
    assert site.cluster.shown(job)["Restarts"] == "0"
    assert "is queued again" in site.cluster.output(job)
    assert site.results("long") == {"persona-07": 4}, site.cluster.output(job)


def test_a_cancelled_job_is_taken_up_by_the_same_command(served: Site) -> None:
    job = served.interview(*LONG, "persona=7")
    served.wait_for_turns("long", 8, job=job)
    served.cluster.say("scancel", job)
    assert served.cluster.wait_for_end(job) == "CANCELLED"
    served.cluster.wait_for_no_process(job)
    assert served.cluster.shown(job)["Restarts"] == "0"
    again = served.interview(*LONG, "persona=7")
    assert served.cluster.wait_for_end(again) == "COMPLETED", served.cluster.output(again)
    refuse_repeats(served)


def test_a_dead_server_ends_the_interviews_within_seconds_with_its_log(site: Site) -> None:
    jobs = site.serve_both()
    job = site.interview(f"jobs=[{','.join(jobs.values())}]", *LONG, "persona=7")
    site.wait_for_turns("long", 4, job=job)
    for pid, line in site.cluster.processes(jobs["personas"]).items():
        if "vllm_stand_in" in line and "guard" not in line:
            os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    assert site.cluster.wait_for_end(jobs["personas"]) == "FAILED"
    server = time.monotonic() - began
    assert site.cluster.wait_for_end(job) == "FAILED"
    assert time.monotonic() - began - server < 5
    assert site.cluster.shown(job)["ExitCode"] == "3:0"
    shown = site.cluster.output(job)
    assert all(f"stand-in, line {number}\n" in shown for number in range(31, 81))
    assert "stand-in, line 30\n" not in shown
    again = site.serve("personas")
    site.wait_ready("personas", again)
    resumed = site.interview(f"jobs=[{jobs['gemma']},{again}]", *LONG, "persona=7")
    assert site.cluster.wait_for_end(resumed) == "COMPLETED", site.cluster.output(resumed)
    assert site.results("long") == {"persona-07": 4}


def test_waiting_ends_with_a_server_that_dies_before_it_is_ready(site: Site) -> None:
    gemma = site.serve("gemma")
    personas = site.serve("personas", environment={"STAND_IN_ENDS": "7"})
    job = site.interview(
        f"jobs=[{gemma},{personas}]", *SHORT, options=[f"--dependency=after:{gemma}:{personas}"]
    )
    site.cluster.wait_for_end(personas)
    began = time.monotonic()
    assert site.cluster.wait_for_end(job) == "FAILED"
    assert time.monotonic() - began < 5 + 2  # to be started takes a second or two
    assert site.cluster.shown(job)["ExitCode"] == "3:0"
    assert "stand-in, line 80" in site.cluster.output(job)
    assert not site.outputs.exists()


def test_a_request_without_the_key_is_one_line_and_no_interview(served: Site) -> None:
    address = f"http://{served.cluster.node}:{served.endpoint('gemma')['port']}/v1"
    job = served.interview(
        *SHORT, "persona=7", f"models.gemma.base_url={address}", "privacy=remote"
    )
    refused(served, job, "google/gemma-3-27b-it")


def test_a_model_that_nobody_serves_is_one_line_and_no_interview(served: Site) -> None:
    refused(served, served.interview(*SHORT, "persona=7", "models.gemma.name=gemma-9"), "gemma-9")


def test_a_persona_that_is_not_served_is_one_line_and_no_interview(served: Site) -> None:
    refused(served, served.interview(*SHORT, options=["--array=5"]) + "_5", "persona-05")


def refused(site: Site, job: str, name: str) -> None:
    """Expect exit code 3 after one line that names something, and nothing written."""
    assert site.cluster.wait_for_end(job) == "FAILED"
    shown = site.cluster.output(job)
    assert site.cluster.shown(job)["ExitCode"] == "3:0", shown
    lines = [line for line in shown.splitlines() if line.startswith("tacit: ")]
    assert any(name in line for line in lines), shown
    assert "Traceback" not in shown
    assert not site.outputs.exists()


def refuse_repeats(site: Site) -> None:
    """Expect that neither server was asked for one thing twice."""
    for name in ("gemma", "personas"):
        twice = {what: count for what, count in site.asked(name).items() if count > 1}
        assert not twice, twice
