"""Which rank of a running job is slower than the others, and whether the job has stopped. Pure.

A job is looked at after every 64 steps, whatever its age: in 100,000 steps, a healthy job has a rank named
with a probability of at most 5 %, which all looks, windows and ranks share alike. A rank's figure is the mean
over a window of the newest steps of its time relative to the median of the others' in the same step, so what
slows all ranks alike plays no part; it is limited to where most of its steps are, so a long pause plays
little. Steps resemble their neighbors: a window counts as the number of independent steps that it is worth,
and is judged only if they are enough. Short windows show soon what has just begun; long ones show it in
correlated steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.formats.mllog import Event, is_number

Floats = NDArray[np.float64]

LEVEL: Final = 0.05  # probability that a healthy job has a rank named in HORIZON steps
HORIZON: Final = 100_000
EVERY: Final = 64  # steps between looks
WINDOWS: Final = (64, 128, 256, 512, 1024, 2048, 4096)  # newest steps that a look considers
FEWEST_STEPS: Final = 24
# Steps that a window must be worth: with fewer, its own estimate of that is often too high.
FEWEST_INDEPENDENT: Final = 32
SEGMENT: Final = 1024  # steps that show how long steps usually resemble each other
CLIPPED: Final = 4.0  # standard deviations from a rank's median, beyond which a step counts no more
TO_SIGMA: Final = 1.4826  # of a median absolute deviation, for normal values
ALIKE: Final = 1.02  # ratio that healthy ranks may have for ever
LEAST_RATIO: Final = 1.05  # a rank that is closer to the others is not worth a look
WARM_UP: Final = 16  # steps before a silence can be a stop: the first ones compile and read data anew
SILENT_S: Final = 60.0  # shorter silences are never a stop
SILENT_GAPS: Final = 8.0  # longest gaps between two steps that a silence must exceed


@dataclass(frozen=True)
class Straggler:
    """A rank that is slower than the others.

    ratio  of its step time to the median of the others', with the ends of a 95 % interval
    steps  on which it rests
    """

    rank: int
    ratio: float
    low: float
    high: float
    steps: int


@dataclass(frozen=True)
class RankVerdict:
    """Which ranks are slower than the others, and what could not be seen.

    slow        the slowest first
    named_from  ratio from which any rank that could be judged would be named; None if none could
    correlated  rank that can't be judged → over how many steps its times resemble each other
    steps       that all ranks state, the newest of them: on these the verdict rests
    """

    slow: tuple[Straggler, ...] = ()
    named_from: float | None = None
    correlated: Mapping[int, float] = field(default_factory=dict)
    steps: int = 0

    def document(self) -> dict[str, Any]:
        """What could have been seen of ranks."""
        return {
            "named_from": self.named_from,
            "correlated_steps": {str(rank): steps for rank, steps in self.correlated.items()},
            "steps": self.steps,
        }


@dataclass(frozen=True)
class Stop:
    """No rank has taken a step for much longer than ever before.

    behind  ranks whose last step is an earlier one than others'; () if all are at the same
    """

    silent_s: float
    longest_gap_s: float
    step: int
    behind: tuple[int, ...]


def judge_ranks(times: Mapping[int, Mapping[int, float]]) -> RankVerdict:
    """The ranks that are slower, and from what ratio on one would be.

    times  rank → step → seconds that the step took this rank by itself. Ranks that wait for each other in
           each step take the same time, whoever is slow: then nobody is named.
    """
    if len(times) < 2:
        return RankVerdict()
    common = set.intersection(*(set(own) for own in times.values()))
    end = max(common, default=0) // EVERY * EVERY
    steps = sorted(step for step in common if step <= end)[-WINDOWS[-1] :]
    ranks = sorted(times)
    seconds = np.array([[times[rank][step] for step in steps] for rank in ranks])
    if len(steps) < FEWEST_STEPS or not (np.isfinite(seconds) & (seconds > 0)).all():
        return RankVerdict(steps=len(steps))
    windows = look(np.log(seconds))
    limits = np.array([window.limits() for window in windows])
    beyond = np.array([window.means for window in windows]) - limits
    best = beyond.argmax(axis=0)  # by rank: the window that shows most clearly what it lost
    slow = [windows[best[row]].straggler(row, ranks[row]) for row in np.flatnonzero(beyond.max(axis=0) > 0)]
    least = limits.min(axis=0)
    judged = np.isfinite(least)
    return RankVerdict(
        slow=tuple(sorted(slow, key=lambda straggler: -straggler.ratio)),
        named_from=math.exp(least[judged].max()) if judged.any() else None,
        correlated={ranks[row]: float(windows[-1].memory[row]) for row in np.flatnonzero(~judged)},
        steps=len(steps),
    )


def look(logs: Floats) -> list[Window]:
    """The windows of jobs whose ranks' steps took exp(`logs[..., rank, step]`) seconds."""
    relative = _relative_to_others(logs)
    stretches = np.array_split(relative, max(relative.shape[-1] // SEGMENT, 1), axis=-1)
    memory = np.stack([_window(stretch, 1.0).memory for stretch in stretches])
    # the median over ranks and stretches: a rank that has just become slow plays no part
    usual = np.median(memory, axis=(0, -1))[..., None]
    steps = relative.shape[-1]
    return [_window(relative[..., -length:], usual) for length in WINDOWS if length < 2 * steps]


def _relative_to_others(logs: Floats) -> Floats:
    """Each rank's logarithm less the median of the others', `[..., rank, step]`."""
    count = logs.shape[-2]
    ordered = np.sort(logs, axis=-2)
    place = np.argsort(np.argsort(logs, axis=-2), axis=-2)
    # without a rank, those above it are one place lower
    of_low, of_high = (
        np.where(place <= middle, ordered[..., middle + 1, None, :], ordered[..., middle, None, :])
        for middle in ((count - 2) // 2, (count - 1) // 2)
    )
    relative: Floats = logs - (of_low + of_high) / 2
    return relative


@dataclass(frozen=True)
class Window:
    """The newest steps, `[..., rank]`: logarithms relative to the median of the others.

    means      limited to where most of the rank's steps are
    variances  of a step
    memory     number of steps that count as one independent step, at least what is usual
    steps      in the window
    """

    means: Floats
    variances: Floats
    memory: Floats
    steps: int

    @property
    def independent(self) -> Floats:
        """The number of independent steps that it is worth."""
        return self.steps / self.memory

    @property
    def errors(self) -> Floats:
        """Standard errors of the means."""
        errors: Floats = np.sqrt(self.variances / (np.maximum(self.independent, 2.0) - 1))
        return errors

    def limits(self) -> Floats:
        """Means from which ranks are named; infinite for a rank that the window can't judge."""
        from scipy.stats import t as student

        worth = self.independent
        alpha = LEVEL * EVERY / HORIZON / len(WINDOWS) / self.means.shape[-1]
        errors = np.maximum(self.errors, np.median(self.errors, axis=-1, keepdims=True))
        far = student.isf(alpha, np.maximum(worth - 1, 1))
        limits = np.maximum(math.log(ALIKE) + far * errors, math.log(LEAST_RATIO))
        judged_limits: Floats = np.where(worth >= FEWEST_INDEPENDENT, limits, np.inf)
        return judged_limits

    def straggler(self, row: int, rank: int) -> Straggler:
        """The slow rank of this row."""
        from scipy.stats import t as student

        mean, error = float(self.means[row]), float(self.errors[row])
        half = float(student.isf(0.025, self.independent[row] - 1)) * error
        return Straggler(rank, math.exp(mean), math.exp(mean - half), math.exp(mean + half), self.steps)


def _window(relative: Floats, usual: Floats | float) -> Window:
    middle = np.median(relative, axis=-1, keepdims=True)
    far = CLIPPED * TO_SIGMA * np.median(np.abs(relative - middle), axis=-1, keepdims=True)
    far = np.where(far > 0, far, np.inf)  # most steps are alike, as in coarse times: none is an outlier
    values = np.clip(relative, middle - far, middle + far)
    means = values.mean(axis=-1)
    off = values - means[..., None]
    return Window(means, (off**2).mean(axis=-1), np.maximum(_memory(off), usual), values.shape[-1])


def _memory(off: Floats) -> Floats:
    """Integrated autocorrelation time along the last axis, in steps, at least 1; `off` has means of 0.

    Sums of correlations up to five times what they sum to. Each of them is too low, because the mean that was
    subtracted is that of the same steps. Sources: Sokal, Monte Carlo Methods in Statistical Mechanics (1996),
    section 3; of the correction, Wolff, Monte Carlo errors with less errors (2004).
    """
    steps = off.shape[-1]
    transformed = np.fft.rfft(off, 2 * steps)
    products = np.fft.irfft(np.abs(transformed) ** 2)[..., :steps]
    variances = products[..., :1]
    times = 2 * np.cumsum(products / np.where(variances > 0, variances, np.inf), axis=-1) - 1
    enough = np.arange(steps) >= 5 * times
    last = np.where(enough.any(axis=-1), enough.argmax(axis=-1), steps - 1)
    summed = np.take_along_axis(times, last[..., None], axis=-1)[..., 0]
    corrected: Floats = np.maximum(summed * (1 + (2 * last + 1) / steps), 1.0)
    return corrected


def stop(taken: Mapping[int, Sequence[tuple[int, float]]], now: float) -> Stop | None:
    """Whether the job has stopped.

    taken  rank → (step, when it was taken, seconds since 1970) in their order
    now    seconds since 1970

    None before 16 steps. Of simulated jobs of 1,000 steps whose pauses follow a Pareto law (exponent 2.5), at
    most 3 of 100 were said to have stopped.
    """
    moments = sorted(when for own in taken.values() for _, when in own)
    last = {rank: own[-1][0] for rank, own in taken.items() if own}
    if not last or max(map(len, taken.values())) < WARM_UP:
        return None
    longest_s = max((b[1] - a[1] for own in taken.values() for a, b in pairwise(own)), default=0.0)
    silent_s = now - moments[-1]
    if silent_s <= max(SILENT_S, SILENT_GAPS * longest_s):
        return None
    newest = max(last.values())
    behind = tuple(sorted(rank for rank, step in last.items() if step < newest))
    missing = tuple(sorted(set(taken) - set(last)))
    return Stop(silent_s, longest_s, newest, behind + missing)


STEP_FIGURES: Final = ("throughput", "step_time", "loss", "accuracy", "eval_accuracy", "step", "epoch")
STEPS_KEPT: Final = 4096  # steps: looks at ranks need the newest 256, pauses are rare
RESTARTED: Final = 16  # steps back, from which on a job has begun again from an earlier state


@dataclass
class Steps:
    """What one log has stated so far.

    figures  the newest of each name
    seconds  step → seconds that it took
    taken    step → time of day when it was first mentioned, seconds since 1970
    newest   step; None before the first
    """

    figures: dict[str, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    taken: dict[int, float] = field(default_factory=dict)
    newest: int | None = None

    def take(self, step: int, taken_at: float | None, seconds: float | None = None) -> None:
        """Add a step: when it was taken, None if unknown, and how long it took."""
        if self.newest is not None and step < self.newest - RESTARTED:
            self.seconds.clear()
            self.taken.clear()
            self.newest = None
        self.newest = step if self.newest is None else max(step, self.newest)
        if taken_at is not None:
            self.taken.setdefault(step, taken_at)
        if seconds is not None:
            self.seconds[step] = seconds
        for known in (self.seconds, self.taken):
            if len(known) > 2 * STEPS_KEPT:
                for old in sorted(known)[:-STEPS_KEPT]:
                    del known[old]

    def take_event(self, event: Event) -> None:
        """Add what an event of an MLPerf log states; a step takes as long as since the one before it."""
        stated = event.value if event.key == "tracked_stats" else {event.key: event.value}
        known: Mapping[str, object] = (
            {**event.metadata, **stated} if isinstance(stated, dict) else event.metadata
        )
        self.figures |= {name: float(value) for name in STEP_FIGURES if is_number(value := known.get(name))}
        step, own = known.get("step"), known.get("step_time")
        if not is_number(step) or event.time_ms is None:
            return
        number, when = int(step), event.time_ms / 1e3
        self.take(number, when, float(own) if is_number(own) else None)
        if number - 1 in self.taken and number not in self.seconds:
            self.seconds[number] = when - self.taken[number - 1]
