"""`assay watch --log`: the steps that a running job's logs state, alone or next to samples of the job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import click

from assay.cli.options import echo_json_line

if TYPE_CHECKING:
    from assay.monitor.stragglers import RankVerdict
    from assay.monitor.watching_logs import WatchedLog, WatchedLogs

Sample = TypeVar("Sample")
SHOWN = ("epoch", "loss", "accuracy", "eval_accuracy", "throughput", "interval_throughput", "step_time")
MOST_FIGURES = 6  # of a program that names its own


def show(logs: WatchedLogs, every: float, for_: float | None, *, as_json: bool) -> None:
    """Print what each look finds."""
    from assay.monitor.watching_logs import watch

    for _ in watch(logs, every, for_):
        _look(logs, as_json=as_json)


def beside(samples: Iterator[Sample], logs: WatchedLogs | None, *, as_json: bool) -> Iterator[Sample]:
    """The samples; after each has been shown, what the logs have added since."""
    import time

    for sample in samples:
        yield sample
        if logs is not None:
            logs.look(time.time())
            _look(logs, as_json=as_json, only_off=sys.stdout.isatty())


def ended(logs: WatchedLogs | None) -> None:
    """Say which logs were never understood, and exit with 1 if a rank was named at the end."""
    if logs is None:
        return
    from assay.formats.tools import unrecognised

    for log in logs.logs:
        if not log.format:
            what = "describe its steps with --step-pattern"
            click.echo(f"{log.path} {unrecognised(log.path, what)}", err=True)
        elif log.steps.newest is not None and not log.steps.taken:
            click.echo(
                f"{log.path}: no step while it was watched; it last grew {log.grown_s:.0f} s ago, and how "
                "long a step takes here is unknown",
                err=True,
            )
    if logs.names_a_rank:
        click.get_current_context().exit(1)


def _look(logs: WatchedLogs, *, as_json: bool, only_off: bool = False) -> None:
    if as_json:
        echo_json_line(logs.document())
        return
    for log in () if only_off else logs.logs:
        click.echo(f"{log.path}  {_words(log)}")
    for line in () if only_off or len(logs.logs) < 2 else _limits_of(logs):
        click.echo(line)
    if logs.stop is not None:
        before = f"before at most {logs.stop.longest_gap_s:.3g} s"
        click.echo(
            f"! no step for {logs.stop.silent_s:.0f} s, {before}: it may have stopped, or evaluate or save "
            "for the first time"
        )
    for log in logs.logs:
        if log.off:
            click.echo(f"! {log.path}: {log.off}")


def _limits_of(logs: WatchedLogs) -> Iterator[str]:
    return limits(logs.ranks, "step", lambda rank: str(logs.logs[rank].path))


def limits(verdict: RankVerdict, unit: str, name: Callable[[int], str]) -> Iterator[str]:
    """What could have been seen of ranks, and what could not.

    unit  what they take their times for: a step, a collective; name: of a rank
    """
    from assay.monitor.stragglers import FEWEST_INDEPENDENT, FEWEST_STEPS, WINDOWS
    from assay.units import counted

    if verdict.named_from is not None:
        yield f"a rank that takes at least {verdict.named_from:.2f} times the others' time is named"
    elif 0 < verdict.steps < FEWEST_STEPS:
        few = f"there are {verdict.steps}"
        yield f"ranks are judged from {FEWEST_STEPS} {unit}s on that all of them state; {few}"
    if verdict.correlated:
        ranks = ", ".join(map(name, verdict.correlated))
        memory = max(verdict.correlated.values())
        kept = f", and the newest {WINDOWS[-1]:,} are looked at" if verdict.steps == WINDOWS[-1] else ""
        yield (
            f"can't tell whether these are slower: {ranks}; their times resemble each other over about "
            f"{counted(round(memory), unit)}, so {FEWEST_INDEPENDENT * memory:,.0f} are needed; there are "
            f"{verdict.steps:,}{kept}"
        )


def _words(log: WatchedLog) -> str:
    if not log.format:
        return "no step recognized yet"
    step = "no step yet" if log.steps.newest is None else f"step {log.steps.newest}"
    silent = f"  silent for {log.grown_s:.0f} s" if log.grown_s > 2 else ""
    return "  ".join((step, *_figures(log.steps.figures, log.units))) + silent


def _figures(figures: Mapping[str, float], units: Mapping[str, str]) -> Iterator[str]:
    from assay.units import human, significant

    shown = [name for name in SHOWN if name in figures] or [name for name in figures if name != "step"]
    for name in shown[:MOST_FIGURES]:
        unit = units.get(name, "s" if name == "step_time" else "")
        value = human(figures[name], unit) if unit else significant(figures[name], 4)
        yield f"{name.replace('_', ' ')} {value}"
