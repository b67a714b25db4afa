"""LSF through its commands: JSON from bjobs and bhosts; for jobs that those have forgotten, bhist's text.

Job numbers wrap around after 999,999. So no job is read or ended unless its name contains the token that
Assay gave it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from assay import shell
from assay.errors import InputError, PlatformError
from assay.launch.batch.queue import QueuedJob, QueueSilentError, no_answer, refusal
from assay.launch.batch.script import EXIT_NOT_OURS, NAME, token_of
from assay.launch.lsf import LsfSystem
from assay.launch.platform import KeepOffMethod, Losses, Member, NodeQuery, chosen, reason
from assay.records import Extent, JobState
from assay.shell import ProgramMissingError

ASK_TIMEOUT_S = 30.0
EXIT_OTHER_HOSTS = 76  # of the batch script
UNREACHED = frozenset({"UNKWN", "ZOMBI"})
AWAY = ("unavail", "unreach", "closed_LIM")  # states of a host that does not respond
FIELDS = "jobid stat job_name exec_host exit_code exit_reason pend_reason"
_SUBMITTED = re.compile(r"Job <(\d+)> is submitted to")
_NONE = re.compile(r"not found|No (unfinished |matching |pending )?job|No matching", re.IGNORECASE)
_TERM = re.compile(r"TERM_[A-Z_]+")
_SOMEBODY = {"TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN"}
_BY_ITSELF = {"TERM_OTHER", "TERM_EXTERNAL_SIGNAL"}  # a process of the job ended this way; LSF did not end it
_LIMITS = {"TERM_CPULIMIT", "TERM_PROCESSLIMIT", "TERM_THREADLIMIT", "TERM_SWAP"}
PENDING_REMEDIES = (
    (r"suspended by the (user|owner)", "bresume resumes it"),
    (r"suspended by.*(admin|root)", "an administrator holds it"),
    (
        r"inactivated|closed",
        "the queue or its hosts accept no jobs now: choose another, or ask its administrator",
    ),
    (
        r"no suitable hosts|span|requirements? not",
        "check resources, gpu, hosts, cpus_per_rank, and the shape",
    ),
    (r"slot limit", "you or the queue use all the slots allowed"),
)
# From LSF's manuals; the first match counts
REFUSALS: Final = (
    (
        r"no such queue|use the queue|queue (has been|is) closed|queue name|project|application profile"
        r"|user group|permission|reservation|LSF is down|not responding|can'?t (contact|connect)|timed? ?out"
        r"|authentication|licen[cs]e",
        Extent.PLATFORM,
    ),
    (r"runlimit|run limit", Extent.BENCHMARK),
    (r"too many (processors|slots|tasks)|proclimit|task ?limit|memlimit|memory", Extent.SHAPE),
    (
        r"resource requirement|res_req|gpu|bad host|host name|host group|esub|illegal option|bad argument"
        r"|syntax|invalid|unknown option",
        Extent.SYSTEM,
    ),
)
# Reasons why a job waits in vain → which other jobs would
HOPELESS: Final = (
    (r"queue is inactivated by the administrator|queue was inactivated by", Extent.PLATFORM),
    (r"never be satisfied|requirements? can(not| not|'t) ever", Extent.SHAPE),
)


@dataclass(frozen=True)
class LsfJob(QueuedJob):
    """What LSF says about one job.

    why    the reason why it waits or ended: `TERM_OWNER: job killed by owner`
    nodes  names of its hosts
    """

    called = "LSF"
    # Source: bjobs(1), STAT
    waiting = frozenset({"PEND", "PSUSP", "WAIT", "PROV", "FWD_PEND"})
    suspending = frozenset({"USUSP", "SSUSP"})
    running = frozenset({"RUN"}) | suspending | UNREACHED

    @property
    def restarted(self) -> bool:
        """Whether it was restarted under its number: the second start found the job taken."""
        return self.over and self.exit_code == str(EXIT_NOT_OURS)

    @property
    def ended_from_outside(self) -> bool:
        """Whether somebody, or LSF, ended it."""
        return self.end(()) is not None

    @property
    def lost_node(self) -> bool:
        """Whether one of its hosts failed."""
        return self._term in ("TERM_UNKNOWN", "TERM_ZOMBI")

    @property
    def hopeless(self) -> Extent | None:
        """Which jobs would wait in vain as this one does; None if it doesn't."""
        return hopeless(self.why) if self.waits else None

    @property
    def remedy(self) -> str:
        """What to do about the reason why it waits."""
        return next(
            (remedy for pattern, remedy in PENDING_REMEDIES if re.search(pattern, self.why, re.I)), ""
        )

    @property
    def trouble(self) -> str:
        """That it is suspended, or that its host does not respond, which may be temporary."""
        if self.state not in UNREACHED:
            return super().trouble
        return f"LSF says {self.state}: {self.nodes or 'its host'} does not respond, but may come back"

    def end(self, failed_nodes: Sequence[str]) -> tuple[JobState, str] | None:
        """How LSF, or somebody through it, ended the job; None if its script ended on its own."""
        term = self._term
        if not self.over or not term or term in _BY_ITSELF:
            return None
        if term in _SOMEBODY:
            return JobState.STOPPED, self.why_stopped()
        if term == "TERM_RUNLIMIT":
            cause = "LSF's run limit ended it before the trial's time limit: raise the system's `startup`"
            return JobState.TIMED_OUT, cause
        if term == "TERM_MEMLIMIT":
            return JobState.FAILED, "the job used more memory than LSF allotted: raise `mem`"
        if term == "TERM_CWD_NOTEXIST":
            return JobState.FAILED, self.why_not_visible()
        if term in _LIMITS:
            return (
                JobState.FAILED,
                f"one of LSF's limits ended it ({self.why}): bqueues -l shows the queue's limits",
            )
        which = f": {', '.join(failed_nodes)}" if failed_nodes else ""
        return JobState.LOST, f"LSF ended it ({self.why}){which}"

    def why_not_started(self) -> str:
        """Why its batch script ended before any rank ran."""
        if self.exit_code == str(EXIT_OTHER_HOSTS):
            return "LSF allotted different hosts than the job's shape needs"
        return super().why_not_started()

    @property
    def _term(self) -> str:
        match = _TERM.match(self.why)
        return match[0] if match and self.over else ""


@dataclass(frozen=True)
class Lsf:
    """LSF's commands."""

    called: ClassVar[str] = LsfJob.called
    lists: ClassVar[str] = "bjobs"
    ends: ClassVar[str] = "bkill"

    def run(self, *argv: str, stdin: Path | None = None) -> shell.CompletedCommand:
        """Run one of its commands. Raises ProgramMissingError, and QueueSilentError if it does not return.

        While LSF is down, its commands wait for it: `LSF is down. Please wait ...`.
        """
        try:
            return shell.run(argv, stdin=stdin or "", timeout_s=ASK_TIMEOUT_S)
        except shell.CommandTimeoutError as error:
            raise QueueSilentError(f"LSF does not respond: {error}") from error

    def records(self, *argv: str) -> list[Mapping[str, str]]:
        """A command's JSON records, without those it reports as missing. Raises as `run`."""
        command = self.run(*argv)
        _, brace, text = command.stdout.partition("{")
        if not brace:
            if _NONE.search(command.stderr or command.stdout):
                return []
            raise no_answer(self.called, command)
        try:
            entries = json.loads(brace + text)["RECORDS"]
        except (ValueError, KeyError, TypeError) as error:
            raise QueueSilentError(
                f"LSF does not respond: {argv[0]}: {command.stdout.strip()[:200]}"
            ) from error
        return [record for record in entries if "ERROR" not in record]

    def submit(self, directory: Path, script: Path) -> int:
        """Submit a script to run in this directory; returns the job's number."""
        try:
            command = self.run("bsub", "-cwd", str(directory), stdin=script)
        except (QueueSilentError, ProgramMissingError) as error:
            raise PlatformError(f"bsub: {error}") from error
        match = _SUBMITTED.search(command.stdout + command.stderr)
        if match is None:
            raise refusal(command, extent_of)
        return int(match[1])

    def ask(self, number: int, token: str) -> LsfJob | None:
        """What it says about a job; None if it knows of none with this number and token."""
        for record in self.records("bjobs", "-a", "-json", "-o", FIELDS, str(number)):
            if record.get("JOB_NAME") == NAME + token:
                return _job(record)
        return self._from_history(number, token)

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, newest last."""
        fields = "jobid stat job_name submit_time"
        records = self.records("bjobs", "-a", "-json", "-o", fields, "-J", NAME + token)
        return sorted(int(record["JOBID"]) for record in records)

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token, and state of each of this user's Assay jobs that wait or run."""
        records = self.records("bjobs", "-json", "-o", "jobid stat job_name", "-J", f"{NAME}*")
        return [
            (int(record["JOBID"]), token, record["STAT"])
            for record in records
            if (token := token_of(record["JOB_NAME"])) is not None
        ]

    def failed_nodes(self, nodes: str) -> list[str]:
        """The hosts among these that don't respond, each with its state."""
        records = self.records("bhosts", "-json", "-o", "host_name status", *nodes.split(", "))
        hosts = sorted((record["HOST_NAME"], record["STATUS"]) for record in records)
        return [f"{name} ({status})" for name, status in hosts if status in AWAY]

    def ask_to_end(self, number: int, token: str) -> None:
        """Send SIGTERM to the processes of a job."""
        self._kill(number, token, "-s", "TERM")

    def end(self, number: int, token: str) -> None:
        """Remove a job from the queue, or kill it."""
        self._kill(number, token)

    def drop(self, token: str) -> None:
        """The same for all jobs with this token."""
        for number, its_token, _ in self.queued():
            if its_token == token:
                self.run("bkill", str(number))

    def _kill(self, number: int, token: str, *options: str) -> None:
        """By its number alone: `bkill 0` would end every job of this user."""
        job = self.ask(number, token)
        if number > 0 and job is not None and not job.over:
            self.run("bkill", *options, str(number))

    def _from_history(self, number: int, token: str) -> LsfJob | None:
        """What bhist reports about a job that bjobs has forgotten, an hour after its end (CLEAN_PERIOD)."""
        try:
            history = self.run("bhist", "-n", "0", "-l", str(number))
        except ProgramMissingError:
            return None
        if not history.ok and not _NONE.search(history.stderr or history.stdout):
            raise no_answer(self.called, history)
        return from_history(history.stdout, number, token)


def from_history(text: str, number: int, token: str) -> LsfJob | None:
    """The end that `bhist -l` reports for the job with this name; None if it reports none.

    It wraps lines in the middle of words, so matching ignores all whitespace.
    """
    for part in re.split(r"^-+$", text, flags=re.MULTILINE):
        dense = re.sub(r"\s+", "", part)
        if f"Job<{number}>,JobName<{NAME}{token}>" not in dense:
            continue
        ended = re.findall(r"Completed<(done|exit)>(?:;(TERM_[A-Z_]+))?", dense)
        if not ended:
            return None
        how, term = ended[-1]
        hosts = re.findall(r"Dispatched[^<;]*((?:<[^<>]+>)+)", dense)
        names = dict.fromkeys(re.findall(r"<(?:\d+\*)?([^<>]+)>", hosts[-1])) if hosts else {}
        code = re.findall(r"Exitedwithexitcode(\d+)", dense)
        exit_code = code[-1] if code else ("0" if how == "done" else "")
        return LsfJob(how.upper(), term, ", ".join(names), exit_code)
    return None


def _job(record: Mapping[str, Any]) -> LsfJob:
    state = record["STAT"]
    over = state not in LsfJob.waiting | LsfJob.running
    why = record.get("EXIT_REASON" if over else "PEND_REASON", "")
    hosts = dict.fromkeys(part.rpartition("*")[2] for part in record.get("EXEC_HOST", "").split(":") if part)
    why = " ".join(why.replace("\n", " ").rstrip("; ").split())
    code = record.get("EXIT_CODE", "") or ("0" if state == "DONE" else "")
    return LsfJob(state, "" if why == "-" else why, ", ".join(hosts), code)


def extent_of(message: str) -> Extent:
    """Which jobs it would refuse for the same reason as this one.

    >>> extent_of("Too many processors requested. Job not submitted.")
    <Extent.SHAPE: 'shape'>
    """
    return _first(REFUSALS, message) or Extent.POINT


def hopeless(reason: str) -> Extent | None:
    """Which jobs would wait in vain for this reason; None if waiting may help."""
    return _first(HOPELESS, reason)


def _first(table: tuple[tuple[str, Extent], ...], message: str) -> Extent | None:
    extents = (extent for pattern, extent in table if re.search(pattern, message, re.IGNORECASE))
    return next(extents, None)


# Source: bhosts(1), STATUS: a host that is full or busy accepts jobs again once its jobs have ended
_TAKES_JOBS = {"ok", "closed_Full", "closed_Excl", "closed_Busy", "closed_cu_Excl"}
_SELECT = re.compile(r"select\s*\[[^\]]*\]")


def members(system: LsfSystem, query: NodeQuery) -> list[Member]:
    """The hosts by name.

    Raises InputError for what LSF does not know, QueueSilentError if it does not respond.
    """
    if query.by:
        raise InputError(
            f"--by {query.by}: LSF does not report what hosts share; remove it, or list the hosts of one "
            "switch with --nodes"
        )
    records = dict(sorted(hosts_of(Lsf(), system).items()))
    return [_member(records[name], idle=query.idle) for name in chosen(records, query.named)]


def hosts_of(lsf: Lsf, system: LsfSystem) -> dict[str, Mapping[str, str]]:
    """Each host that the system's jobs may run on, from bhosts: the hosts of the queue, of `hosts`, and
    those that `resources` select.
    """
    groups = _of_queue(lsf, system.queue) if system.queue is not None else ()
    host_records = _hosts(lsf, system, groups)
    if system.hosts:
        named = _hosts(lsf, system, system.hosts)
        host_records = {name: record for name, record in host_records.items() if name in named}
    return host_records


def _hosts(lsf: Lsf, system: LsfSystem, groups: tuple[str, ...]) -> dict[str, Mapping[str, str]]:
    selection = " ".join(
        selection for expression in system.resources for selection in _SELECT.findall(expression)
    )
    only = ("-R", selection) if selection else ()
    fields = "host_name status max njobs run"
    records = lsf.records("bhosts", "-json", "-o", fields, *only, *groups)
    return {record["HOST_NAME"]: record for record in records}


def _of_queue(lsf: Lsf, queue: str) -> tuple[str, ...]:
    """Hosts and host groups of a queue as `bqueues -l` lists them, `gpu+2 rack1/`; () for all hosts."""
    command = lsf.run("bqueues", "-l", queue)
    match = re.search(r"^HOSTS:\s+(.+)$", command.stdout, re.MULTILINE)
    if match is None:
        raise InputError(f"queue {queue}: bqueues does not list its hosts: {command.words[:200]}")
    names = tuple(re.sub(r"(/|\+\d*)+$", "", word) for word in match[1].split())
    return () if names in (("all",), ("none",)) else names


def _member(record: Mapping[str, str], *, idle: bool) -> Member:
    name, status = record["HOST_NAME"], record["STATUS"]
    if status not in _TAKES_JOBS:
        return Member(name, f"{status} according to LSF")
    jobs = record.get("NJOBS", "0")
    if idle and (status != "ok" or jobs not in ("0", "", "-")):
        return Member(name, used=f"{jobs} slots used, {status} according to LSF")
    return Member(name)


def keep_off_methods(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Closing hosts, with the reason as the administrator's comment."""
    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(
                shlex.join(["badmin", "hclose", "-C", reason(losses), node]) for node, losses in slow.items()
            ),
            tuple(shlex.join(["badmin", "hopen", node]) for node in slow),
        ),
    )
