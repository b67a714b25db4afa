"""What logs, dumps and NCCL say of a watched job, in lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from assay.formats.tools import unrecognised
from assay.monitor.stragglers import FEWEST_INDEPENDENT, FEWEST_STEPS, WINDOWS
from assay.units import counted, human, significant

if TYPE_CHECKING:
    from assay.monitor.flight_recorder import CollectiveStop, FlightRecord
    from assay.monitor.nccl_ras import RasRank, RasStall, RasWatch
    from assay.monitor.stragglers import RankVerdict
    from assay.monitor.watching_logs import WatchedLog, WatchedLogs

SHOWN = ("epoch", "loss", "accuracy", "eval_accuracy", "throughput", "interval_throughput", "step_time")
MOST_FIGURES = 6  # of a program that names its own
MOST_NAMED = 8  # ranks in a sentence


def describe_logs(logs: WatchedLogs, *, only_off: bool) -> Iterator[str]:
    """The newest step of each log, and what is off, or only that."""
    if not only_off:
        yield from (f"{log.path}  {_describe_log(log)}" for log in logs.logs)
        if len(logs.logs) > 1:
            yield from _limits(logs.ranks, "step", lambda rank: str(logs.logs[rank].path))
    if logs.stop is not None:
        before = f"before at most {logs.stop.longest_gap_s:.3g} s"
        yield (
            f"! no step for {logs.stop.silent_s:.0f} s, {before}: it may have stopped, or evaluate or save "
            "for the first time"
        )
    yield from (f"! {log.path}: {log.off}" for log in logs.logs if log.off)


def describe_silent_logs(logs: WatchedLogs) -> Iterator[str]:
    """Which logs were never understood, or had no step while they were watched."""
    for log in logs.logs:
        if not log.format:
            yield f"{log.path} {unrecognised(log.path, 'describe its steps with --step-pattern')}"
        elif log.steps.newest is not None and not log.steps.taken:
            yield (
                f"{log.path}: no step while it was watched; it last grew {log.grown_s:.0f} s ago, and how "
                "long a step takes here is unknown"
            )


def _limits(verdict: RankVerdict, unit: str, name: Callable[[int], str]) -> Iterator[str]:
    """What could have been seen of ranks, and what could not.

    unit  what they take their times for: a step, a collective; name: of a rank
    """
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


def _describe_log(log: WatchedLog) -> str:
    if not log.format:
        return "no step recognized yet"
    step = "no step yet" if log.steps.newest is None else f"step {log.steps.newest}"
    silent = f"  silent for {log.grown_s:.0f} s" if log.grown_s > 2 else ""
    return "  ".join((step, *_figures(log.steps.figures, log.units))) + silent


def _figures(figures: Mapping[str, float], units: Mapping[str, str]) -> Iterator[str]:
    shown = [name for name in SHOWN if name in figures] or [name for name in figures if name != "step"]
    for name in shown[:MOST_FIGURES]:
        unit = units.get(name, "s" if name == "step_time" else "")
        value = human(figures[name], unit) if unit else significant(figures[name], 4)
        yield f"{name.replace('_', ' ')} {value}"


def describe_record(record: FlightRecord) -> Iterator[str]:
    """What dumps of torch's flight recorder say."""
    yield f"Dumps of {counted(len(record.ranks), 'rank')}."
    for stop in record.stops:
        yield from _stop(stop)
    if any(stop.missing for stop in record.stops):
        yield "This holds for dumps of a timeout: in dumps of a job that runs, a rank may be a moment behind."
    if not record.stops:
        yield "No collective is open: every rank had completed what it called."
    for slow in record.stragglers:
        yield (
            f"! rank {slow.rank} takes {slow.ratio:.2f} times as long from one collective to the next as the "
            f"others ({slow.low:.2f} to {slow.high:.2f}, {slow.steps} collectives)"
        )
    for group, verdict in record.verdicts.items():
        yield from (f"group {group}: {line}" for line in _limits(verdict, "collective", "rank {}".format))
    if not record.timed:
        yield "Collectives were not timed, so nobody can be named as slow: set TORCH_NCCL_ENABLE_TIMING=1."


def _stop(stop: CollectiveStop) -> Iterator[str]:
    where = f"collective {stop.number} ({stop.name}) of group {stop.group}"
    if stop.missing:
        has = "has" if len(stop.missing) == 1 else "have"
        yield f"! {_ranks(stop.missing)} {has} not reached {where}; {_numbers(stop.waiting)} wait in it"
    elif not stop.different:
        yield f"! every rank is in {where}, and it does not complete: look at the network and the GPUs"
    for rank, call in list(stop.different.items())[:MOST_NAMED]:
        yield f"! rank {rank} called {call} as {where}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_numbers(ranks)}"


def _numbers(ranks: Sequence[int]) -> str:
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return ", ".join(map(str, ranks[:MOST_NAMED])) + more


def describe_communicators(watched: RasWatch) -> Iterator[str]:
    """What NCCL itself reports of a running job."""
    largest = max((communicator.size for communicator in watched.communicators), default=0)
    count = counted(len(watched.communicators), "communicator")
    yield f"{watched.at_s:8.1f} s  {count}, the largest of {counted(largest, 'rank')}"
    for stall in watched.stalls:
        yield f"! {_stall(stall)}"
    for name, ranks in watched.lost.items():
        yield f"! communicator {name}: no answer from {_named(ranks)}"
    for name, ranks in watched.failed.items():
        yield f"! communicator {name}: NCCL reports error {ranks[0].error} of {_named(ranks)}"


def _stall(stall: RasStall) -> str:
    calls = f"{stall.low}" if stall.low == stall.high - 1 else f"{stall.low} to {stall.high - 1}"
    return (
        f"communicator {stall.communicator} of {stall.size}: the others wait for {_named(stall.behind)}, "
        f"with {calls} calls of {stall.operation} instead of {stall.high}; nothing has changed for "
        f"{stall.silent_s:.0f} s, before for at most {stall.longest_gap_s:.0f} s"
    )


def _named(ranks: Sequence[RasRank]) -> str:
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    named = ", ".join(f"{rank.rank} ({rank.host}, process {rank.pid})" for rank in ranks[:MOST_NAMED])
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {named}{more}"
