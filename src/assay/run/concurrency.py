"""Trials of one session that run concurrently, on nodes that they don't share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import groupby

from assay.records import Output, Result, Trial
from assay.run.progress import Progress
from assay.rundir.session import Attempt

MOST_JOBS = 64  # concurrently: one or two threads of this process follow each


@dataclass(frozen=True)
class Concurrency:
    """Which trials may run concurrently, and which are left for the next call.

    nodes       system → the nodes that its jobs are bound to
    most_nodes  busy at the same time; a job that needs more runs alone
    rounds      system → round; one round ends before the next starts; empty: all trials in one round
    away        called before each round: node → why no trial can start there
    begin_until no trial starts after this moment of the monotonic clock; None: no limit
    """

    nodes: Mapping[str, frozenset[str]]
    most_nodes: int
    rounds: Mapping[str, int] = field(default_factory=dict)
    away: Callable[[], Mapping[str, str]] = dict
    begin_until: float | None = None

    def late(self) -> bool:
        """Whether no further trial may start."""
        return self.begin_until is not None and time.monotonic() > self.begin_until

    def stretches(self, trials: Sequence[Trial]) -> list[list[Trial]]:
        """The trials of each round of each block, one after the other; otherwise in plan order."""

        def block_and_round(trial: Trial) -> tuple[int, int]:
            return trial.block, self.rounds.get(trial.system, 0)

        return [
            list(stretch) for _, stretch in groupby(sorted(trials, key=block_and_round), key=block_and_round)
        ]

    def nodes_of(self, trial: Trial) -> frozenset[str]:
        """The nodes that its job is bound to."""
        return self.nodes[trial.system]


def run_stretch(
    waiting: Sequence[Trial], begun: Sequence[Trial], how: Concurrency, run: Callable[[Trial], None]
) -> None:
    """Run the trials, each on its own thread, in their order as far as free nodes allow.

    begun  trials whose jobs an interrupted Assay had started: collected before anything else
    run    brings one trial to its end

    If a trial raises an error, no other trial starts; the error is raised once the running ones have ended.
    """
    with ThreadPoolExecutor(MOST_JOBS) as threads:
        _run(begun, how, lambda: False, lambda trial: threads.submit(run, trial))
        if waiting and not how.late():
            away = how.away()
            there = [trial for trial in waiting if not how.nodes_of(trial) & away.keys()]
            _run(there, how, how.late, lambda trial: threads.submit(run, trial))


def _run(
    trials: Sequence[Trial],
    how: Concurrency,
    late: Callable[[], bool],
    start: Callable[[Trial], Future[None]],
) -> None:
    left, running = list(trials), dict[Future[None], Trial]()
    error: BaseException | None = None
    while True:
        while error is None and not late() and (trial := _next(left, running.values(), how)) is not None:
            left.remove(trial)
            running[start(trial)] = trial
        if not running:
            break
        for ended in wait(running, return_when=FIRST_COMPLETED).done:
            del running[ended]
            error = error or ended.exception()
    if error is not None:
        raise error


def _next(left: Sequence[Trial], running: Collection[Trial], how: Concurrency) -> Trial | None:
    """The first trial whose nodes are free, if there is room for another."""
    if len(running) >= MOST_JOBS:
        return None
    busy = frozenset[str]().union(*map(how.nodes_of, running))
    for trial in left:
        nodes = how.nodes_of(trial)
        if not busy or (not nodes & busy and len(nodes) + len(busy) <= how.most_nodes):
            return trial
    return None


class ConcurrentProgress:
    """One of several concurrent trials, for the progress display of the session.

    The output of jobs is not shown: for many at once it is useless. What a trial waits for is shown once.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._noted: set[str] = set()

    def trial_began(self, trial: Trial, attempt: int, *, adopted: bool) -> None:
        """Passed on unchanged."""
        with self._lock:
            self._progress.trial_began(trial, attempt, adopted=adopted)

    def printed(self, output: Output) -> None:
        """Not shown."""

    def waited(self, why: str) -> None:
        """A reason is shown once, whichever trial it was."""
        if why:
            self.noted(f"waits: {why}")
        with self._lock:
            self._progress.waited("")

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """Passed on unchanged."""
        with self._lock:
            self._progress.trial_ended(result, attempt, settled=settled)

    def noted(self, message: str) -> None:
        """Shown once; of messages about each system (`SYSTEM: words`), the first."""
        what = message.rpartition(": ")[2]
        with self._lock:
            if what not in self._noted:
                self._noted.add(what)
                self._progress.noted(message)

    def close(self) -> None:
        """Passed on unchanged."""
        self._progress.close()
