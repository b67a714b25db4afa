"""The trials that one call leaves unbegun, since they would meet what another has met."""

from __future__ import annotations

from assay.records import Run, Trial
from assay.run.extents import called, within


class DeferredTrials:
    """What was met in this call, and which trials are left for the next one because of it.

    met   failed attempts whose cause others would meet too
    left  trials that are not settled; those of `met` are among them
    """

    def __init__(self) -> None:
        self.met: list[Run] = []
        self.left: list[Trial] = []

    def meet(self, run: Run) -> str:
        """Take note of such an attempt; says what is not begun any more."""
        self.met.append(run)
        self.left.append(run.trial)
        return f"no other trial of {called(run.extent, run.trial)} is begun: it would meet the same"

    def hinders(self, trial: Trial) -> bool:
        """Whether a trial would meet the same; it is left then."""
        hindered = any(within(run.extent, run.trial, trial) for run in self.met)
        if hindered:
            self.left.append(trial)
        return hindered
