"""What Slurm says about a job, through whichever of its commands the site allows.

scontrol knows everything about a job until some minutes after its end; squeue knows less, for as long; sacct
remembers it forever if accounting is on. Each is queried until one knows. Only formats that have been the
same since Slurm 17 are read: the JSON of squeue changed its form with nearly every release.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from assay import shell
from assay.errors import InputError, PlatformError
from assay.launch.batch.queue import QueuedJob, QueueSilentError, no_answer, refusal
from assay.launch.batch.script import NAME, token_of
from assay.launch.platform import KeepOffMethod, Losses, Member, NodeQuery, chosen, reason
from assay.launch.slurm import SlurmSystem
from assay.records import Extent, JobState
from assay.shell import ProgramMissingError

ASK_TIMEOUT_S = 30.0
ENDED_FROM_OUTSIDE = frozenset({"CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE"})
_UNKNOWN_JOB = "Invalid job id"
_NO_ACCOUNTING = "accounting storage is disabled"


# What to do about a reason that waiting alone may not fix. Source: squeue(1), JOB REASON CODES
PENDING_REMEDIES = {
    "PartitionTimeLimit": "the partition allows less time: reduce `timeout` or `startup`",
    "PartitionNodeLimit": "the partition has fewer nodes: use a smaller shape or another partition",
    "PartitionDown": "the partition is down: use another, or ask the cluster's administrator",
    "PartitionInactive": "the partition accepts no jobs now: use another, or ask the cluster's administrator",
    "PartitionConfig": "the partition's limits don't allow the job: assay doctor shows them",
    "BadConstraints": "no nodes can ever match: check constraint, gres, mem, and cpus_per_rank",
    "InvalidAccount": "the account is unknown: set `account`",
    "InvalidQOS": "the QOS is unknown: set `qos`",
    "JobHeldUser": "scontrol release releases it",
    "JobHeldAdmin": "an administrator holds it",
    "AssocGrpGRES": "the account uses all the GPUs that it may use",
}
_CAN_NOT_WRITE = "0:53"  # slurmd: the batch script's output file could not be opened
_NO_NODES = ("(null)", "None assigned")
_NODES_UNUSABLE = re.compile("DOWN|DRAINED|ReqNodeNotAvail")  # in the reason why a job waits
_SUBMITTED = re.compile(r"(\d+)(?:;(\S+))?")
# Source: slurm_errno.c; the first match counts
REFUSALS: Final = (
    (
        r"invalid account|qos specification|partition (name )?specified|partition not available"
        r"|not permitted|permission denied|reservation|unable to contact|timed out|authentication",
        Extent.PLATFORM,
    ),
    (r"time limit", Extent.BENCHMARK),
    (r"node configuration|partition configuration|node count|memory", Extent.SHAPE),
    (r"feature specification|gres|generic resource|node name|unrecognized option|invalid", Extent.SYSTEM),
)
# Source: squeue(1), JOB REASON CODES
HOPELESS: Final = {
    "PartitionDown": Extent.PLATFORM,
    "PartitionInactive": Extent.PLATFORM,
    "InvalidAccount": Extent.PLATFORM,
    "InvalidQOS": Extent.PLATFORM,
    "AccountNotAllowed": Extent.PLATFORM,
    "QOSNotAllowed": Extent.PLATFORM,
    "PartitionTimeLimit": Extent.BENCHMARK,
    "PartitionNodeLimit": Extent.SHAPE,
    "PartitionConfig": Extent.SHAPE,
    "BadConstraints": Extent.SHAPE,
}


@dataclass(frozen=True)
class SlurmJob(QueuedJob):
    """What Slurm says about one job.

    nodes      as Slurm writes them, `snode[1-2]`
    exit_code  `code:signal` of the batch script
    restarts   how often it was restarted under its number
    unusable   nodes that it may wait for, each with its state and the administrator's reason
    """

    called = "Slurm"
    # Source: squeue(1), JOB STATE CODES
    waiting = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD",
                         "SPECIAL_EXIT"})  # fmt: skip
    running = frozenset(
        {"RUNNING", "COMPLETING", "STAGE_OUT", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"}
    )
    suspending = frozenset({"SUSPENDED", "STOPPED"})

    restarts: int = 0
    unusable: tuple[str, ...] = ()

    @property
    def restarted(self) -> bool:
        """Whether it was restarted under its number."""
        return self.restarts > 0

    @property
    def ended_from_outside(self) -> bool:
        """Whether somebody, or Slurm, ended it."""
        return self.state in ENDED_FROM_OUTSIDE

    @property
    def lost_node(self) -> bool:
        """Whether one of its nodes failed."""
        return self.state == "NODE_FAIL"

    @property
    def hopeless(self) -> Extent | None:
        """Which jobs would wait in vain as this one does; None if it doesn't."""
        return HOPELESS.get(self.why.partition(",")[0]) if self.waits else None

    @property
    def remedy(self) -> str:
        """What to do about the reason why it waits."""
        return PENDING_REMEDIES.get(self.why.partition(",")[0], "")

    def end(self, failed_nodes: Sequence[str]) -> tuple[JobState, str] | None:
        """How Slurm, or somebody through it, ended the job; None if its script ended on its own."""
        reason = f", {self.why}" if self.why else ""
        if self.state == "CANCELLED":
            return JobState.STOPPED, self.why_stopped()
        if self.state == "TIMEOUT":
            cause = "Slurm's time limit ended it before the trial's: raise the system's `startup`"
            return JobState.TIMED_OUT, cause
        if self.state == "NODE_FAIL":
            which = ", ".join(failed_nodes) or f"one of {self.its_nodes}"
            return JobState.LOST, f"a node failed while the job ran: {which}{reason}"
        if self.state == "PREEMPTED":
            return JobState.LOST, f"Slurm preempted it for another job{reason}"
        if self.state in ("BOOT_FAIL", "REVOKED"):
            return JobState.LOST, self.why_over()
        if self.state == "OUT_OF_MEMORY":
            return JobState.FAILED, "the job used more memory than Slurm allotted: raise `mem`"
        return None

    def why_waits(self) -> str:
        """What it waits for, with the nodes that can't be used if it waits for those."""
        return "; ".join([super().why_waits(), *self.unusable])

    def why_stopped(self) -> str:
        """The cause if somebody else ended the job; a job that waited keeps the reason why."""
        if self.nodes or not self.why:
            return super().why_stopped()
        return (
            f"somebody else, not this run, ended the job while it waited ({self.why}): "
            f"{self.called} says {self.state}"
        )

    def why_not_started(self) -> str:
        """Why its batch script ended before any rank ran."""
        return self.why_not_visible() if self.exit_code == _CAN_NOT_WRITE else super().why_not_started()


@dataclass(frozen=True)
class Slurm:
    """Slurm's commands, for the named cluster if it has several."""

    cluster: str | None = None
    called: ClassVar[str] = SlurmJob.called
    lists: ClassVar[str] = "squeue"
    ends: ClassVar[str] = "scancel"

    def submit(self, directory: Path, script: Path) -> int:
        """Submit a script to run in this directory; returns the job's number."""
        try:
            command = self.run("sbatch", "--parsable", f"--chdir={directory}", str(script))
        except (QueueSilentError, ProgramMissingError) as error:
            raise PlatformError(f"sbatch: {error}") from error
        match = _SUBMITTED.fullmatch(command.stdout.strip()) if command.ok else None
        if match is None:
            raise refusal(command, extent_of)
        return int(match[1])

    def ask_to_end(self, number: int, _token: str) -> None:
        """Send SIGTERM to the processes of a job."""
        self.run("scancel", "--quiet", "--signal=TERM", str(number))

    def end(self, number: int, _token: str) -> None:
        """Remove a job from the queue, or kill it."""
        self.run("scancel", "--quiet", str(number))

    def drop(self, token: str) -> None:
        """The same for all jobs with this token."""
        self.run("scancel", "--quiet", f"--name={NAME}{token}")

    def run(self, *argv: str) -> shell.CompletedCommand:
        """Run one of its commands.

        Raises ProgramMissingError, and QueueSilentError if it does not return.
        """
        env: Mapping[str, str] = {"SLURM_CLUSTERS": self.cluster} if self.cluster else {}
        try:
            return shell.run(argv, env=env, timeout_s=ASK_TIMEOUT_S)
        except shell.CommandTimeoutError as error:
            raise QueueSilentError(f"Slurm does not respond: {error}") from error

    def ask(self, job_id: int, _token: str) -> SlurmJob | None:
        """What it says about a job; None if it knows of none with this number.

        Raises QueueSilentError if no command that could know responds.
        """
        silent: QueueSilentError | None = None
        sources: tuple[Callable[[int], SlurmJob | None], ...] = (self._scontrol, self._squeue, self._sacct)
        for source in sources:
            try:
                job = source(job_id)
            except ProgramMissingError as error:
                silent = silent or QueueSilentError(f"a command of Slurm is missing here: {error}")
                continue
            except QueueSilentError as error:
                silent = error
                continue
            if job is not None:
                return job
        if silent is not None:
            raise silent
        return None

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, newest last; at least those that wait or run.

        Raises QueueSilentError, ProgramMissingError.
        """
        listing = self.run("squeue", "--noheader", "--states=all", f"--name={NAME}{token}", "--format=%A")
        return sorted(int(line) for line in _output_lines(listing))

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token, and state of each of this user's Assay jobs that wait or run.

        Raises QueueSilentError, ProgramMissingError.
        """
        listing = self.run("squeue", "--noheader", f"--user={os.getuid()}", "--format=%A|%T|%j")
        entries = (line.strip().split("|", 2) for line in _output_lines(listing))
        return [
            (int(number), token, state)
            for number, state, name in entries
            if (token := token_of(name)) is not None
        ]

    def _scontrol(self, job_id: int) -> SlurmJob | None:
        lines = _output_lines(self.run("scontrol", "show", "job", "--oneliner", str(job_id)))
        if not lines:
            return None
        fields = dict(re.findall(r"(\w+)=(\S*)", lines[0]))
        job = _job(
            fields["JobState"],
            fields.get("Reason", "").replace("_", " "),
            fields.get("NodeList", ""),
            fields.get("ExitCode", ""),
            int(fields.get("Restarts", 0)),
        )
        if job.waits and _NODES_UNUSABLE.search(job.why):
            with suppress(QueueSilentError, ProgramMissingError):  # the reason alone is an answer
                return replace(job, unusable=tuple(self.unusable_nodes(fields.get("Partition", ""))))
        return job

    def _squeue(self, job_id: int) -> SlurmJob | None:
        lines = _output_lines(
            self.run("squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T|%N|%r")
        )
        if not lines:
            return None
        state, nodes, reason = lines[0].split("|", 2)
        return _job(state, reason, nodes)

    def _sacct(self, job_id: int) -> SlurmJob | None:
        options = ("--noheader", "--allocations", "--parsable2", "--format=State,NodeList,Reason,ExitCode")
        lines = _output_lines(self.run("sacct", f"--jobs={job_id}", *options))
        if not lines:
            return None
        state, nodes, reason, exit_code = lines[-1].split("|")
        return _job(state.split()[0], reason, nodes, exit_code)

    def unusable_nodes(self, partition: str) -> list[str]:
        """The nodes of a partition, "" for all, that take no jobs: state and the administrator's reason.

        Raises QueueSilentError, ProgramMissingError.
        """
        chosen = [f"--partition={partition}"] if partition else []
        listing = self.run("sinfo", "--noheader", "--Node", *chosen, "--format=%N|%T|%E")
        rows = sorted({tuple(line.split("|", 2)) for line in _output_lines(listing) if line.count("|") >= 2})
        return [
            f"{name} {state}" + ("" if reason in ("none", "None") else f" ({reason})")
            for name, state, reason in rows
            if re.search(r"down|drain|fail|unknown|\*", state)
        ]

    def failed_nodes(self, nodes: str) -> list[str]:
        """The nodes among these that are down or unresponsive, each with its state.

        Raises QueueSilentError.
        """
        listing = self.run("sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%N|%T")
        states = sorted({tuple(line.split("|")) for line in _output_lines(listing)})
        return [f"{name} ({state})" for name, state in states if re.search(r"down|fail|\*$", state)]


def _job(state: str, reason: str, nodes: str, exit_code: str = "", restarts: int = 0) -> SlurmJob:
    """The job, with "" for each of Slurm's own words for none."""
    why = "" if reason == "None" else reason
    return SlurmJob(state, why, "" if nodes in _NO_NODES else nodes, exit_code, restarts)


def _output_lines(command: shell.CompletedCommand) -> list[str]:
    """What a command printed; nothing for an unknown job. Raises QueueSilentError for every other failure."""
    if command.ok:
        return [line for line in command.stdout.splitlines() if line.strip()]
    if _UNKNOWN_JOB in command.stderr or _NO_ACCOUNTING in command.stderr:
        return []
    raise no_answer(Slurm.called, command)


def extent_of(message: str) -> Extent:
    """Which jobs it would refuse for the same reason as this one.

    >>> extent_of("sbatch: error: Batch job submission failed: Requested node configuration is not available")
    <Extent.SHAPE: 'shape'>
    """
    extents = (extent for pattern, extent in REFUSALS if re.search(pattern, message, re.IGNORECASE))
    return next(extents, Extent.POINT)


SWITCH = "switch"  # what nodes share, as the value of `--by`
# Source: sinfo(1), NODE STATE CODES: the word may be followed by a mark; * means that the node does not
# respond
_STATE = re.compile(r"([a-z_]+)([^a-z_]*)")
_TAKES_JOBS = {"idle", "mixed", "allocated", "completing", "planned"}
_RESERVED = {"reserved", "maint"}
_ALL_OF = re.compile(r"[A-Za-z0-9_.:+-]+(&[A-Za-z0-9_.:+-]+)*")


def members(system: SlurmSystem, query: NodeQuery) -> list[Member]:
    """The nodes by name.

    Raises InputError for a system whose nodes Slurm can't list, QueueSilentError if it does not respond.
    """
    slurm, by = Slurm(system.cluster), query.by
    if by and by != SWITCH:
        raise InputError(f"--by {by}: only the switch of Slurm's nodes is known; write --by {SWITCH}")
    states = dict(sorted(_states(slurm, system)))
    switches = dict(_switches(slurm)) if by else {}
    names = chosen(states, _hosts(slurm, ",".join(query.named)) if query.named else ())
    return [_member(name, states[name], switches.get(name), system, idle=query.idle) for name in names]


def _member(name: str, state: str, switch: str | None, system: SlurmSystem, *, idle: bool) -> Member:
    shared = {} if switch is None else {SWITCH: switch}
    match = _STATE.fullmatch(state)
    word, marks = (match[1], match[2]) if match else (state, "")
    if "*" in marks or word not in _TAKES_JOBS | (_RESERVED if system.reservation else set()):
        return Member(name, f"{state} according to Slurm", shared=shared)
    return Member(name, used=f"{state} according to Slurm" if idle and word != "idle" else "", shared=shared)


def _states(slurm: Slurm, system: SlurmSystem) -> Iterator[tuple[str, str]]:
    """Each node that the system's jobs may run on, and its state."""
    features = _features(system.constraint)
    only = set(_hosts(slurm, system.nodelist)) if system.nodelist else None
    never = set(_hosts(slurm, system.exclude)) if system.exclude else set()
    listing = slurm.run("sinfo", "--noheader", "--Node", "--format=%N|%P|%T|%f")
    for line in map(str.strip, _output_lines(listing)):
        name, partition, state, has = line.split("|", 3)
        if system.partition is None:
            in_partition = partition.endswith("*")  # the default one
        else:
            in_partition = partition.rstrip("*") in system.partition.split(",")
        in_lists = name not in never and (only is None or name in only)
        if in_partition and in_lists and features <= {*has.split(",")}:
            yield name, state


def _features(constraint: str | None) -> set[str]:
    """The required features."""
    if constraint is None:
        return set()
    if _ALL_OF.fullmatch(constraint) is None:
        raise InputError(
            f"constraint: Slurm decides for each job which nodes have {constraint}; set the system's "
            "`nodelist` instead"
        )
    return {*constraint.split("&")}


def _switches(slurm: Slurm) -> Iterator[tuple[str, str]]:
    """Each node and its leaf switch. Raises InputError if Slurm knows of no switches."""
    topology = slurm.run("scontrol", "show", "topology")
    leaves = re.findall(r"^SwitchName=(\S+) Level=0 .*?\bNodes=(\S+)", topology.stdout, re.MULTILINE)
    if not leaves:
        why = topology.stderr.strip() or "it knows of no switches"
        raise InputError(f"--by {SWITCH}: Slurm has no TopologyPlugin that lists switches ({why})")
    for switch, nodes in leaves:
        for node in _hosts(slurm, nodes):
            yield node, switch


def _hosts(slurm: Slurm, nodes: str) -> list[str]:
    """`gpu[01-02]` → gpu01, gpu02."""
    return [*map(str.strip, _output_lines(slurm.run("scontrol", "show", "hostnames", nodes)))]


def keep_off_methods(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Draining, with its reason."""

    def update(node: str, *settings: str) -> str:
        return shlex.join(["scontrol", "update", f"NodeName={node}", *settings])

    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(update(node, "State=DRAIN", f"Reason={reason(losses)}") for node, losses in slow.items()),
            tuple(update(node, "State=RESUME") for node in slow),
        ),
    )
