"""When processes did not run because they were suspended: what they measured contains the pause.

Runs with only the standard library (3.9 or newer), next to keeper.py. A control group's freezer, a batch
system's suspend and a pause of the whole machine stop a keeper together with its ranks: its wait then ends
long after it should, although it did not wait for a CPU. Of a rank that alone gets SIGSTOP, the kernel tells
the keeper, its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator

from assay_payloads.keeping.file_tree import THIS_NODE

LEAST_S = 1.0  # that a wait ends late; busy machines stay below it


class Pauses:
    """The pauses of this process and of its children."""

    def __init__(self) -> None:
        self._pauses: list[tuple[float, float]] = []
        self._stopped: dict[int, float] = {}  # child that is stopped → since when
        self._queued_s = queued_s()

    def wait(self, signals: Collection[int], timeout_s: float) -> signal.struct_siginfo | None:
        """As `signal.sigtimedwait`, noting by how much it ends too late."""
        with self.noting(timeout_s):
            return signal.sigtimedwait(signals, timeout_s)

    @contextlib.contextmanager
    def noting(self, timeout_s: float) -> Iterator[None]:
        """Run a block that takes at most this long, noting by how much it ends too late."""
        due = now() + timeout_s
        try:
            yield
        finally:
            woken = now()
            if woken - due >= LEAST_S:
                before, self._queued_s = self._queued_s, queued_s()
                due += self._queued_s - before
                if woken - due >= LEAST_S:
                    self._pauses.append((due, woken))

    def look_at(self, children: Iterable[int]) -> None:
        """Note which of these children were stopped or continued since."""
        for child in children:
            while changed := change_of(child):
                if changed == os.CLD_STOPPED:
                    self._stopped.setdefault(child, now())
                elif child in self._stopped:
                    self._pauses.append((self._stopped.pop(child), now()))

    def is_stopped(self, child: int) -> bool:
        """Whether a child was stopped and not continued since, as of the last look."""
        return child in self._stopped

    def total_s(self) -> float:
        """Seconds in which this process or a child was suspended; each moment counts once."""
        return covered_s([*self._pauses, *((since, now()) for since in self._stopped.values())])

    def past_s(self) -> float:
        """The same of pauses that are over: a time limit is later by them.

        A child that is still stopped may have stopped itself, so its time limit does not move.
        """
        return covered_s(self._pauses)


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds that these spans cover; each moment counts once."""
    total = end = 0.0
    for begin, until in sorted(spans):
        total += max(0.0, until - max(begin, end))
        end = max(end, until)
    return total


def change_of(child: int) -> int | None:
    """CLD_STOPPED or CLD_CONTINUED if a child changed so since the last call; None also if it ended."""
    with contextlib.suppress(ChildProcessError):
        changed = os.waitid(os.P_PID, child, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        return changed.si_code if changed else None
    return None


def now() -> float:
    """Seconds of a clock that also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def queued_s() -> float:
    """Seconds that this process waited for a CPU so far; 0 if this kernel does not count them."""
    fields = (THIS_NODE.text("/proc/self/schedstat") or "").split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0
