"""What Slurm says of a job, by whichever of its commands the site lets one use.

scontrol knows all of a job, until some minutes after its end; squeue less, for as long; sacct remembers it
for good where accounting is on. Each is asked until one knows. Only forms are read that have been the same
since Slurm 17: the JSON of squeue changed its shape with nearly every release.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay import shell
from assay.errors import LaunchError
from assay.launch.slurm.script import NAME

ASK_TIMEOUT_S = 30.0
# Source: squeue(1), JOB STATE CODES; every other state is final
WAITS = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD",
                   "SPECIAL_EXIT"})  # fmt: skip
RUNS = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})
SUSPENDED = frozenset({"SUSPENDED", "STOPPED"})
ENDED_FROM_OUTSIDE = frozenset({"CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE"})
_UNKNOWN_JOB = "Invalid job id"
_NO_ACCOUNTING = "accounting storage is disabled"


class SlurmSilent(LaunchError):  # noqa: N818  (named by what is wrong, as its siblings are read)
    """Slurm gives no answer: its controller is down or restarting, or does not let us ask."""


@dataclass(frozen=True)
class Told:
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


@dataclass(frozen=True)
class Slurm:
    """The commands of a Slurm, of the named cluster where it has several."""

    cluster: str | None = None

    def run(self, *argv: str) -> shell.Completed:
        """One of its commands. Raises ProgramMissing, and SlurmSilent where it does not come back."""
        env: Mapping[str, str] = {"SLURM_CLUSTERS": self.cluster} if self.cluster else {}
        try:
            return shell.run(argv, env=env, timeout_s=ASK_TIMEOUT_S)
        except shell.CommandTimeout as error:
            raise SlurmSilent(f"Slurm does not answer: {error}") from error

    def ask(self, job_id: int) -> Told | None:
        """What it says of a job; None where it knows of none of this number.

        Raises SlurmSilent where nothing that could know answers.
        """
        silent: SlurmSilent | None = None
        sources: tuple[Callable[[int], Told | None], ...] = (self._scontrol, self._squeue, self._sacct)
        for source in sources:
            try:
                told = source(job_id)
            except shell.ProgramMissing as error:
                silent = silent or SlurmSilent(f"a command of Slurm is missing here: {error}")
                continue
            except SlurmSilent as error:
                silent = error
                continue
            if told is not None:
                return told
        if silent is not None:
            raise silent
        return None

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, the newest last; those that wait or run at least.

        Raises SlurmSilent, ProgramMissing.
        """
        said = self.run("squeue", "--noheader", "--states=all", f"--name={NAME}{token}", "--format=%A")
        return sorted(int(line) for line in _lines(said))

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token and state of each of this user's jobs of Assay's that wait or run.

        Raises SlurmSilent, ProgramMissing.
        """
        said = self.run("squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%A|%T|%j")
        entries = (line.strip().split("|", 2) for line in _lines(said))
        return [
            (int(number), name.removeprefix(NAME), state)
            for number, state, name in entries
            if re.fullmatch(rf"{NAME}[0-9a-f]{{32}}", name)
        ]

    def _scontrol(self, job_id: int) -> Told | None:
        lines = _lines(self.run("scontrol", "show", "job", "--oneliner", str(job_id)))
        if not lines:
            return None
        fields = dict(re.findall(r"(\w+)=(\S*)", lines[0]))
        nodes = fields.get("NodeList", "")
        return Told(
            fields["JobState"],
            fields.get("Reason", "").replace("_", " "),
            "" if nodes == "(null)" else nodes,
            fields.get("ExitCode", ""),
            int(fields.get("Restarts", 0)),
        )

    def _squeue(self, job_id: int) -> Told | None:
        lines = _lines(
            self.run("squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T|%N|%r")
        )
        return Told(*_order(lines[0].split("|", 2))) if lines else None

    def _sacct(self, job_id: int) -> Told | None:
        asked = ("--noheader", "--allocations", "--parsable2", "--format=State,NodeList,Reason,ExitCode")
        lines = _lines(self.run("sacct", f"--jobs={job_id}", *asked))
        if not lines:
            return None
        state, nodes, reason, exit_code = lines[-1].split("|")
        return Told(state.split()[0], reason, "" if nodes == "None assigned" else nodes, exit_code)

    def failed_nodes(self, nodes: str) -> list[str]:
        """Those of these nodes that are down or don't answer, each with its state. Raises SlurmSilent."""
        said = self.run("sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%N|%T")
        found = sorted({tuple(line.split("|")) for line in _lines(said)})
        return [f"{name} ({state})" for name, state in found if re.search(r"down|fail|\*$", state)]


def _order(fields: list[str]) -> tuple[str, str, str]:
    state, nodes, reason = fields
    return state, reason, nodes


def _lines(said: shell.Completed) -> list[str]:
    """What a command printed; nothing for an unknown job. Raises SlurmSilent for every other failure."""
    if said.ok:
        return [line for line in said.stdout.splitlines() if line.strip()]
    if _UNKNOWN_JOB in said.stderr or _NO_ACCOUNTING in said.stderr:
        return []
    raise SlurmSilent(f"Slurm does not answer: {said.argv[0]}: {said.stderr.strip() or said.exit_code}")
