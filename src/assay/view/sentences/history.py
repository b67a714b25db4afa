"""A history as text: its steps, how certain they are, and what else changed at each step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assay.analyse.history import MetricHistory, SessionValue
from assay.analyse.statistics.level_shifts import BETWEEN_FALSE_CHANGES, FEWEST, LevelShift, false_change_rate
from assay.errors import InputError
from assay.units import significant
from assay.view import figures

_MANY = 5  # histories; from this many on, the expected number of false steps is reported
_WAYS = {True: "better", False: "worse", None: "neither better nor worse in itself"}


@dataclass(frozen=True)
class FactChange:
    """A fact that differs between two sessions and could have changed a number, with both values as text."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.old} → {self.new}"


@dataclass(frozen=True)
class AnnotatedHistory:
    """A history with what else changed at each of its steps, in the same order.

    slow_in   session of a sweep that names this node as slow → what its page says of it, newest first
    unjudged  session of a sweep that can't be judged → why
    """

    history: MetricHistory
    changes: tuple[tuple[FactChange, ...], ...]
    slow_in: Mapping[str, str] = field(default_factory=dict)
    unjudged: Mapping[str, str] = field(default_factory=dict)


def annotate(
    history: MetricHistory,
    changed: Callable[[SessionValue, SessionValue], Sequence[FactChange]],
    sweeps: Mapping[str, str | InputError],
) -> AnnotatedHistory:
    """The history, with the sessions on both sides of each step compared by `changed`.

    sweeps  session of a sweep → what its page says of this node, if it is slow, or why it can't be judged
    """
    changes = tuple(tuple(changed(*around(history, step))) for step in history.steps)
    slow_in = {session: finding for session, finding in sweeps.items() if isinstance(finding, str)}
    unjudged = {session: str(finding) for session, finding in sweeps.items() if session not in slow_in}
    return AnnotatedHistory(history, changes, slow_in, unjudged)


def swept(annotated: AnnotatedHistory) -> list[str]:
    """What sweeps say of this node, if they name it as slow: one line for each, the newest first."""
    slow = [
        f"the sweep {session} says of this node: {finding}" for session, finding in annotated.slow_in.items()
    ]
    return slow + [
        f"the sweep {session} can't be judged: {why}" for session, why in annotated.unjudged.items()
    ]


def around(history: MetricHistory, step: LevelShift) -> tuple[SessionValue, SessionValue]:
    """The last session that is certainly at the old level and the first that is certainly at the new one."""
    return history.entries[step.earliest - 1], history.entries[step.latest]


def place(history: MetricHistory) -> str:
    """`resnet50 throughput on 2 workers`."""
    point = history.point
    return f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"


def describe_sessions(history: MetricHistory) -> str:
    """`8 sessions, 1 step`, `1 step and 1 drift`; if the level never changed, the reason.

    Of too few sessions, only their number: `too_few` says once what that means.
    """
    kinds = Counter(map(kind, history.steps))
    steps = " and ".join(_counted(count, name) for name, count in kinds.items()) or history.reason
    sessions = _counted(len(history.entries), "session")
    summary = sessions if steps.startswith(sessions) else f"{sessions}, {steps}"
    return f"{summary}, in an unknown order" if history.undated else summary


def too_few(histories: Sequence[AnnotatedHistory]) -> str:
    """From how many sessions on steps are found, if some histories have fewer and `lead` doesn't say it."""
    some_short = any(len(annotated.history.entries) < FEWEST for annotated in histories)
    return f"Steps can be detected from {FEWEST} sessions on." if some_short and _looked(histories) else ""


def order_unknown(history: MetricHistory) -> str:
    """How many sessions have an unknown order, and what to do; "" if all sessions are dated."""
    if not history.undated:
        return ""
    unknown, whole = len(history.undated), len(history.entries)
    which = "these" if unknown == whole else f"{unknown} of these {whole}"
    return (
        f"order-unknown: no date is known for {which} sessions. They are listed in the order in which they "
        "were imported, which can produce false steps: import them with a `started_at` column"
    )


def describe_date(entry: SessionValue) -> str:
    """`2026-03-01 10:15`, the UTC date of a session; `no date` if it is unknown."""
    return when(entry.at) if entry.dated else "no date"


def size(step: LevelShift) -> str:
    """`−10.8 % (−11.0 to −10.6 %)`: the new level relative to the old one, to the digit of its interval."""
    low, high = step.ratio.low, step.ratio.high
    if low is None or high is None:
        return _change(step.ratio.value, 1)
    decimals = _decimals(high - low)
    ends = (_change(end, decimals) for end in (low, high))
    return f"{_change(step.ratio.value, decimals)} ({next(ends).removesuffix(' %')} to {next(ends)})"


def size_alone(step: LevelShift) -> str:
    """`−10.8 %`: like `size`, without the interval."""
    return size(step).partition(" (")[0]


def _decimals(width: float) -> int:
    """Decimals of a change in percent, given the interval's width as a share: its first digit."""
    return min(3, max(0, -math.floor(math.log10(100 * width)))) if width > 0 else 3


def _change(ratio: float, decimals: int) -> str:
    return f"{100 * (ratio - 1):+.{decimals}f} %".replace("-", "−")


def kind(step: LevelShift) -> str:
    """`step`, `drift`, or `step or drift`."""
    return step.kind.replace("-", " ")


def changed_by(step: LevelShift) -> str:
    """`changed by −10.8 % (−11.0 to −10.6 %), worse`; a drift `drifted by`."""
    return f"{'drifted' if step.kind == 'drift' else 'changed'} by {size(step)}, {way(step)}"


def way(step: LevelShift) -> str:
    """Whether the step is an improvement."""
    if not step.certain:
        return "not clearly better or worse: the interval contains no change, and the spread may have changed"
    return _WAYS[step.better]


def locate_step(history: MetricHistory, step: LevelShift) -> str:
    """`at session NAME`, with the time if the name lacks the day: the likeliest first at the new level.

    Of a drift, `from session NAME to session NAME`.
    """
    entry = history.entries[step.before]
    time = when(entry.at)
    says_day = entry.session.startswith(time.partition(" ")[0])
    began = f"from session {history.entries[step.earliest].session} to" if step.kind == "drift" else "at"
    return f"{began} session {entry.session}" + f" of {time} UTC" * (entry.dated and not says_day)


def began(history: MetricHistory, step: LevelShift) -> str:
    """Which sessions the new level may have begun with; "" if that is certain, or `at` says it."""
    if step.earliest == step.latest or step.kind == "drift":
        return ""
    first, last = history.entries[step.earliest], history.entries[step.latest]
    sentence = f"the new level began between sessions {first.session} and {last.session} (95 %)"
    unclear = "; whether the level changed at once or gradually is not clear yet"
    return sentence + unclear * (step.kind == "step-or-drift")


def spread(history: MetricHistory) -> str:
    """How much sessions scatter about their level; "" if unknown."""
    if history.spread is None:
        return ""
    return f"{figures.percent(history.spread)} between sessions when there is no step"


def dropped(history: MetricHistory) -> str:
    """How many older sessions were left out; "" if none."""
    return f"{_counted(history.dropped, 'older session')} not included" if history.dropped else ""


def lead(histories: Sequence[AnnotatedHistory]) -> str:
    """A summary in one or two sentences: the worst step first, then the number of steps."""
    return " ".join([_steps_lead(histories), *_sweeps_lead(histories)])


def _sweeps_lead(histories: Sequence[AnnotatedHistory]) -> list[str]:
    """That sweeps name nodes as slow, which a history without a step doesn't deny."""
    slow = [(annotated.history.system, session) for annotated in histories for session in annotated.slow_in]
    if not slow:
        return []
    nodes = len({system for system, _ in slow})
    if nodes == 1:
        return [f"{slow[0][0]} is slow in {_counted(len(slow), 'sweep')}, such as {slow[0][1]}."]
    return [f"{nodes} nodes are slow in sweeps, such as {slow[0][0]} in {slow[0][1]}."]


def _steps_lead(histories: Sequence[AnnotatedHistory]) -> str:
    steps = [(t.history, step) for t in histories for step in t.history.steps]
    if not steps:
        looked = _looked(histories)
        name = figures.metric(histories[0].history.point.metric)
        if not looked:
            return f"Steps of {name} can't be detected: {histories[0].history.reason}."
        return f"No step of {name} in {_counted(looked, 'history', 'histories')}."
    history, step = min(steps, key=lambda pair: gravity(pair[1]))
    unsure = ", in an unknown order of sessions" if history.undated else ""
    where = f"On {history.system} {place(history)}"
    worst = f"{where} {changed_by(step)}, {locate_step(history, step)}{unsure}."
    others = len(steps) - 1
    among = f" among {len(histories)} histories" if len(histories) > 1 else ""
    return f"{worst} {_counted(others, 'more step')}{among}." if others else worst


def gravity(step: LevelShift) -> tuple[int, float]:
    """Sort key for the worst step first: worse, then without direction, then better, each by size."""
    return (False, None, True).index(step.better), -abs(math.log(step.ratio.value))


def false_alarms(histories: Sequence[AnnotatedHistory]) -> str:
    """The expected number of histories with a false step, at most; "" if there are few histories."""
    looked = [len(annotated.history.entries) for annotated in histories if _looked_at(annotated)]
    if len(looked) < _MANY:
        return ""
    expected = significant(sum(map(false_change_rate, looked)), 2)
    return (
        f"False steps are {BETWEEN_FALSE_CHANGES} sessions or more apart in a history, on average: expect at "
        f"most about {expected} of these {len(looked)} histories to show one"
    )


def _looked(histories: Sequence[AnnotatedHistory]) -> int:
    return sum(map(_looked_at, histories))


def _looked_at(annotated: AnnotatedHistory) -> bool:
    return annotated.history.spread is not None


def when(moment: float) -> str:
    """`2026-03-01 10:15`, UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")


def _counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
