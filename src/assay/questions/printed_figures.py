"""Which figures a program prints, found in its output: what `assay try` can compare.

A program of a known format has the format's figures. Of any other, lines such as `samples/s: 9,477.7` count:
a name, a number and a unit, of which one may be missing. A figure whose direction its name or unit shows is
a better candidate than one that may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.formats.mllog import EventReader
from assay.formats.numbers import direction
from assay.formats.tools import read_log, tools_of
from assay.inputs import reading
from assay.records import Better, Metric
from assay.units import factor
from assay.workloads.command_metrics import VALUE

_TAIL_BYTES = 2 << 20  # of an output that are searched: figures are repeated, or stand at the end
_LONGEST_LINE = 500
_MOST_SHOWN = 6
_DIGITS = (
    r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:[.][0-9]+)?|[0-9]+(?:[.][0-9]*)?(?:[eE][-+]?[0-9]+)?|[.][0-9]+)"
)
FIGURE = rf"{_DIGITS}|[-+]?(?:nan|NaN|NAN|inf|Inf|INF)\b"  # in a pattern: what is printed as a number
_NUMBER = re.compile(rf"(?<![\w.,/:-])(?:{FIGURE})")
_NAME = re.compile(r'([A-Za-z][\w/%.()-]*(?: [A-Za-z(][\w/%.()-]*){0,3})"? ?[:=] ?\Z')  # quoted in JSON
_WORD_BEFORE = re.compile(r"([A-Za-z][\w-]*) \Z")
_RATE = re.compile(r"[A-Za-z]+(?:/s(?:ec(?:ond)?)?|ps)(?:/[A-Za-z]+)?|[KMGTP]?FLOPS|qps|it/s", re.ASCII)
_TIMES = {word: word for word in ("ns", "us", "ms", "s", "min", "h")} | {
    "µs": "us", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "minutes": "min", "hours": "h"
}  # fmt: skip
_TIME_EACH = re.compile(r"(ns|us|µs|ms|s|sec|min)/[A-Za-z]+")
_UNIT = re.compile(r" ?([A-Za-zµ%][A-Za-zµ%/]*)(?![\w./%]| ?[:=])")  # no name of the next figure
_LOWER = re.compile(r"loss|error|latency|time|elapsed|duration|wait|perplexity|ttft|tpot", re.IGNORECASE)
_HIGHER = re.compile(r"throughput|accuracy|bandwidth|speed|\bmfu\b|\bacc\b|flops|goodput", re.IGNORECASE)


@dataclass(frozen=True)
class PrintedFigure:
    """One figure that a program prints.

    metric    its entry below `metrics` of the workload `command`
    better    which direction is better; None if nothing shows that
    rank      0 for a rate, 1 for a time, 2 for anything else with a direction, 3 without one
    values    as printed in the run that was looked at, in their order
    example   the line of the last one
    """

    name: str
    metric: Mapping[str, Any]
    better: Better | None
    rank: int
    values: tuple[float, ...] = ()
    example: str = ""

    @property
    def unit(self) -> str:
        """As printed."""
        return str(self.metric.get("unit", ""))


WALL_TIME = PrintedFigure("wall_time", {}, "lower", 1)  # which every run has, whatever it prints


@dataclass
class _LineFigure:
    figure: PrintedFigure
    values: list[float] = field(default_factory=list)
    example: str = ""


def printed_figures(log: Path) -> list[PrintedFigure]:
    """What a program printed, the best candidates first.

    Raises InputError if the output can't be read, or is of a known program that failed.
    """
    figures = [*_of_known_format(log)] or [*_of_lines(log)]
    return sorted(figures, key=lambda figure: figure.rank)


def of_pattern(pattern: str) -> PrintedFigure:
    """The figure that a pattern finds: `samples/s: {value}`, or a regular expression with a group `value`.

    Raises InputError if it has neither.
    """
    if "(?P<value>" in pattern:
        return PrintedFigure("figure", {"pattern": pattern, "thousands": ","}, None, 3)
    before, mark, after = pattern.partition("{value}")
    if not mark:
        raise InputError(
            f"--pattern {pattern!r}: nothing shows where the figure is; write the line with {{value}} in its "
            "place, as in 'samples/s: {value}'"
        )
    name, unit, _ = _around(before, after)
    if not (name or unit):
        name = re.sub(r"[^\w/% ]+", " ", before).strip()
    figure = _described(name, unit)
    text = f"{_escaped(before)}(?P<{VALUE}>{FIGURE}){_escaped(after)}"
    return replace(figure, metric={**figure.metric, "pattern": text})


def chosen(printed: Sequence[Sequence[PrintedFigure]], name: str | None) -> PrintedFigure:
    """The figure with this name; without a name, the only best one, else the wall time.

    printed  what each of the commands prints

    Raises InputError if not all print it, or several figures are equally good.
    """
    first = printed[0]
    shared = [f for f in first if all(any(f.metric == o.metric for o in other) for other in printed)]
    some = [f for figures in printed for f in figures if f.rank < 3 and f not in shared]
    if name is not None:
        known = {figure.name.casefold(): figure for figure in (WALL_TIME, *reversed(shared))}
        if name.casefold() in known:
            return known[name.casefold()]
        if any(figure.name.casefold() == name.casefold() for figures in printed for figure in figures):
            raise InputError(f"--figure {name}: only some of the commands print it")
        raise InputError(f"--figure {name}: no such figure is printed; {_choice(shared)}")
    best = [figure for figure in shared if figure.rank == shared[0].rank]
    if not best or best[0].rank > 2:
        if some and len(printed) > 1:
            raise InputError(f"only some of the commands print {some[0].name}; {_choice(shared)}")
        return WALL_TIME
    if len(best) > 1:
        raise InputError(f"several figures are printed: {_choice(best)}")
    return best[0]


def _choice(figures: Sequence[PrintedFigure]) -> str:
    lines = [f"--figure {_quoted(figure.name)}   {figure.example}" for figure in figures[:_MOST_SHOWN]]
    more = [f"and {len(figures) - _MOST_SHOWN} more"] if len(figures) > _MOST_SHOWN else []
    offered = "\n  ".join(["choose one:", *lines, *more, "--figure wall_time   how long the command takes"])
    return f"{offered}\n  or name its line: --pattern 'samples/s: {{value}}'"


def _quoted(name: str) -> str:
    return f"'{name}'" if " " in name else name


def _of_known_format(log: Path) -> Iterator[PrintedFigure]:
    """The figures of a known program, by the reader of its format."""
    for tool in tools_of(log)[:1]:
        run = read_log(tool.name, log)
        if run.problems:
            raise InputError(f"the output is that of {tool.name}, and it can't be used: {run.problems[0]}")
        declared = {metric.name: metric for metric in tool.metrics}
        for place, name in enumerate(dict.fromkeys([*declared, *(f.metric for f in run.figures)])):
            printed = [figure for figure in run.figures if figure.metric == name]
            if printed:
                unit = declared[name].unit if name in declared else printed[-1].unit
                better = declared[name].better if name in declared else direction(name, {})
                values = tuple(figure.value for figure in printed)
                entry = {"reader": tool.name, "unit": unit}
                example = f"{values[-1]:g} {unit}, as {tool.name} prints it"
                yield PrintedFigure(name, entry, better, min(place, 2), values, example)
        return
    events = [event for event in EventReader(log) if event.kind == "point"]
    if any(event.key == "run_stop" for event in EventReader(log)):
        yield PrintedFigure("time_to_train", {"reader": "mlperf", "unit": "min"}, "lower", 0, (), "MLPerf's")
        return
    for key in dict.fromkeys(event.key for event in events if "unit" in event.metadata):
        own = [event for event in events if event.key == key]
        values = tuple(float(event.value) for event in own if isinstance(event.value, int | float))
        metric = Metric(key, str(own[-1].metadata["unit"]), direction(key, {}), "")
        entry = {"reader": "mllog", "unit": metric.unit}
        yield PrintedFigure(key, entry, metric.better, 0 if metric.better else 3, values, f"MLLOG key {key}")


def _of_lines(log: Path) -> Iterator[PrintedFigure]:
    """Each figure of lines such as `samples/s: 9,477.7`, `loss 0.06 | 812 images/s`, `took 3.2 s`."""
    with reading(log) as file:
        file.seek(max(log.stat().st_size - _TAIL_BYTES, 0))
        text = file.read().decode(errors="replace")
    figures: dict[str, _LineFigure] = {}
    for line in re.split(r"[\r\n]+", text):
        for match in _NUMBER.finditer(line[:_LONGEST_LINE]):
            after = line[match.end() : _LONGEST_LINE]
            name, unit, length = _around(line[: match.start()], after)
            if not (name or unit) or re.match(r"[\w:/%-]|[.,]\d", after[length:]):
                continue
            figure = _described(name, unit)
            here = figures.setdefault(str(figure.metric["pattern"]), _LineFigure(figure))
            here.values.append(float(match[0].replace(",", "")))
            here.example = line.strip()[:80]
    for each in figures.values():
        metric = dict(each.figure.metric)
        if len(each.values) > 1 and each.figure.rank < 2:
            metric["pick"] = "median"  # of what a training prints as it goes
        yield replace(each.figure, metric=metric, values=tuple(each.values), example=each.example)


def _around(before: str, after: str) -> tuple[str, str, int]:
    """The name before a number, the unit after it, "" if there is none; and how long the unit is.

    Where a unit names the figure, as in `loss 0.06 | 812 images/s`, a word before it may be anything.
    """
    named, word, unit = _NAME.search(before), _WORD_BEFORE.search(before), _UNIT.match(after)
    if unit is None or not _is_unit(unit[1]):
        name = named or word
        return name[1] if name else "", "", 0
    name = named or (word if unit[1] in _TIMES else None)
    return name[1] if name else "", unit[1], unit.end()


def _is_unit(word: str) -> bool:
    is_rate_or_time = _RATE.fullmatch(word) or _TIME_EACH.fullmatch(word) or word in _TIMES
    return bool(is_rate_or_time) or factor(word)[1] != word  # one that Assay converts: MB, %


def _described(name: str, unit: str) -> PrintedFigure:
    """A figure by its name and unit, one of which may be ""; its pattern finds it in any line."""
    of_name = name.rpartition(" ")[2]
    printed = unit or (of_name if _RATE.fullmatch(of_name) else "")
    better: Better | None = direction(name.lower().replace(" ", "_"), {})
    if _RATE.fullmatch(printed):
        better, rank = "higher", 0
    elif printed in _TIMES or _TIME_EACH.fullmatch(printed):
        better, rank = "lower", 1
    else:
        better = better or ("lower" if _LOWER.search(name) else "higher" if _HIGHER.search(name) else None)
        rank = 2 if better else 3
    begin = rf'(?:^|[^\w/]){_escaped(name)}"? ?[:= ] ?' if name else r"(?:^|[^\w.,/:-])"
    end = rf" ?{_escaped(unit)}{_edge(unit)}" if unit else ""
    metric = {"pattern": f"{begin}(?P<{VALUE}>{FIGURE}){end}", "unit": _TIMES.get(printed, printed)}
    return PrintedFigure(name or unit or "figure", {**metric, "thousands": ","}, better, rank)


def _edge(unit: str) -> str:
    return r"\b" if unit[-1].isalnum() else ""


def _escaped(text: str) -> str:
    """Text in a pattern: each character for itself, and blanks for any number of blanks."""
    return re.sub(r" +", r"\\s+", re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text))
