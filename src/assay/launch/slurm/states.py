"""What Slurm says of a job, by whichever of its commands the site lets one use.

scontrol knows all of a job, until some minutes after its end; squeue less, for as long; sacct remembers it
for good where accounting is on. Each is asked until one knows. Only forms are read that have been the same
since Slurm 17: the JSON of squeue changed its shape with nearly every release.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from assay import shell
from assay.errors import PlatformError
from assay.launch.batch.job_state import why_over, why_stopped
from assay.launch.batch.queue import QueueSilentError
from assay.launch.batch.script import EXIT_NOT_OURS, EXIT_NOT_VISIBLE, NAME
from assay.launch.launcher import JobRefusedError
from assay.launch.slurm.refusals import HOPELESS, extent_of
from assay.records import Extent, JobState
from assay.shell import ProgramMissingError

ASK_TIMEOUT_S = 30.0
# Source: squeue(1), JOB STATE CODES; every other state is final
WAITS = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD",
                   "SPECIAL_EXIT"})  # fmt: skip
RUNS = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})
SUSPENDED = frozenset({"SUSPENDED", "STOPPED"})
ENDED_FROM_OUTSIDE = frozenset({"CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE"})
_UNKNOWN_JOB = "Invalid job id"
_NO_ACCOUNTING = "accounting storage is disabled"


# What to do about a reason that waiting alone may not mend. Source: squeue(1), JOB REASON CODES
PENDING_REMEDIES = {
    "PartitionTimeLimit": "the partition allows less time: lower `timeout` or `startup`",
    "PartitionNodeLimit": "the partition has not so many nodes: take a smaller shape or another partition",
    "PartitionDown": "the partition is down: take another, or ask who runs the cluster",
    "PartitionInactive": "the partition takes no jobs now: take another, or ask who runs the cluster",
    "PartitionConfig": "the partition's limits don't allow the job: assay doctor shows them",
    "BadConstraints": "no nodes can ever fit: look at constraint, gres, mem and cpus_per_rank",
    "InvalidAccount": "the account is not known: set `account`",
    "InvalidQOS": "the QOS is not known: set `qos`",
    "JobHeldUser": "scontrol release lets it go on",
    "JobHeldAdmin": "an administrator holds it",
    "AssocGrpGRES": "the account has all the GPUs that it may",
}
_CAN_NOT_WRITE = "0:53"  # slurmd: the batch script's output file could not be opened
_SUBMITTED = re.compile(r"(\d+)(?:;(\S+))?")


@dataclass(frozen=True)
class SlurmJob:
    """What Slurm says of one job.

    nodes      as Slurm writes them, `snode[1-2]`; "" while it has none
    exit_code  `code:signal` of the batch script; "" where that was not asked
    restarts   times that it was started anew under its number
    """

    state: str
    reason: str
    nodes: str
    exit_code: str = ""
    restarts: int = 0

    @property
    def over(self) -> bool:
        """Nothing of it runs or will run."""
        return self.state not in WAITS | RUNS

    @property
    def waits(self) -> bool:
        """It has not begun, or is to begin again."""
        return self.state in WAITS

    @property
    def suspended(self) -> bool:
        """Its processes are stopped for a while."""
        return self.state in SUSPENDED

    @property
    def restarted(self) -> bool:
        """It was started anew under its number."""
        return self.restarts > 0

    @property
    def ended_from_outside(self) -> bool:
        """Somebody, or Slurm, ended it."""
        return self.state in ENDED_FROM_OUTSIDE

    @property
    def lost_node(self) -> bool:
        """A node of it failed."""
        return self.state == "NODE_FAIL"

    @property
    def trouble(self) -> str:
        """What is wrong with it while it runs: Slurm's states have nothing of the kind."""
        return ""

    @property
    def hopeless(self) -> Extent | None:
        """It waits for what waiting does not bring; which other jobs would."""
        return HOPELESS.get(self.reason.partition(",")[0]) if self.waits else None

    @property
    def why(self) -> str:
        """The reason; "" where Slurm gives none."""
        return "" if self.reason == "None" else self.reason

    def why_waits(self) -> str:
        """What it waits for, with what to do where waiting alone may not help."""
        remedy = PENDING_REMEDIES.get(self.why.partition(",")[0])
        return f"{self.state.lower()}: {self.why or 'Slurm gives no reason yet'}" + (
            f"; {remedy}" if remedy else ""
        )

    def end(self, failed_nodes: Sequence[str]) -> tuple[JobState, str] | None:
        """How Slurm, or somebody through it, ended the job; None where its script ended by itself."""
        reason = f", {self.why}" if self.why else ""
        if self.state == "CANCELLED":
            return JobState.STOPPED, why_stopped(self, "Slurm")
        if self.state == "TIMEOUT":
            cause = "Slurm's own time limit ended it before the trial's: raise the system's `startup`"
            return JobState.TIMED_OUT, cause
        if self.state == "NODE_FAIL":
            which = ", ".join(failed_nodes) or f"one of {self.nodes}"
            return JobState.LOST, f"a node failed while the job ran: {which}{reason}"
        if self.state == "PREEMPTED":
            return JobState.LOST, f"Slurm preempted it for another job{reason}"
        if self.state in ("BOOT_FAIL", "REVOKED"):
            return JobState.LOST, why_over(self, "Slurm")
        if self.state == "OUT_OF_MEMORY":
            return JobState.FAILED, "the job ran out of the memory that Slurm gave it: raise `mem`"
        return None

    def why_not_started(self) -> str:
        """Why its batch script ended before any rank ran."""
        code = self.exit_code.partition(":")[0]
        if self.exit_code == _CAN_NOT_WRITE or code == str(EXIT_NOT_VISIBLE):
            return (
                f"the nodes ({self.nodes}) can't write the job's directory: set the system's `directory` to "
                "one that they share with this machine"
            )
        if code == str(EXIT_NOT_OURS):
            return "the job was given up before it started"
        return f"the batch script exited {code or 'with an error'} before the ranks started"


@dataclass(frozen=True)
class Slurm:
    """The commands of a Slurm, of the named cluster where it has several."""

    cluster: str | None = None
    called: ClassVar[str] = "Slurm"
    lists: ClassVar[str] = "squeue"
    ends: ClassVar[str] = "scancel"

    def submit(self, directory: Path, script: Path) -> int:
        """Hand in a script to be run in this directory; the job's number."""
        try:
            said = self.run("sbatch", "--parsable", f"--chdir={directory}", str(script))
        except (QueueSilentError, ProgramMissingError) as error:
            raise PlatformError(f"sbatch: {error}") from error
        found = _SUBMITTED.fullmatch(said.stdout.strip()) if said.ok else None
        if found is not None:
            return int(found[1])
        why = said.stderr.strip() or said.stdout.strip()
        extent = extent_of(why)
        if extent is Extent.PLATFORM:
            raise PlatformError(f"sbatch refused the job: {why}")
        raise JobRefusedError(f"sbatch refused the job: {why}", extent)

    def ask_to_end(self, number: int, _token: str) -> None:
        """Have SIGTERM sent to the processes of a job."""
        self.run("scancel", "--quiet", "--signal=TERM", str(number))

    def end(self, number: int, _token: str) -> None:
        """Take a job out of the queue, or kill it."""
        self.run("scancel", "--quiet", str(number))

    def drop(self, token: str) -> None:
        """The same for whatever has this token."""
        self.run("scancel", "--quiet", f"--name={NAME}{token}")

    def run(self, *argv: str) -> shell.CompletedCommand:
        """One of its commands.

        Raises ProgramMissingError, and QueueSilentError where it does not come back.
        """
        env: Mapping[str, str] = {"SLURM_CLUSTERS": self.cluster} if self.cluster else {}
        try:
            return shell.run(argv, env=env, timeout_s=ASK_TIMEOUT_S)
        except shell.CommandTimeoutError as error:
            raise QueueSilentError(f"Slurm does not answer: {error}") from error

    def ask(self, job_id: int, _token: str) -> SlurmJob | None:
        """What it says of a job; None where it knows of none of this number.

        Raises QueueSilentError where nothing that could know answers.
        """
        silent: QueueSilentError | None = None
        sources: tuple[Callable[[int], SlurmJob | None], ...] = (self._scontrol, self._squeue, self._sacct)
        for source in sources:
            try:
                told = source(job_id)
            except ProgramMissingError as error:
                silent = silent or QueueSilentError(f"a command of Slurm is missing here: {error}")
                continue
            except QueueSilentError as error:
                silent = error
                continue
            if told is not None:
                return told
        if silent is not None:
            raise silent
        return None

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, the newest last; those that wait or run at least.

        Raises QueueSilentError, ProgramMissingError.
        """
        said = self.run("squeue", "--noheader", "--states=all", f"--name={NAME}{token}", "--format=%A")
        return sorted(int(line) for line in _lines(said))

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token and state of each of this user's jobs of Assay's that wait or run.

        Raises QueueSilentError, ProgramMissingError.
        """
        said = self.run("squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%A|%T|%j")
        entries = (line.strip().split("|", 2) for line in _lines(said))
        return [
            (int(number), name.removeprefix(NAME), state)
            for number, state, name in entries
            if re.fullmatch(rf"{NAME}[0-9a-f]{{32}}", name)
        ]

    def _scontrol(self, job_id: int) -> SlurmJob | None:
        lines = _lines(self.run("scontrol", "show", "job", "--oneliner", str(job_id)))
        if not lines:
            return None
        fields = dict(re.findall(r"(\w+)=(\S*)", lines[0]))
        nodes = fields.get("NodeList", "")
        return SlurmJob(
            fields["JobState"],
            fields.get("Reason", "").replace("_", " "),
            "" if nodes == "(null)" else nodes,
            fields.get("ExitCode", ""),
            int(fields.get("Restarts", 0)),
        )

    def _squeue(self, job_id: int) -> SlurmJob | None:
        lines = _lines(
            self.run("squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T|%N|%r")
        )
        return SlurmJob(*_order(lines[0].split("|", 2))) if lines else None

    def _sacct(self, job_id: int) -> SlurmJob | None:
        asked = ("--noheader", "--allocations", "--parsable2", "--format=State,NodeList,Reason,ExitCode")
        lines = _lines(self.run("sacct", f"--jobs={job_id}", *asked))
        if not lines:
            return None
        state, nodes, reason, exit_code = lines[-1].split("|")
        return SlurmJob(state.split()[0], reason, "" if nodes == "None assigned" else nodes, exit_code)

    def failed_nodes(self, nodes: str) -> list[str]:
        """Those of these nodes that are down or don't answer, each with its state.

        Raises QueueSilentError.
        """
        said = self.run("sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%N|%T")
        found = sorted({tuple(line.split("|")) for line in _lines(said)})
        return [f"{name} ({state})" for name, state in found if re.search(r"down|fail|\*$", state)]


def _order(fields: list[str]) -> tuple[str, str, str]:
    state, nodes, reason = fields
    return state, reason, nodes


def _lines(said: shell.CompletedCommand) -> list[str]:
    """What a command printed; nothing for an unknown job. Raises QueueSilentError for every other failure."""
    if said.ok:
        return [line for line in said.stdout.splitlines() if line.strip()]
    if _UNKNOWN_JOB in said.stderr or _NO_ACCOUNTING in said.stderr:
        return []
    raise QueueSilentError(f"Slurm does not answer: {said.argv[0]}: {said.stderr.strip() or said.exit_code}")
