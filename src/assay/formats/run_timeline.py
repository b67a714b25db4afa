"""When a run did what, by its own log: phases, and the figures that it printed on the way, in time of day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.formats.mllog import Event, events, is_number

MOST_POINTS = 20_000  # of one curve
_BEGIN, _END = "_start", "_stop"
_PHASES: Final[Mapping[str, str]] = {
    "init": "start",
    "run": "run",
    "epoch": "epoch",
    "block": "training",
    "eval": "evaluation",
    "checkpoint": "checkpoint",
}
_FIGURES: Final = frozenset({"throughput", "loss", "step_time", "eval_accuracy", "accuracy"})
_SUMMARY: Final = "labels"  # in the metadata of a line that is about the run, not about this moment


@dataclass(frozen=True)
class RunPhase:
    """A part of a run, seconds since 1970; end_at None: the log does not say.

    name  start, run, training (a block of epochs, if the log has no epochs), epoch, evaluation, checkpoint
    """

    name: str
    begin_at: float
    end_at: float | None


@dataclass(frozen=True)
class RunTimeline:
    """The phases of a run in their order, and its figures as (seconds since 1970, value)."""

    phases: tuple[RunPhase, ...]
    curves: Mapping[str, tuple[tuple[float, float], ...]]


def run_timeline(log: Path) -> RunTimeline:
    """The timeline of a log with MLLOG lines; empty if it has none. Raises InputError if it can't be read."""
    begun: dict[str, float] = {}
    phases: list[RunPhase] = []
    curves: dict[str, list[tuple[float, float]]] = {}
    for event in events(log):
        if event.time_ms is None:
            continue
        time_s = event.time_ms / 1e3
        name = event.key.removesuffix(_BEGIN).removesuffix(_END)
        if name in _PHASES and event.key == name + _BEGIN:
            begun[name] = time_s
        elif name in _PHASES and event.key == name + _END and name in begun:
            begin_at = begun.pop(name)
            phases.append(
                RunPhase(_PHASES[name], begin_at, max(begin_at, time_s))
            )  # somebody may set a clock
        for figure, value in _figures(event):
            curve = curves.setdefault(figure, [])
            if len(curve) < MOST_POINTS:
                curve.append((time_s, value))
    phases += [RunPhase(_PHASES[name], time_s, None) for name, time_s in begun.items()]
    unique = {(phase.name, phase.begin_at): phase for phase in phases}
    if any(phase.name == "epoch" for phase in phases):
        unique = {key: phase for key, phase in unique.items() if phase.name != "training"}
    return RunTimeline(
        tuple(sorted(unique.values(), key=lambda phase: phase.begin_at)),
        {name: tuple(curve) for name, curve in curves.items() if len(curve) > 1},
    )


def _figures(event: Event) -> Iterator[tuple[str, float]]:
    if event.kind != "point" or _SUMMARY in event.metadata:
        return
    stated = event.value if event.key == "tracked_stats" else {event.key: event.value}
    if isinstance(stated, dict):
        for name, value in stated.items():
            if name in _FIGURES and is_number(value):
                yield name, float(value)
