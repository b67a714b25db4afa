"""What NCCL itself reports of a running job, and which ranks others wait for.

Since 2.24 each process of an NCCL job answers on `localhost:28028`: it asks the other processes and returns
the state of all. Since 2.28.7 it does so as JSON. Asking changes nothing of the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.errors import HostError, InputError
from assay.monitor.nccl_ras_answers import ANSWER_S, RasCommunicator, RasRank, ask, host_and_port, parse
from assay.monitor.stragglers import SILENT_GAPS, SILENT_S, WARM_UP
from assay.monitor.watching import LONGEST_S, SHORTEST_S

COLD_SILENT_S: Final = (
    600.0  # silence that counts while too few changes are known to judge the job's own pauses
)
IN_PROGRESS: Final = 7  # ncclInProgress: no error


@dataclass(frozen=True)
class RasStall:
    """A communicator in which ranks wait for others that have called fewer collectives.

    silent_s       since a count last changed
    longest_gap_s  longest time between two changes before, 0 if there were none
    low, high      calls of those that are behind, at least, and of the others
    """

    communicator: str
    size: int
    operation: str
    silent_s: float
    longest_gap_s: float
    low: int
    high: int
    behind: tuple[RasRank, ...]


@dataclass
class _Progress:
    """How the counts of a communicator change over time."""

    counts: Mapping[int, Mapping[str, int]]
    changed_s: float
    changes: int = 0
    longest_gap_s: float = 0.0

    def limit_s(self) -> float:
        """Silence from which on it counts as a stall."""
        return max(SILENT_S if self.changes >= WARM_UP else COLD_SILENT_S, SILENT_GAPS * self.longest_gap_s)


@dataclass
class RasWatch:
    """What NCCL has reported so far.

    at_s           of the newest answer, seconds since the first
    communicators  in the newest answer
    stalls         communicators in which ranks wait
    lost           ranks that NCCL got no answer from in the last two answers, by communicator
    failed         ranks with an asynchronous error, by communicator
    """

    at_s: float = 0.0
    communicators: tuple[RasCommunicator, ...] = ()
    stalls: tuple[RasStall, ...] = ()
    lost: Mapping[str, tuple[RasRank, ...]] = field(default_factory=dict)
    failed: Mapping[str, tuple[RasRank, ...]] = field(default_factory=dict)
    _progress: dict[str, _Progress] = field(default_factory=dict)
    _lost_before: set[tuple[str, int]] = field(default_factory=set)

    @property
    def names_a_rank(self) -> bool:
        """Whether a rank needs a look."""
        return bool(self.stalls or self.lost or self.failed)

    def take(self, communicators: Sequence[RasCommunicator], at_s: float) -> None:
        """Add an answer.

        Counts that differ are normal while they change. A communicator stalls if they differ and none has
        changed for 60 s and for 8 times its longest pause so far; for 600 s if it has changed less than 16
        times. If all are equal, it is idle or all ranks are in the same collective: nobody is named.
        Of 300 simulated jobs of 500 steps whose pauses follow a Pareto law (exponent 2.5), 0.7 % had a rank
        named if steps took at least 1 s, and 4.3 % if they took at least 60 s.
        """
        self.at_s, self.communicators = at_s, tuple(communicators)
        self._progress = {
            communicator.name: self._update_progress(communicator) for communicator in communicators
        }
        self.stalls = tuple(
            stall for communicator in communicators if (stall := self._stall(communicator)) is not None
        )
        lost = {
            (communicator.name, rank.rank): rank
            for communicator in communicators
            for rank in communicator.ranks
            if rank.is_lost
        }
        self.lost = {
            communicator.name: again
            for communicator in communicators
            if (
                again := tuple(
                    rank
                    for rank in communicator.ranks
                    if (communicator.name, rank.rank) in self._lost_before & set(lost)
                )
            )
        }
        self._lost_before = set(lost)
        self.failed = {
            communicator.name: bad
            for communicator in communicators
            if (bad := tuple(rank for rank in communicator.ranks if rank.error not in (0, IN_PROGRESS)))
        }

    def _update_progress(self, communicator: RasCommunicator) -> _Progress:
        counts = {rank.rank: rank.counts for rank in communicator.ranks if rank.counts}
        progress = self._progress.get(communicator.name)
        if progress is None:
            return _Progress(counts, self.at_s)
        # a rank that did not answer this time has not progressed by that
        if any(counts[rank] != progress.counts.get(rank, own) for rank, own in counts.items()):
            progress.longest_gap_s = max(progress.longest_gap_s, self.at_s - progress.changed_s)
            progress.changes += 1
            progress.changed_s = self.at_s
        progress.counts = {**progress.counts, **counts}
        return progress

    def _stall(self, communicator: RasCommunicator) -> RasStall | None:
        progress = self._progress[communicator.name]
        silent_s = self.at_s - progress.changed_s
        if silent_s <= progress.limit_s():
            return None
        answered = [rank for rank in communicator.ranks if rank.counts]
        for operation in sorted({name for rank in answered for name in rank.counts}):
            calls = {rank.rank: rank.counts.get(operation, 0) for rank in answered}
            low, high = min(calls.values()), max(calls.values())
            if low < high:
                behind = tuple(rank for rank in answered if calls[rank.rank] < high)
                return RasStall(
                    communicator.name,
                    communicator.size,
                    operation,
                    silent_s,
                    progress.longest_gap_s,
                    low,
                    high,
                    behind,
                )
        return None


def watch(address: str, period_s: float, for_s: float | None = None) -> Iterator[RasWatch]:
    """Ask until nobody answers any more, which is the end of the job, or for a time.

    It yields the same object after each answer. Raises InputError if nobody answers at first, or something
    that isn't NCCL does; HostError if an answer takes too long.
    """
    host, port = host_and_port(address)
    if not SHORTEST_S <= period_s <= LONGEST_S:
        raise InputError(f"every {period_s:g} s: choose between {SHORTEST_S:g} s and {LONGEST_S:g} s")
    watched, begin = RasWatch(), None
    while True:
        try:
            text = ask(host, port)
        except TimeoutError:
            raise HostError(
                f"{address}: NCCL did not answer completely within {ANSWER_S:g} s; try again"
            ) from None
        except OSError as error:
            if begin is not None:
                return
            raise InputError(
                f"{address}: no job's NCCL answers there ({error.strerror or error}); run this on a node of "
                "the job, while it runs; NCCL 2.28.7 or newer answers unless NCCL_RAS_ENABLE is 0"
            ) from None
        now = time.monotonic()
        begin = now if begin is None else begin
        try:
            watched.take(parse(text), now - begin)
        except ValueError as error:
            raise InputError(f"{address}: the answer is not NCCL's ({error})") from None
        yield watched
        left_s = period_s if for_s is None else min(period_s, begin + for_s - time.monotonic())
        if left_s <= 0:
            return
        time.sleep(left_s)
