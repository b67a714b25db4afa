"""Comparing two sets of 1,000 runs: reading them from the index, the verdicts, and the whole process.

Then two sets of 10,000 runs in memory, with one figure each (to take less than a second) and with six.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from options import parse, sized
from store import ASSAY, made_results, report, timed_s

from assay import store as index
from assay.analyse.judgement import compare_with_doubts
from assay.read import metrics
from assay.records import Result


def main() -> None:
    """Print every figure."""
    options = parse(
        sized(
            __doc__,
            runs=(1000, 20, "on each side, from the index"),
            many=(10_000, 40, "on each side, in memory"),
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        index.update(root, made_results(4 * options.runs))
        sides = ["made:system-0", "made:system-1"]
        first = timed_s(lambda: [index.find(root, side) for side in sides])
        again = statistics.median(
            timed_s(lambda: [index.find(root, side) for side in sides]) for _ in range(5)
        )
        a, b = (index.find(root, side) for side in sides)
        print(f"{len(a)} and {len(b)} runs, each with {len(a[0].reading.measurements)} figures and a series")
        report("reading both sides from the index, first", first)
        report("  again", again)
        verdicts = timed_s(lambda: compare_with_doubts(a, b, margin=0.02, names=("a", "b"), metrics=metrics))
        report("comparing, first (imports scipy.special)", verdicts)
        again = statistics.median(
            timed_s(lambda: compare_with_doubts(a, b, margin=0.02, names=("a", "b"), metrics=metrics))
            for _ in range(5)
        )
        report("  again", again)
        report("reading and comparing, first", first + verdicts, "(target: under 1000 ms)")
        argv = [ASSAY, "compare", *sides, "--json", "--runs", str(root)]
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            ran = subprocess.run(argv, check=False, capture_output=True)
            times.append(time.perf_counter() - begin)
            if ran.returncode not in (0, 1, 3):
                sys.exit(ran.stderr.decode())
        report("process: assay compare --json", statistics.median(times))
    results = list(made_results(4 * options.many))
    for figures, target in ((1, "(target: under 1000 ms)"), (6, "")):
        many_a, many_b = (
            [_with_figures(result, figures) for result in results if result.run.trial.system == system]
            for system in ("system-0", "system-1")
        )
        times = [
            timed_s(
                partial(compare_with_doubts, many_a, many_b, margin=0.02, names=("a", "b"), metrics=metrics)
            )
            for _ in range(5)
        ]
        report(f"comparing 2 x {options.many:,} runs of {figures}", statistics.median(times), target)


def _with_figures(result: Result, figures: int) -> Result:
    """Only this many of the run's measurements."""
    return replace(
        result, reading=replace(result.reading, measurements=result.reading.measurements[:figures])
    )


if __name__ == "__main__":
    main()
