"""What runs left on the systems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError
from assay.questions.evidence import runs_directory
from assay.questions.systems import every_system, on_command_line, system_named

if TYPE_CHECKING:
    from os import PathLike

    from assay.run.leftovers import Remains
    from assay.suite import System


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
            leftovers.remove(where, doomed, directory, running=running)
            removed = frozenset(left.token for left in doomed)
    except AssayError as refused:
        error = str(refused)
    return Leftovers(where.name, looked, tuple(remaining), removed, error)


def clean_document(cleaned: Sequence[Leftovers], others: Sequence[OtherSystem]) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.clean/1",
        "systems": [_system_as_data(leftovers) for leftovers in cleaned],
        "not_looked_at": [asdict(other) for other in others],
    }


def _system_as_data(cleaned: Leftovers) -> dict[str, Any]:
    jobs = [
        {
            "token": left.token,
            "what": list(left.what),
            "session": left.session or None,
            "goes_on": left.going or None,
            "removed": left.token in cleaned.removed,
        }
        for left in cleaned.found
    ]
    return {"system": cleaned.system, "looked": cleaned.looked, "error": cleaned.error, "jobs": jobs}
