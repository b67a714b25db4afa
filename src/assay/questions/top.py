"""What runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from os import PathLike

    from assay.monitor.live import LiveRuns


def top(reference: str = "", *, runs: str | PathLike[str] | None = None) -> LiveRuns:
    """Every running trial with its nodes, GPUs and ranks, what is off first, like `assay top`.

    reference  a suite or a session; "" for all
    runs       directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if the reference matches no session.
    """
    from assay.monitor.live import live_runs

    return live_runs(runs_directory(runs), reference)
