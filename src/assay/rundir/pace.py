"""A session's progress, and how long the rest will take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.records import Plan, Run, Trial


@dataclass(frozen=True)
class TrialKind:
    """Trials that take about the same time."""

    benchmark: str
    shape: str
    system: str

    @classmethod
    def of(cls, trial: Trial) -> TrialKind:
        """The kind of this trial; its swept parameters count as random variation."""
        return cls(trial.benchmark, str(trial.shape), trial.system)


class Pace:
    """Durations of what is done, and an estimate from them of what is left."""

    def __init__(self, plan: Plan, done: Sequence[Run]) -> None:
        self._left = {trial.id: trial for trial in plan.trials}
        self._took: dict[TrialKind, list[float]] = {}
        self.total = len(plan.trials)
        for run in done:
            self.settled(run)

    @property
    def done(self) -> int:
        """Trials that are settled."""
        return self.total - len(self._left)

    def ran(self, run: Run) -> None:
        """Learn from an attempt; an adopted attempt shows only when its job started and ended."""
        if run.ended_at is not None and run.started_at is not None and run.ended_at > run.started_at:
            self._took.setdefault(TrialKind.of(run.trial), []).append(run.ended_at - run.started_at)

    def settled(self, run: Run) -> None:
        """One trial less to do."""
        self.ran(run)
        self._left.pop(run.trial.id, None)

    def left_s(self, running_s: float, *, through: int | None = None) -> float | None:
        """Seconds that the rest will take, minus the time of the running trial; None while unknown.

        through  only the rest of this many blocks

        Each trial is assumed to take the mean of its kind; a kind not seen yet, the mean of all.
        """
        every = [seconds for of_kind in self._took.values() for seconds in of_kind]
        if not every:
            return None
        mean = math.fsum(every) / len(every)
        total = 0.0
        for trial in self._left.values():
            if through is not None and trial.block > through:
                continue
            seen = self._took.get(TrialKind.of(trial))
            total += math.fsum(seen) / len(seen) if seen else mean
        return max(total - running_s, 0.0)
