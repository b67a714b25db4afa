"""How long trials will take, from earlier runs of the same trials, otherwise from their parameters."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay import store
from assay.records import Plan, Trial
from assay.run.index import answered
from assay.units import rough_seconds
from assay.workloads import WORKLOADS, Workload


@dataclass(frozen=True)
class DurationEstimate:
    """How long trials take one after the other, and the basis of the estimate.

    seen, seen_s    trials that ran before, and seconds that they will take if each takes its mean
    runs            earlier runs from which these means come
    timed, timed_s  trials that never ran but whose parameters set how long they measure, and that time
    unknown         benchmarks of the other trials
    """

    trials: int
    seen: int
    seen_s: float
    runs: int
    timed: int
    timed_s: float
    unknown: tuple[str, ...]

    @property
    def words(self) -> str:
        """The estimate and its basis, in one line."""
        parts = []
        if self.seen:
            basis = f"{_count(self.seen, 'trial')}, from {_count(self.runs, 'earlier run')}"
            parts.append(f"about {rough_seconds(self.seen_s)} ({basis})")
        if self.timed:
            basis = f"{_count(self.timed, 'trial')}, from their parameters"
            parts.append(f"{rough_seconds(self.timed_s)} of measuring, plus start-up ({basis})")
        if rest := self.trials - self.seen - self.timed:
            whose = f"{_count(rest, 'trial')} of {', '.join(self.unknown)}"
            parts.append(f"unknown ({whose}, without an earlier run)")
        return "; ".join(parts)


def estimate(
    trials: Collection[Trial],
    earlier: Mapping[str, Sequence[float]],
    workloads: Mapping[str, Workload] = WORKLOADS,
) -> DurationEstimate:
    """How long these trials take.

    earlier  durations of finished runs by trial digest, seconds
    """
    seen = [trial for trial in trials if trial.digest in earlier]
    others = [(trial, _timed_s(trial, workloads)) for trial in trials if trial.digest not in earlier]
    timed = [seconds for _, seconds in others if seconds is not None]
    means = {digest: math.fsum(took) / len(took) for digest, took in earlier.items()}
    return DurationEstimate(
        trials=len(trials),
        seen=len(seen),
        seen_s=math.fsum(means[trial.digest] for trial in seen),
        runs=sum(len(earlier[digest]) for digest in {trial.digest for trial in seen}),
        timed=len(timed),
        timed_s=math.fsum(timed),
        unknown=tuple(dict.fromkeys(trial.benchmark for trial, seconds in others if seconds is None)),
    )


def estimates(planned: Plan, trials: Collection[Trial], runs_dir: Path) -> dict[str, DurationEstimate]:
    """The estimate for each system in the plan that has some of these trials."""
    digests = {trial.digest for trial in trials}
    earlier = answered(runs_dir, lambda: store.durations(runs_dir, digests))
    of_systems = {name: [trial for trial in trials if trial.system == name] for name in planned.systems}
    return {name: estimate(own, earlier) for name, own in of_systems.items() if own}


def of_each(trials: Sequence[Trial], runs_dir: Path) -> list[tuple[Trial, float | None]]:
    """Each trial with the seconds that it will take; None if neither runs nor parameters show that."""
    earlier = answered(runs_dir, lambda: store.durations(runs_dir, {trial.digest for trial in trials}))
    return [(trial, _expected_s(estimate([trial], earlier))) for trial in trials]


def _expected_s(of_trial: DurationEstimate) -> float | None:
    return None if of_trial.unknown else of_trial.seen_s + of_trial.timed_s


def lines(planned: Plan, of_systems: Mapping[str, DurationEstimate]) -> Iterator[str]:
    """The total estimate as text, followed by a line for each system if there are several."""
    if not of_systems:
        return
    most = "for all blocks, if nothing is decided earlier: " if planned.looks else ""
    yield f"Duration: {most}{total(of_systems.values()).words}."
    if len(of_systems) > 1:
        yield from (f"  {name}: {of_system.words}" for name, of_system in of_systems.items())


def total(parts: Collection[DurationEstimate]) -> DurationEstimate:
    """The estimate for several systems, one trial after the other."""
    return DurationEstimate(
        trials=sum(part.trials for part in parts),
        seen=sum(part.seen for part in parts),
        seen_s=math.fsum(part.seen_s for part in parts),
        runs=sum(part.runs for part in parts),
        timed=sum(part.timed for part in parts),
        timed_s=math.fsum(part.timed_s for part in parts),
        unknown=tuple(dict.fromkeys(name for part in parts for name in part.unknown)),
    )


def _timed_s(trial: Trial, workloads: Mapping[str, Workload]) -> float | None:
    workload = workloads[trial.workload]
    return workload.timed_s(workload.params(**trial.params))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
