"""LSF as its commands show it: JSON of bjobs and bhosts, and of jobs that those have forgotten bhist's text.

A job's number comes again after 999,999. So nothing is read of a job, and no job is ended, whose name is not
the one with our token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from assay import shell
from assay.errors import PlatformError
from assay.launch.batch.queue import QueueSilentError
from assay.launch.batch.script import EXIT_NOT_OURS, EXIT_NOT_VISIBLE, NAME
from assay.launch.launcher import JobRefusedError
from assay.launch.lsf.refusals import extent_of, hopeless
from assay.launch.lsf.script import EXIT_OTHER_HOSTS
from assay.records import Extent, JobState
from assay.shell import ProgramMissingError

ASK_TIMEOUT_S = 30.0
# Source: bjobs(1), STAT
WAITS = frozenset({"PEND", "PSUSP", "WAIT", "PROV", "FWD_PEND"})
SUSPENDED = frozenset({"USUSP", "SSUSP"})
UNREACHED = frozenset({"UNKWN", "ZOMBI"})
RUNS = frozenset({"RUN"}) | SUSPENDED | UNREACHED
AWAY = ("unavail", "unreach", "closed_LIM")  # states of a host that does not answer
FIELDS = "jobid stat job_name exec_host exit_code exit_reason pend_reason"
_SUBMITTED = re.compile(r"Job <(\d+)> is submitted to")
_NONE = re.compile(r"not found|No (unfinished |matching |pending )?job|No matching", re.IGNORECASE)
_TERM = re.compile(r"TERM_[A-Z_]+")
_SOMEBODY = {"TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN"}
_BY_ITSELF = {"TERM_OTHER", "TERM_EXTERNAL_SIGNAL"}  # a process of the job ended so, LSF did not end it
_LIMITS = {"TERM_CPULIMIT", "TERM_PROCESSLIMIT", "TERM_THREADLIMIT", "TERM_SWAP"}
_REMEDIES = (
    (r"suspended by the (user|owner)", "bresume lets it go on"),
    (r"suspended by.*(admin|root)", "an administrator holds it"),
    (r"inactivated|closed", "the queue or its hosts take no jobs now: choose another, or ask who runs them"),
    (
        r"no suitable hosts|span|requirements? not",
        "look at resources, gpu, hosts, cpus_per_rank and the shape",
    ),
    (r"slot limit", "you or the queue have all the slots that they may"),
)


@dataclass(frozen=True)
class LsfJob:
    """What LSF says of one job.

    why        its reason to wait, or to have ended: `TERM_OWNER: job killed by owner`; "" where there is none
    nodes      names of its hosts; "" while it has none
    exit_code  of the batch script; "" where it is not known
    """

    state: str
    why: str
    nodes: str
    exit_code: str = ""

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
        """It was started anew under its number: the second start found the job taken."""
        return self.over and self.exit_code == str(EXIT_NOT_OURS)

    @property
    def ended_from_outside(self) -> bool:
        """Somebody, or LSF, ended it."""
        return self.end(()) is not None

    @property
    def lost_node(self) -> bool:
        """A host of it failed."""
        return self._term in ("TERM_UNKNOWN", "TERM_ZOMBI")

    @property
    def trouble(self) -> str:
        """That its host does not answer, which may pass."""
        if self.state not in UNREACHED:
            return ""
        return f"LSF says {self.state}: {self.nodes or 'its host'} does not answer, and may come back"

    @property
    def hopeless(self) -> Extent | None:
        """It waits for what waiting does not bring; which other jobs would."""
        return hopeless(self.why) if self.waits else None

    def why_waits(self) -> str:
        """What it waits for, with what to do where waiting alone may not help."""
        remedy = next((words for pattern, words in _REMEDIES if re.search(pattern, self.why, re.I)), "")
        reason = self.why or "LSF gives no reason yet"
        return f"{self.state.lower()}: {reason}" + (f"; {remedy}" if remedy else "")

    def end(self, failed_nodes: Sequence[str]) -> tuple[JobState, str] | None:
        """How LSF, or somebody through it, ended the job; None where its script ended by itself."""
        term = self._term
        if not self.over or not term or term in _BY_ITSELF:
            return None
        if term in _SOMEBODY:
            cause = f"somebody else ended the job, and not this run: LSF says {self.state} ({self.why})"
            return JobState.STOPPED, cause
        if term == "TERM_RUNLIMIT":
            cause = "LSF's own run limit ended it before the trial's: raise the system's `startup`"
            return JobState.TIMED_OUT, cause
        if term == "TERM_MEMLIMIT":
            return JobState.FAILED, "the job ran out of the memory that LSF gave it: raise `mem`"
        if term == "TERM_CWD_NOTEXIST":
            return JobState.FAILED, self._not_visible()
        if term in _LIMITS:
            return JobState.FAILED, f"a limit of LSF's ended it ({self.why}): bqueues -l shows the queue's"
        which = f": {', '.join(failed_nodes)}" if failed_nodes else ""
        return JobState.LOST, f"LSF ended it ({self.why}){which}"

    def why_not_started(self) -> str:
        """Why its batch script ended before any rank ran."""
        if self.exit_code == str(EXIT_NOT_VISIBLE):
            return self._not_visible()
        if self.exit_code == str(EXIT_OTHER_HOSTS):
            return "LSF gave the job other hosts than its shape needs"
        code = self.exit_code or "with an error"
        return f"the batch script exited {code} before the ranks started"

    @property
    def _term(self) -> str:
        found = _TERM.match(self.why)
        return found[0] if found and self.over else ""

    def _not_visible(self) -> str:
        return (
            f"the nodes ({self.nodes}) can't write the job's directory: set the system's `directory` to one "
            "that they share with this machine"
        )


@dataclass(frozen=True)
class Lsf:
    """The commands of an LSF."""

    called: ClassVar[str] = "LSF"
    lists: ClassVar[str] = "bjobs"
    ends: ClassVar[str] = "bkill"

    def run(self, *argv: str, stdin: Path | None = None) -> shell.CompletedCommand:
        """One of its commands. Raises ProgramMissingError, and QueueSilentError where it does not come back.

        While LSF is down, its commands wait for it: `LSF is down. Please wait ...`.
        """
        try:
            return shell.run(argv, stdin=stdin or "", timeout_s=ASK_TIMEOUT_S)
        except shell.CommandTimeoutError as error:
            raise QueueSilentError(f"LSF does not answer: {error}") from error

    def records(self, *argv: str) -> list[Mapping[str, str]]:
        """What a command tells as JSON, without what it says is not there. Raises as `run`."""
        said = self.run(*argv)
        _, brace, text = said.stdout.partition("{")
        if not brace:
            if _NONE.search(said.stderr or said.stdout):
                return []
            words = " ".join((said.stderr.strip() or said.stdout.strip()).split())
            raise QueueSilentError(f"LSF does not answer: {argv[0]}: {words or said.exit_code}")
        try:
            found = json.loads(brace + text)["RECORDS"]
        except (ValueError, KeyError, TypeError) as error:
            raise QueueSilentError(f"LSF does not answer: {argv[0]}: {said.stdout.strip()[:200]}") from error
        return [record for record in found if "ERROR" not in record]

    def submit(self, directory: Path, script: Path) -> int:
        """Hand in a script to be run in this directory; the job's number."""
        try:
            said = self.run("bsub", "-cwd", str(directory), stdin=script)
        except (QueueSilentError, ProgramMissingError) as error:
            raise PlatformError(f"bsub: {error}") from error
        found = _SUBMITTED.search(said.stdout + said.stderr)
        if found is not None:
            return int(found[1])
        why = " ".join((said.stderr.strip() or said.stdout.strip()).split())
        extent = extent_of(why)
        if extent is Extent.PLATFORM:
            raise PlatformError(f"bsub refused the job: {why}")
        raise JobRefusedError(f"bsub refused the job: {why}", extent)

    def ask(self, number: int, token: str) -> LsfJob | None:
        """What it says of a job; None where it knows of none of this number and token."""
        for record in self.records("bjobs", "-a", "-json", "-o", FIELDS, str(number)):
            if record.get("JOB_NAME") == NAME + token:
                return _job(record)
        return self._from_history(number, token)

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, the newest last."""
        fields = "jobid stat job_name submit_time"
        found = self.records("bjobs", "-a", "-json", "-o", fields, "-J", NAME + token)
        return sorted(int(record["JOBID"]) for record in found)

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token and state of each of this user's jobs of Assay's that wait or run."""
        found = self.records("bjobs", "-json", "-o", "jobid stat job_name", "-J", f"{NAME}*")
        return [
            (int(record["JOBID"]), record["JOB_NAME"].removeprefix(NAME), record["STAT"])
            for record in found
            if re.fullmatch(rf"{NAME}[0-9a-f]{{32}}", record["JOB_NAME"])
        ]

    def failed_nodes(self, nodes: str) -> list[str]:
        """Those of these hosts that don't answer, each with its state."""
        found = self.records("bhosts", "-json", "-o", "host_name status", *nodes.split(", "))
        hosts = sorted((record["HOST_NAME"], record["STATUS"]) for record in found)
        return [f"{name} ({status})" for name, status in hosts if status in AWAY]

    def ask_to_end(self, number: int, token: str) -> None:
        """Have SIGTERM sent to the processes of a job."""
        self._kill(number, token, "-s", "TERM")

    def end(self, number: int, token: str) -> None:
        """Take a job out of the queue, or kill it."""
        self._kill(number, token)

    def drop(self, token: str) -> None:
        """The same for whatever has this token."""
        for number, its_token, _ in self.queued():
            if its_token == token:
                self.run("bkill", str(number))

    def _kill(self, number: int, token: str, *options: str) -> None:
        """By its number alone: `bkill 0` would end every job of this user."""
        job = self.ask(number, token)
        if number > 0 and job is not None and not job.over:
            self.run("bkill", *options, str(number))

    def _from_history(self, number: int, token: str) -> LsfJob | None:
        """What bhist tells of a job that bjobs has forgotten, an hour after its end (CLEAN_PERIOD)."""
        try:
            said = self.run("bhist", "-n", "0", "-l", str(number))
        except ProgramMissingError:
            return None
        if not said.ok and not _NONE.search(said.stderr or said.stdout):
            raise QueueSilentError(f"LSF does not answer: bhist: {said.stderr.strip() or said.exit_code}")
        return from_history(said.stdout, number, token)


def from_history(text: str, number: int, token: str) -> LsfJob | None:
    """The end that `bhist -l` tells of the job with this name; None where it tells of none.

    It folds lines in the middle of words, so what is looked for is found without any spaces.
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
    over = state not in WAITS | RUNS
    why = record.get("EXIT_REASON" if over else "PEND_REASON", "")
    hosts = dict.fromkeys(part.rpartition("*")[2] for part in record.get("EXEC_HOST", "").split(":") if part)
    why = " ".join(why.replace("\n", " ").rstrip("; ").split())
    code = record.get("EXIT_CODE", "") or ("0" if state == "DONE" else "")
    return LsfJob(state, "" if why == "-" else why, ", ".join(hosts), code)
