"""What a history says, in words: its steps, how sure they are, and what else changed there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from assay.analyse.history import FALSE_ALARM, History, LevelShift, SessionValue
from assay.report import figures
from assay.units import significant

_MANY = 5  # histories, that false steps are counted among
_WAYS = {True: "better", False: "worse", None: "neither better nor worse by itself"}


@dataclass(frozen=True)
class FactChange:
    """What could have changed a number and differs between two sessions, with both values as text."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.old} → {self.new}"


@dataclass(frozen=True)
class AnnotatedHistory:
    """A history with what else changed at each of its steps, in their order."""

    history: History
    changes: tuple[tuple[FactChange, ...], ...]


def told(
    history: History, changed: Callable[[SessionValue, SessionValue], Sequence[FactChange]]
) -> AnnotatedHistory:
    """The history, each step's two sides held against each other by `changed`."""
    return AnnotatedHistory(history, tuple(tuple(changed(*around(history, step))) for step in history.steps))


def around(history: History, step: LevelShift) -> tuple[SessionValue, SessionValue]:
    """The last session that is surely of the old level and the first that surely is of the new one."""
    return history.entries[step.earliest - 1], history.entries[step.latest]


def place(history: History) -> str:
    """`resnet50 throughput on 2 workers`."""
    point = history.point
    return f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"


def found(history: History) -> str:
    """`8 sessions, 1 step`; without any step, why."""
    steps = _counted(len(history.steps), "step") if history.steps else history.reason
    sessions = _counted(len(history.entries), "session")
    told = steps if steps.startswith(sessions) else f"{sessions}, {steps}"
    return f"{told}, in an order that nobody stated" if history.undated else told


def order_unknown(history: History) -> str:
    """Which sessions are in no known order, and what to do; "" where all say when they were made."""
    if not history.undated:
        return ""
    unknown, whole = len(history.undated), len(history.entries)
    of = "these" if unknown == whole else f"{unknown} of these {whole}"
    return (
        f"order-unknown: nothing says when {of} sessions were made; they are in the order in which they were "
        "imported, and steps may come of it: import them with a column `started_at`"
    )


def made(entry: SessionValue) -> str:
    """`2026-03-01 10:15`, UTC, of a session; `no date` where nobody says."""
    return when(entry.at) if entry.dated else "no date"


def size(step: LevelShift) -> str:
    """`−10.8 % (−11.0 to −10.6 %)`: the new level against the old one, to the digit of its interval."""
    low, high = step.ratio.low, step.ratio.high
    if low is None or high is None:
        return _change(step.ratio.value, 1)
    decimals = _decimals(high - low)
    ends = (_change(end, decimals) for end in (low, high))
    return f"{_change(step.ratio.value, decimals)} ({next(ends).removesuffix(' %')} to {next(ends)})"


def size_alone(step: LevelShift) -> str:
    """`−10.8 %`: as `size` has it, without the interval."""
    return size(step).partition(" (")[0]


def _decimals(width: float) -> int:
    """Of a change in percent whose interval is so wide, as a share: the first digit of the width."""
    return min(3, max(0, -math.floor(math.log10(100 * width)))) if width > 0 else 3


def _change(ratio: float, decimals: int) -> str:
    return f"{100 * (ratio - 1):+.{decimals}f} %".replace("-", "−")


def way(step: LevelShift) -> str:
    """Whether the step is an improvement."""
    return _WAYS[step.better]


def at(history: History, step: LevelShift) -> str:
    """`with the session of 2026-03-05 02:15 UTC`: the likeliest first one of the new level."""
    entry = history.entries[step.before]
    return f"with the session of {when(entry.at)} UTC" if entry.dated else f"with the session {entry.session}"


def began(history: History, step: LevelShift) -> str:
    """Which session the new level began with, as far as that is known; "" where it is certain."""
    if step.earliest == step.latest:
        return ""
    first, last = history.entries[step.earliest], history.entries[step.latest]
    return f"the new level began with any session from {first.session} to {last.session} (95 %)"


def spread(history: History) -> str:
    """How much sessions differ where nothing steps; "" where it can't be known."""
    if history.spread is None:
        return ""
    return f"{figures.percent(history.spread)} from one session to the next where nothing steps"


def dropped(history: History) -> str:
    """How many older sessions were left out; "" where none was."""
    return f"{_counted(history.dropped, 'older session')} not looked at" if history.dropped else ""


def lead(histories: Sequence[AnnotatedHistory]) -> str:
    """The whole in a sentence or two: the worst step first, then how many there are."""
    steps = [(t.history, step) for t in histories for step in t.history.steps]
    if not steps:
        looked = sum(map(_looked_at, histories))
        name = figures.metric(histories[0].history.point.metric)
        if not looked:
            return f"No step of {name} can be told: {histories[0].history.reason}."
        return f"No step of {name} in {_counted(looked, 'history', 'histories')}."
    history, step = min(steps, key=lambda found: gravity(found[1]))
    unsure = ", in an order of sessions that nobody stated" if history.undated else ""
    where = f"On {history.system} {place(history)}"
    worst = f"{where} stepped by {size(step)}, {way(step)}, {at(history, step)}{unsure}."
    others = len(steps) - 1
    among = f" among {len(histories)} histories" if len(histories) > 1 else ""
    return f"{worst} {_counted(others, 'more step')}{among}." if others else worst


def gravity(step: LevelShift) -> tuple[int, float]:
    """What puts the worst step first: worse before undirected before better, then by size."""
    return (False, None, True).index(step.better), -abs(math.log(step.ratio.value))


def false_alarms(histories: Sequence[AnnotatedHistory]) -> str:
    """How many of so many histories show a step though there is none; "" where they are few."""
    looked = sum(map(_looked_at, histories))
    if looked < _MANY:
        return ""
    return (
        f"Each history without a step shows one falsely in {100 * FALSE_ALARM:.0f} % of cases: "
        f"of these {looked} about {significant(FALSE_ALARM * looked, 2)}"
    )


def _looked_at(one: AnnotatedHistory) -> bool:
    return one.history.spread is not None


def when(at: float) -> str:
    """`2026-03-01 10:15`, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _counted(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
