"""What runs left on the systems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, AssayError, InputError
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, argument, option, question
from assay.questions.systems import every_system, on_command_line, system_named
from assay.units import counted
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from assay.run.leftovers import Remains
    from assay.suite import System
    from assay.view.blocks import Block

_SHOWN = 4  # things of one job that a line lists


@question
class Clean(Question):
    """Find what runs left on SYSTEM, by label, and in the runs directory; remove it with --yes.

    Killed runs, lost connections and crashed machines leave jobs, pods, ConfigMaps, Services,
    containers, queued batch jobs, processes and directories. Everything that belongs to a job has its token,
    so Assay finds it no matter who submitted it, even if its runs directory is gone. Without SYSTEM: this
    machine.

    What is active stays: a job that runs or waits, a job of a session that an Assay process is working on,
    and a job of an unknown run that ended less than ten minutes ago, because another Assay may be collecting
    it.

    \b
    Examples:
      assay clean lab                     what runs left in the namespace of the system `lab`
      assay clean lab --yes               remove it
      assay clean --all --yes             on every system of systems.yaml
      assay clean lab --running --yes     end all Assay jobs there

    \b
    Exit codes: 0 checked, and removed what was requested; 4 no such system; 5 a system can't be checked,
    or something can't be removed.
    """

    system: str | None = argument(default=None)
    all_systems: bool = option(
        "Every system in the systems file.", default=False, names=("--all",), output=True
    )
    systems: Reference | None = option(
        "File with the system. [default: systems.yaml here]", default=None, metavar="FILE", local=True
    )
    yes: bool = option("Remove what is shown, except what may be in use.", default=False)
    running: bool = option("Include active jobs; with --yes, end them.", default=False)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> Cleaning:
        """What is left on each system; an error there is in the answer."""
        if self.all_systems and self.system is not None:
            raise InputError("name a SYSTEM or use --all, not both")
        chosen = every_system(self.systems) if self.all_systems else [system_named(self.system, self.systems)]
        systems = tuple(
            clean(system, yes=self.yes, running=self.running, runs=self.runs) for system in chosen
        )
        others = not_looked_at([system.name for system in chosen], systems=self.systems, runs=self.runs)
        return Cleaning(systems, others, runs_directory(self.runs), self.yes)


@dataclass(frozen=True)
class Cleaning(Answer):
    """What was left on systems, and which others may have something; `removing` if that was asked for."""

    systems: tuple[Leftovers, ...]
    others: tuple[OtherSystem, ...]
    runs: Path
    removing: bool

    @property
    def exit_code(self) -> int:
        """Whether each system could be checked, and all was removed that was to be."""
        return EXIT_ENVIRONMENT if any(leftovers.error for leftovers in self.systems) else EXIT_OK

    @property
    def notes(self) -> tuple[str, ...]:
        """The errors."""
        return tuple(
            f"assay: {left.system}: {line}" for left in self.systems for line in left.error.splitlines()
        )

    def view(self) -> Iterator[Block]:
        """Each job with what it left, how much that is, and the systems that were not checked."""
        return (Paragraph(line, wraps=False) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for leftovers in self.systems:
            for left in leftovers.found:
                yield f"{leftovers.system}  {left.token}  {_things(left.what)}{_standing(left)}"
            if leftovers.looked:
                yield f"{leftovers.system}: {_summary(leftovers, removing=self.removing)}"
            else:
                yield f"{leftovers.system}: the check failed, so what is left there is unknown"
        for other in self.others:
            jobs = counted(other.jobs, "job")
            yield f"{other.system}: not checked; {self.runs} has {jobs} from it: {other.command}"

    def document(self) -> dict[str, Any]:
        """The document `assay.clean/1`."""
        return {
            "schema": "assay.clean/1",
            "systems": [_system_as_data(leftovers) for leftovers in self.systems],
            "not_looked_at": [asdict(other) for other in self.others],
        }


@dataclass(frozen=True)
class Leftovers:
    """The result of `clean`.

    looked   whether it is known what is left
    found    what runs left there
    removed  tokens of the jobs whose remains are gone now
    error    why the system could not be checked, or something could not be removed; "" if all went well
    """

    system: str
    looked: bool
    found: tuple[Remains, ...]
    removed: frozenset[str]
    error: str


@dataclass(frozen=True)
class OtherSystem:
    """Another system of which the runs directory has unfinished jobs, or directories.

    command  the command that checks it
    """

    system: str
    jobs: int
    command: str


def not_looked_at(
    looked_at: Collection[str],
    *,
    systems: str | PathLike[str] | None = None,
    runs: str | PathLike[str] | None = None,
) -> tuple[OtherSystem, ...]:
    """What the runs directory lists as left on systems that `clean` has not checked, by name.

    systems  the file that was used; None: systems.yaml here

    For a system that the file lacks, the session's own copy of its systems is named.
    """
    from assay.run import leftovers

    directory = runs_directory(runs)
    written = {system.name for system in every_system(systems)}
    jobs: dict[str, list[leftovers.KnownJob]] = {}
    for job in leftovers.known(directory).values():
        if job.system not in looked_at:
            jobs.setdefault(job.system, []).append(job)
    return tuple(
        OtherSystem(
            name,
            len(left_jobs),
            "assay clean "
            + on_command_line(name, systems if name in written else left_jobs[-1].session.systems),
        )
        for name, left_jobs in sorted(jobs.items())
    )


def clean(
    system: str | System | None = None,
    *,
    systems: str | PathLike[str] | None = None,
    yes: bool = False,
    running: bool = False,
    runs: str | PathLike[str] | None = None,
) -> Leftovers:
    """What runs left on a system, like `assay clean SYSTEM`; an error there is returned, not raised.

    system   its name, or the system itself; None: this machine
    systems  the file with a system of this name; None: systems.yaml here
    yes      remove it, except what may be in use
    running  include that; with `yes`, end it
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there is no such system.
    """
    from assay.run import leftovers

    where = system_named(system, systems) if system is None or isinstance(system, str) else system
    directory = runs_directory(runs)
    remaining: list[Remains] = []
    looked, removed, error = False, frozenset[str](), ""
    try:
        remaining = [*leftovers.remains(where, leftovers.known(directory))]
        looked = True
        doomed = [left for left in remaining if running or not left.going]
        if yes and doomed:
            leftovers.remove(where, doomed, running=running)
            removed = frozenset(left.token for left in doomed)
    except AssayError as refused:
        error = str(refused)
    return Leftovers(where.name, looked, tuple(remaining), removed, error)


def _system_as_data(cleaned: Leftovers) -> dict[str, Any]:
    jobs = [
        {
            "token": left.token,
            "what": list(left.what),
            "session": left.session and left.session.id,
            "goes_on": left.going or None,
            "removed": left.token in cleaned.removed,
        }
        for left in cleaned.found
    ]
    return {"system": cleaned.system, "looked": cleaned.looked, "error": cleaned.error, "jobs": jobs}


def _things(what: Sequence[str]) -> str:
    more = f" and {len(what) - _SHOWN} more" if len(what) > _SHOWN else ""
    return ", ".join(what[:_SHOWN]) + more


def _standing(left: Remains) -> str:
    notes = [f"of {left.session.id}"] if left.session else []
    notes += [left.going] if left.going else []
    return f"  ({'; '.join(notes)})" if notes else ""


def _summary(cleaned: Leftovers, *, removing: bool) -> str:
    jobs = cleaned.found
    if not jobs:
        return "nothing left"
    removed = sum(left.token in cleaned.removed for left in jobs)
    going = sum(bool(left.going) and left.token not in cleaned.removed for left in jobs)
    rest = len(jobs) - removed - going
    parts = [f"{removed} removed"] if removed else []
    parts += [f"{rest} left" + ("" if removing else ", which --yes removes")] if rest else []
    parts += [f"{going} that may be in use, included only with --running"] if going else []
    return f"of {counted(len(jobs), 'job')} " + "; ".join(parts)
