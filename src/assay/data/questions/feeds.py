"""How many accelerators a storage feeds, and what checkpoints cost a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from assay.analyse import feeding
from assay.analyse.feeding import CheckpointCost, Feeding
from assay.analyse.judgement import feeding_with_doubts
from assay.errors import InputError, Problem
from assay.questions.evidence import each, run_sets, runs_directory
from assay.questions.question import RUNS, Answer, Question, argument, option, question
from assay.records import Result
from assay.rundir import session as rundir
from assay.units import counted, human, human_seconds, seconds, significant, size
from assay.view.blocks import Block, Paragraph
from assay.view.verdicts import doubts_of_feedings

NOTHING = (
    "no supply with its demand: name runs of the workload storage, or of a training in mode data-only, and "
    "runs of a training in mode synthetic or real; for storage without a data-only run, state the bytes of a "
    "sample"
)
SAME = "run both with the same parameters; only mode, data and how it is read may differ"


@question
class Feeds(Question):
    """Show how many of a training's accelerators a storage feeds before it becomes the limit.

    RUNs contain the supply and the demand. Supply: a training in mode data-only, which reads and decodes what
    the training does, or the workload storage, which reads without decoding. Demand: the same training in
    mode synthetic or real, per accelerator. A sample has the bytes that a data-only run read, unless stated.
    The doubts of both are listed. If others may have used more than 20 % of the CPU time of a side, nothing
    is promised.

    \b
    Examples:
      assay data feeds storage-acceptance
      assay data feeds nfs-reads resnet50-scaling --sample-bytes 110kB
      assay data feeds storage-acceptance --checkpoint-every 30min --json

    \b
    Exit codes: 0 shown; 4 the runs have no supply with its demand.
    """

    references: tuple[str, ...] = argument(metavar="RUN…")
    sample_bytes: str | float | None = option(
        "Stored bytes of a sample: 110kB.  [default: as read]", default=None, metavar="SIZE"
    )
    checkpoint_every: str | float | None = option(
        "Also show what saving so often costs a day: 30min.", default=None, metavar="TIME"
    )
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> FeedingResult:
        """Every supply with every demand that it can be compared with."""
        sample, every = self.sample_bytes, self.checkpoint_every
        return feeds(self.references, sample_bytes=sample, checkpoint_every=every, runs=self.runs)


@dataclass(frozen=True)
class FeedingResult(Answer):
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

    def view(self) -> Iterator[Block]:
        """Each supply with its demand, the costs of checkpoints, what was left out, and the doubts."""
        for feeding_ in self.feedings:
            yield from map(Paragraph, _feeding(feeding_))
        yield from (Paragraph(_cost(cost)) for cost in self.checkpoints)
        yield from (Paragraph(f"not compared: {what}") for what in self.apart)
        if self.unread:
            rest = f" and {len(self.unread) - 1} more" if len(self.unread) > 1 else ""
            cover = "name sessions to let the interval cover all of them"
            yield Paragraph(f"not read: {self.unread[-1]}{rest}; {cover}")
        if any(feeding_.doubts for feeding_ in self.feedings):
            yield Paragraph("\nDoubts:")
            yield doubts_of_feedings(self.feedings)

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
    read: dict[str, set[str]] = {}
    for result in results:
        read.setdefault(result.run.suite, set()).add(result.run.session)
    for suite, sessions in read.items():
        for session in rundir.all_of(directory, suite):
            if session.name not in sessions:
                yield session.id


def _feeding(feeding_: Feeding) -> Iterator[str]:
    supply, demand, fed = feeding_.supply, feeding_.demand, feeding_.accelerators
    pattern = f", {feeding_.pattern}" if feeding_.pattern else ""
    what = f"{supply.system} {supply.benchmark} {supply.shape}{pattern}"
    number = significant(fed.value, 3)
    if fed.low is None or fed.high is None:
        like = f"accelerators like {demand.system}'s"
        yield f"{what} feeds about {number} {like}; nothing is promised: {feeding_.why}"
    else:
        between = f"{significant(fed.low, 3)} to {significant(fed.high, 3)}"
        least = counted(feeding_.at_least or 0, "accelerator")
        yield f"{what} feeds at least {least} like {demand.system}'s: {number} ({between})"
    sample_size = f" of {human(feeding_.sample_bytes, 'B')} each" if feeding_.sample_bytes is not None else ""
    sessions = ", ".join(sorted({*supply.sessions, *demand.sessions}))
    yield (
        f"  supply {human(supply.rate.value, supply.rate.unit)}; demand of one accelerator in "
        f"{demand.benchmark} {demand.shape} {human(demand.rate.value, demand.rate.unit)}{sample_size}; "
        f"from {sessions}"
    )


def _cost(cost: CheckpointCost) -> str:
    save, day = cost.save_s, cost.day_s
    between = (
        f" ({human_seconds(day.low)} to {human_seconds(day.high)})"
        if day.low is not None and day.high is not None
        else ""
    )
    return (
        f"{cost.system} {cost.benchmark} {cost.shape}: a checkpoint of {human(cost.bytes_, 'B')} takes "
        f"{human_seconds(save.value)}; after every {human_seconds(cost.every_s)} of work that is "
        f"{human_seconds(day.value)} a day{between}, {day.value / 86400:.2%} of the time"
    )
