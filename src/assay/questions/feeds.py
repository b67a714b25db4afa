"""How many accelerators a storage feeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem
from assay.questions.evidence import each, run_sets, runs_directory
from assay.units import seconds, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from pathlib import Path

    from assay.analyse.feeding import CheckpointCost, Feeding
    from assay.records import Result


NOTHING = (
    "no supply with its demand: name runs of the workload storage, or of a training in mode data-only, and "
    "runs of a training in mode synthetic or real; for storage without a data-only run, state the bytes of a "
    "sample"
)
SAME = "run both with the same parameters; only mode, data and how it is read may differ"


@dataclass(frozen=True)
class FeedingResult:
    """The result of `feeds`.

    feedings     every supply with every demand that it can be compared with
    checkpoints  what saving checkpoints costs a day; empty unless asked for
    apart        loaders that read for another training than a demand, with what differs
    unread       older sessions of the suites that were named, as `suite/session`: only the newest was read
    """

    feedings: tuple[Feeding, ...]
    checkpoints: tuple[CheckpointCost, ...]
    apart: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Supplies with demands, and costs of checkpoints."""
        return {
            "feedings": [{**asdict(feeding), "at_least": feeding.at_least} for feeding in self.feedings],
            "checkpoints": [asdict(checkpoint) for checkpoint in self.checkpoints],
            "apart": list(self.apart),
            "unread": list(self.unread),
        }


def feeds(
    run: str | Sequence[str],
    *more: str,
    sample_bytes: str | float | None = None,
    checkpoint_every: str | float | None = None,
    runs: str | PathLike[str] | None = None,
) -> FeedingResult:
    """How many accelerators a storage feeds, like `assay data feeds RUN…`.

    run, more         suites or sessions with the supply and the demand, one by one or as a list
    sample_bytes      stored bytes of a training's sample, `"110kB"` or a number; None: what its loader read
    checkpoint_every  work between two checkpoints, `"30min"` or seconds; None: their cost is not asked for
    runs              directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing, or the runs have no supply with its demand.
    """
    from assay.analyse import feeding
    from assay.analyse.judgement import feeding_with_doubts

    try:
        stated = None if sample_bytes is None else size(sample_bytes)
        every_s = None if checkpoint_every is None else seconds(checkpoint_every)
    except ValueError as error:
        raise InputError(str(error)) from None
    for name, value in (("sample bytes", stated), ("checkpoint every", every_s)):
        if value is not None and not value > 0:
            raise InputError(f"{name}: found {value:g}; expected more than 0")
    directory = runs_directory(runs)
    chosen = run_sets(directory, dict.fromkeys(each(run, *more)))
    results = list({r.run.id: r for run_set in chosen for r in run_set.results}.values())
    metrics = chosen[0].metrics()
    workloads = {r.run.trial.workload for r in results}
    sizes = {} if stated is None else dict.fromkeys(workloads, stated)
    feedings = [feeding_with_doubts(*fed) for fed in feeding.feedings(results, metrics, sizes)]
    checkpoints = [] if every_s is None else feeding.checkpoint_costs(results, metrics, every_s)
    if every_s is not None and not checkpoints:
        raise InputError("no checkpoint was saved: run the workload storage with its phase checkpoint-save")
    apart = feeding.different_trainings(results, metrics)
    if not feedings and not checkpoints:
        raise InputError([Problem("", what) for what in (*apart, SAME)] if apart else NOTHING)
    return FeedingResult(
        tuple(feedings), tuple(checkpoints), tuple(apart), tuple(_unread(directory, results))
    )


def _unread(directory: Path, results: Sequence[Result]) -> Iterator[str]:
    """Sessions older than the oldest that was read of their suite's."""
    from assay.rundir import session as rundir

    read: dict[str, set[str]] = {}
    for result in results:
        read.setdefault(result.run.suite, set()).add(result.run.session)
    for suite, sessions in read.items():
        for session in rundir.all_of(directory, suite):
            if session.name not in sessions:
                yield session.id
