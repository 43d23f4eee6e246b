"""A Slurm cluster of one node on this machine, without systemd: Debian's own, in a folder.

    with Cluster(folder) as cluster:
        job = cluster.submit("slurm/serve_gemma.sh", "serving=cpu")

The node claims more processors, memory and GPUs than there are, so that scripts made for a real
cluster run as they stand. Nothing is enforced, and there is no accounting.
"""

import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from terminal import ROOT, variables

PACKAGES = ("munge", "slurmctld", "slurmd", "slurm-client")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "scontrol")
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED")

CPUS, GPUS = 64, 4
"""What the node claims to have."""

SLURM_CONF = """\
ClusterName=tacit
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={control_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=1000
EnforcePartLimits=ALL
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
MinJobAge=3600
KillWait=30
InactiveLimit=0
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/finished.txt
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1024000 Gres=gpu:h200:{gpus} State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=1-00:00:00 State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes={node} Default=NO MaxTime=1-00:00:00 State=UP PriorityTier=2
"""


def install() -> str | None:
    """Install Debian's Slurm where it is absent; return why it could not be, if so."""
    if all(shutil.which(program) for program in PROGRAMS):
        return None
    if not shutil.which("apt-get"):
        return "there is no apt-get here, and no Slurm"
    quiet = variables({"DEBIAN_FRONTEND": "noninteractive"})
    order = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    for command in (order, ["apt-get", "update"], order):
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if command is order and done.returncode == 0:
            return None
    return f"apt-get cannot install Slurm: {done.stderr.strip().splitlines()[-1:]}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(
    holds: Callable[[], object],
    what: str,
    *,
    seconds: float = 60.0,
    shown: Callable[[], str] = str,
) -> float:
    """Wait until something holds; return how long it took. `shown` says why it may not."""
    began = time.monotonic()
    while not holds():
        late = time.monotonic() - began > seconds
        assert not late, f"{what}: not within {seconds:g} s\n{shown()}"
        time.sleep(0.05)
    return time.monotonic() - began


class Cluster:
    """The three daemons, and what a user says to them."""

    def __init__(self, folder: Path) -> None:
        """Take an empty folder for everything that the daemons write."""
        self.folder, self.node = folder, socket.gethostname().partition(".")[0]
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._write_configuration()
        try:
            self._start_daemons()
        except BaseException:
            self._end_daemons()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.cancel(*self.say("squeue", "-h", "-o", "%A", check=False).split())
        finally:
            self._end_daemons()

    def cancel(self, *jobs: str) -> None:
        """End some jobs and wait until none of them is left."""
        if jobs:
            self.say("scancel", *jobs, check=False)
            queue = ("squeue", "-h", "-o", "%A", "-j", ",".join(jobs))
            wait_until(lambda: not self.say(*queue, check=False), f"the end of jobs {jobs}")

    def say(self, *command: str, check: bool = True) -> str:
        """Run one of Slurm's commands; return what it prints."""
        done = self.ask(command)
        assert done.returncode == 0 or not check, f"{shlex.join(command)}: {done.stderr}"
        return done.stdout.strip()

    def ask(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run one of Slurm's commands from the checkout's top folder."""
        own = {"SLURM_CONF": str(self.folder / "slurm.conf")} | dict(environment or {})
        return subprocess.run(
            command, cwd=ROOT, env=variables(own), capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    def submit(
        self,
        script: str,
        *arguments: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Submit a script; return the job's id. What it prints goes to `output(job)`."""
        output = f"--output={self.folder}/job-%A_%a.out" if _is_array(options) else (
            f"--output={self.folder}/job-%j.out"
        )  # fmt: skip
        done = self.ask(["sbatch", "--parsable", output, *options, script, *arguments], environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def sleep(self, seconds: int, *, options: Sequence[str] = ()) -> str:
        """Submit a job that does nothing for a while."""
        wrapped = ["sbatch", "--parsable", "--output=/dev/null", *options]
        return self.say(*wrapped, f"--wrap=sleep {seconds}")

    def output(self, job: str) -> str:
        path = self.folder / f"job-{job}.out"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def shown(self, job: str) -> dict[str, str]:
        """Return what Slurm knows of a job, such as `JobState` and `ExitCode`."""
        words = self.say("scontrol", "show", "job", "-o", job).split()
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def state(self, job: str) -> str:
        return self.shown(job)["JobState"]

    def wait_for(self, job: str, *states: str, seconds: float = 60.0) -> float:
        """Wait for one of some states; a job that ended in another one fails at once."""

        def reached() -> bool:
            state = self.state(job)
            assert state in states or state not in OVER, f"{job}: {state}\n{self.output(job)}"
            return state in states

        what = f"job {job} {'|'.join(states)}"
        return wait_until(reached, what, seconds=seconds, shown=lambda: self.output(job))

    def wait_for_end(self, job: str, *, seconds: float = 60.0) -> str:
        """Wait until a job is over; return its state."""
        wait_until(
            lambda: self.state(job) in OVER,
            f"the end of job {job}",
            seconds=seconds,
            shown=lambda: self.output(job),
        )
        return self.state(job)

    def wait_for_no_process(self, job: str) -> None:
        """Wait until nothing of a job is left; after its end that takes a moment."""
        wait_until(lambda: not self.processes(job), f"the last process of job {job}", seconds=15)

    def processes(self, job: str) -> dict[int, str]:
        """Return the command lines of this job's living processes by process id."""
        mark = f"\0SLURM_JOB_ID={job}\0".encode()
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                variables_there = (folder / "environ").read_bytes()
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in b"\0" + variables_there and line:  # a zombie has no command line
                found[int(folder.name)] = line.replace(b"\0", b" ").decode(errors="replace")
        return found

    def _write_configuration(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        text = SLURM_CONF.format(
            node=self.node,
            folder=self.folder,
            control_port=free_port(),
            node_port=free_port(),
            cpus=CPUS,
            gpus=GPUS,
        )
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n", encoding="utf-8")
        devices = [self.folder / f"gpu{n}" for n in range(GPUS)]
        for device in devices:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
        lines = [f"Name=gpu Type=h200 File={device}\n" for device in devices]
        (self.folder / "gres.conf").write_text("".join(lines), encoding="utf-8")

    def _start_daemons(self) -> None:
        folder = self.folder
        key, conf = f"{folder}/munge.key", f"{folder}/slurm.conf"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True)
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid",
            f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log",
        )  # fmt: skip
        wait_until((folder / "munge.socket").exists, "munged", seconds=20)
        self._start("slurmctld", "-D", "-i", "-f", conf)
        self._start("slurmd", "-D", "-f", conf, "-N", self.node)
        wait_until(
            lambda: self.say("sinfo", "-h", "-o", "%T", "-p", "main", check=False) == "idle",
            "an idle node", seconds=30,
        )  # fmt: skip

    def _start(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    command, stdout=out, stderr=out, env=variables(), start_new_session=True
                )
            )

    def _end_daemons(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _is_array(options: Sequence[str]) -> bool:
    return any(option.startswith("--array") for option in options)
