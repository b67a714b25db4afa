"""The trials that one call does not start, because they would fail for the same cause as another."""

from __future__ import annotations

from assay.records import Run, Trial
from assay.run.extents import called, within


class DeferredTrials:
    """The failures of this call, and the trials that are left for the next one because of them.

    met   failed attempts whose cause would affect other trials too
    left  trials that are not settled, including those of `met`
    """

    def __init__(self) -> None:
        self.met: list[Run] = []
        self.left: list[Trial] = []

    def meet(self, run: Run) -> str:
        """Record such an attempt; returns which trials no longer start."""
        self.met.append(run)
        self.left.append(run.trial)
        return (
            f"no other trial of {called(run.extent, run.trial)} will start: it would fail for the same reason"
        )

    def hinders(self, trial: Trial) -> bool:
        """Whether a trial would fail for the same reason; if so, it is left."""
        hindered = any(within(run.extent, run.trial, trial) for run in self.met)
        if hindered:
            self.left.append(trial)
        return hindered
