"""An attack on the verdicts through public interfaces only: spreadsheets in, verdicts and doubts out.

    python benchmarks/verdicts.py                  a few minutes
    python benchmarks/verdicts.py --sets 2000      more precise rates
    python benchmarks/verdicts.py --smallest

All input is imported with `assay import` from CSV, and all output comes from `assay.compare` and
`assay.scale`, as with a user's own figures. The truth is known, so each promise has a rate:

false     called faster or slower although the sides are equal: at most 5 %
equal     called equivalent although the truth is at the margin: at most 5 %
covers    intervals that cover the truth: at least 95 %
doubts    misleading inputs with a doubt in the comparison's `doubts`
sizes     healthy sizes of a curve that are blamed

A rate is broken if it misses its bound by more than three standard errors; then the exit code is 1.
"""

from __future__ import annotations

import csv
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from options import parse, sized

import assay
from assay.cli import assay as command

MARGIN = 0.02
SPREAD = 0.01
Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]
SHAPES: Mapping[str, Draw] = {
    "normal": lambda luck, size: luck.standard_normal(size),
    "t3": lambda luck, size: luck.standard_t(3, size) / math.sqrt(3),
    "skewed": lambda luck, size: (luck.gamma(2, 1, size) - 2) / math.sqrt(2),
}
RUNS = ((3, 3), (5, 5), (10, 10), (2, 10), (2, 50))
_NUMBERS = count()


@dataclass(frozen=True)
class Promise:
    """What was tried, how often it failed, and the rate at which it may fail."""

    what: str
    tried: int
    broken: int
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether the rate is within three standard errors of the allowed one, or 0 if none is allowed."""
        error = math.sqrt(self.allowed * (1 - self.allowed) / max(self.tried, 1))
        return self.broken <= self.tried * (self.allowed + 3 * error)


def imported(folder: Path, rows: Sequence[Mapping[str, object]]) -> str:
    """Import figures as a spreadsheet; returns the name under which they are stored."""
    name = f"sheet-{next(_NUMBERS)}"
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with (folder / f"{name}.csv").open("w", newline="") as file:
        sheet = csv.DictWriter(file, columns, restval="")
        sheet.writeheader()
        sheet.writerows(rows)
    done = CliRunner().invoke(
        command, ["import", str(folder / f"{name}.csv"), "--runs", str(folder / "runs")]
    )
    if done.exit_code:
        raise RuntimeError(f"{name}: {done.output}{done.exception}")
    return name


def figures(system: str, values: Sequence[object], **columns: object) -> Iterator[dict[str, object]]:
    """One row for each run of a system."""
    usual = {"workload": "w", "shape": "1x8", "metric": "throughput", "unit": "images/s", "session": system}
    for run, value in enumerate(values, start=1):
        yield {"system": system, "run": run, **usual, **columns, "value": value}


def compared(folder: Path, rows: Sequence[Mapping[str, object]]) -> list[Any]:
    """Every comparison of systems A and B."""
    name = imported(folder, rows)
    return [*assay.compare(f"{name}:A", f"{name}:B", margin=MARGIN, runs=folder / "runs")]


def rates(folder: Path, sets: int, luck: np.random.Generator) -> Iterator[Promise]:
    """Error rates of the verdicts and coverage of the intervals, with one comparison per set."""
    for shape, draw in SHAPES.items():
        for n_a, n_b in RUNS:
            for truth in (1.0, 1 + MARGIN):
                a = 100 * np.exp(SPREAD * draw(luck, (sets, n_a)))
                b = 100 * truth * np.exp(SPREAD * draw(luck, (sets, n_b)))
                rows = [
                    row
                    for number in range(sets)
                    for system, values in (("A", a[number]), ("B", b[number]))
                    for row in figures(system, [*map(float, values)], set=f"k{number}")
                ]
                found = compared(folder, rows)
                alone = [c.family.alone if c.family else c.verdict for c in found]
                what = f"{shape}, {n_a} against {n_b} runs"
                if truth == 1.0:
                    wrong = sum(verdict in ("faster", "slower") for verdict in alone)
                    yield Promise(f"false: {what}", len(found), wrong, 0.05)
                    missed = sum(not c.ratio.low <= 1 <= c.ratio.high for c in found)
                    yield Promise(f"covers: {what}", len(found), missed, 0.05)
                else:
                    yield Promise(f"equal: {what}", len(found), alone.count("equivalent"), 0.05)


def misleading(folder: Path, luck: np.random.Generator) -> Iterator[Promise]:
    """Spreadsheets that mislead a busy reader, each with the doubt that must be raised."""

    def near(mean: float, runs: int = 5, spread: float = 0.005) -> list[float]:
        return [float(v) for v in mean * np.exp(spread * luck.standard_normal(runs))]

    same, few, others = near(7100), near(7100)[:3], near(7150)[:3]
    fall = [1000 * (1 - 0.001 * run) for run in range(40)]
    hours = [f"2026-11-{1 + run // 24:02}T{run % 24:02}:00:00" for run in range(40)]
    timed = [
        {**row, "started_at": at}
        for system in "AB"
        for row, at in zip(figures(system, [v * near(1, 1, 0.003)[0] for v in fall]), hours, strict=True)
    ]
    cases: Mapping[str, tuple[str, list[dict[str, object]]]] = {
        "the same figures under two names": ("copied-values", [*figures("A", same), *figures("B", same)]),
        "three figures copied five times": (
            "copied-values",
            [*figures("A", few * 5), *figures("B", others * 5)],
        ),
        "one side in thousands": ("suspect-unit", [*figures("A", near(7100)), *figures("B", near(7.1))]),
        "batch and precision of one side": (
            "stated-once",
            [*figures("A", near(7100), global_batch_size=2048, precision="fp16"), *figures("B", near(8000))],
        ),
        "availability in percent": (
            "share-of-whole",
            [
                *figures("A", near(99.5, 5, 0.0001), metric="availability", unit="%", better="higher"),
                *figures("B", near(98.0, 5, 0.0001), metric="availability", unit="%", better="higher"),
            ],
        ),
        "40 runs that drift on both sides, without times": (
            "order-unknown",
            [{k: v for k, v in row.items() if k != "started_at"} for row in timed],
        ),
        "40 runs that drift on both sides, with times": ("drift", timed),
    }
    for what, (code, rows) in cases.items():
        [comparison] = compared(folder, rows)
        codes = {doubt.code for doubt in comparison.doubts}
        yield Promise(f"doubts: {what} ({code})", 1, code not in codes, 0.0)


def curves(folder: Path, times: int, luck: np.random.Generator) -> Iterator[Promise]:
    """Three sizes, one of them 10 % slow: no healthy one may be blamed."""
    for slow in (1, 2, 4):
        named = 0
        for _ in range(times):
            rows = [
                row
                for size in (1, 2, 4)
                for row in figures(
                    "A",
                    [
                        float(v)
                        for v in 1000
                        * size
                        * (0.9 if size == slow else 1)
                        * np.exp(0.003 * luck.standard_normal(5))
                    ],
                    shape=f"{size}x8",
                    global_batch_size=4096,
                )
            ]
            scaled = assay.scale(imported(folder, rows), runs=folder / "runs")
            named += any(
                "than the curve" in doubt.evidence for study in scaled.studies for doubt in study.doubts
            )
        yield Promise(f"sizes: one of three named, {slow * 8} of 8, 16, 32 ranks slow", times, named, 0.0)


def main() -> None:
    """Attack, print the table, and exit 1 if a promise did not hold."""
    parser = sized(
        __doc__,
        sets=(400, 30, "comparisons a rate"),
        curves=(30, 2, "curves a case"),
        seed=(1, 1, "of the draws"),
    )
    options = parse(parser)
    luck = np.random.default_rng(options.seed)
    broken = 0
    print(f"{'promise':72} {'tried':>6} {'broken':>6} {'allowed':>8}")
    with tempfile.TemporaryDirectory(prefix="assay-verdicts-") as directory:
        folder = Path(directory)
        for promises in (
            misleading(folder, luck),
            curves(folder, options.curves, luck),
            rates(folder, options.sets, luck),
        ):
            for promise in promises:
                said = "" if promise.holds else "  BROKEN"
                print(
                    f"{promise.what:72} {promise.tried:6} {promise.broken:6} {promise.allowed:8.0%}{said}",
                    flush=True,
                )
                broken += not promise.holds
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
