"""The HTML page of 1,000 runs over two systems: the time to generate it, and its size."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from options import parse, sized
from store import made_results, report

from assay import store as index
from assay.read import metrics
from assay.records import Result
from assay.view.contents import gather
from assay.view.report import html_page

SYSTEMS = 2
BUDGET = "(to be under 5000 ms)"
BUDGET_MB = 3.0


def main() -> None:
    """Print every figure."""
    options = parse(sized(__doc__, runs=(1000, 20, "of all systems")))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        index.update(root, made_results(4 * options.runs // SYSTEMS))
        names = [f"system-{number}" for number in range(SYSTEMS)]
        sides: dict[str, list[Result]] = {name: index.find(root, f"made:{name}") for name in names}
        runs = sum(map(len, sides.values()))
        per_run = len(sides[names[0]][0].reading.measurements)
        print(f"{runs} runs of {SYSTEMS} systems, each with {per_run} figures and a series of 40 points")
        for what in ("the page, first (imports, the runtime)", "  again"):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            text = html_page(gather(sides, metrics))
            spent_cpu = time.process_time() - begin_cpu
            report(what, time.perf_counter() - begin, f"{spent_cpu * 1e3:.0f} ms of a CPU {BUDGET}")
        print(f"{'its size':46} {len(text.encode()) / 1e6:10.2f} MB  (to be under {BUDGET_MB:g} MB)")


if __name__ == "__main__":
    main()
