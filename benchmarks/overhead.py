"""What Assay itself costs: the same payload through `assay run` and started manually, in turn.

One run answers three questions:
- the fixed cost of a trial: wall time of a suite of 11 trivial trials minus that of a suite of one, over 10;
  and including Assay's start-up, index, and verdict, that of a suite of two minus that of two manual runs;
- the CPU time of reading the kernel's counters before and after a trial, over that of the trial's program;
- the effect on the measurement: throughput through Assay divided by manual throughput, 90 % interval.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from options import parse
from paired import in_turn, ratio, wall_s

from assay.payload_files import lay_out
from assay.records import Shape
from assay.workloads import WORKLOADS

ASSAY = str(Path(sys.executable).with_name("assay"))
WORKLOAD = "matmul"
MEASURED_S = 0.4
PARAMS = {"sizes": [1024], "dtypes": ["fp32"], "min_time_s": MEASURED_S}
ENV = {"OMP_NUM_THREADS": "1"}  # one thread on its own core: the least noisy thing to measure
REPEATS = 2  # trials of one `assay run`, to separate its start-up from a trial's cost
THROUGHPUT = re.compile(rb'"key": ?"flop_rate", ?"value": ?([0-9.eE+]+)')


class ByHand:
    """The payload, started as its user would."""

    def __init__(self, folder: Path) -> None:
        workload = WORKLOADS[WORKLOAD]
        task = workload.task(workload.params(**PARAMS), Shape(1, 1), 1)
        lay_out(folder, {file.name: file.data for file in task.files})
        self.argv = [sys.executable if part == "{python}" else part for part in task.argv]
        self.env = os.environ | dict(task.env) | ENV
        self.folder = folder
        self.throughputs: list[float] = []

    def __call__(self) -> float:
        """Wall time of REPEATS runs, seconds."""
        begin = time.perf_counter()
        for _ in range(REPEATS):
            done = subprocess.run(self.argv, cwd=self.folder, env=self.env, capture_output=True, check=True)
            self.throughputs.append(float(THROUGHPUT.findall(done.stdout)[-1]))
        return time.perf_counter() - begin


class ThroughAssay:
    """The same payload, as a suite."""

    def __init__(self, folder: Path) -> None:
        self.suite = folder / "suite.yaml"
        self.suite.write_text(
            json.dumps(
                {
                    "suite": "overhead",
                    "workload": WORKLOAD,
                    "params": PARAMS,
                    "repeats": REPEATS,
                    "systems": ["here"],
                }
            )
        )
        (folder / "systems.yaml").write_text(json.dumps({"here": {"launcher": "local", "env": ENV}}))
        self.runs = folder / "runs"
        self.throughputs: list[float] = []

    def __call__(self) -> float:
        """Wall time of one `assay run`, seconds."""
        begin = time.perf_counter()
        argv = [ASSAY, "run", str(self.suite), "--runs", str(self.runs), "--quiet"]
        subprocess.run(argv, capture_output=True, check=True)
        wall = time.perf_counter() - begin
        newest = max(self.runs.glob("overhead/*/"))
        for log in newest.glob("*/attempt-1/logs/rank-0.log"):
            self.throughputs.append(float(THROUGHPUT.findall(log.read_bytes())[-1]))
        return wall


def further_trial_s(folder: Path, pairs: int) -> float:
    """The cost of one more trial of a program that does nothing, seconds."""
    argv = {}
    for repeats in (1, 11):
        suite = folder / f"trivial-{repeats}.yaml"
        params = {"argv": ["echo", "1"], "metrics": {"one": {"pattern": "(?P<value>1)", "unit": ""}}}
        suite.write_text(
            json.dumps(
                {
                    "suite": "trivial",
                    "workload": "command",
                    "params": params,
                    "repeats": repeats,
                    "systems": ["here"],
                }
            )
        )
        argv[repeats] = [ASSAY, "run", str(suite), "--runs", str(folder / "trivial"), "--quiet"]
    many, one = in_turn(lambda: wall_s(argv[11]), lambda: wall_s(argv[1]), pairs)
    return statistics.median((a - b) / 10 for a, b in zip(many, one, strict=True))


def counters_cpu_s(looks: int) -> float:
    """Median CPU time of what a node's keeper reads around a trial, seconds."""
    program = (
        "import statistics, time\n"
        "from assay_payloads.keeping import counters\n"
        "def looked():\n"
        "    begin = time.process_time()\n"
        "    counters.between(counters.look(), counters.look())\n"
        "    return time.process_time() - begin\n"
        f"print(statistics.median(looked() for _ in range({looks})))"
    )
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


def main() -> None:
    """Print the fixed cost and the effect on throughput."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=55)
    pairs = parse(parser, pairs=2).pairs
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hand").mkdir()
        hand, ours = ByHand(Path(folder) / "hand"), ThroughAssay(Path(folder))
        further_s = further_trial_s(Path(folder), min(pairs, 5))
        print(f"cost of a further trial            {further_s:.3f} s  (to be at most 0.5 s)")
        read_s = counters_cpu_s(pairs)
        share = read_s / MEASURED_S
        print(f"kernel's counters, CPU time        {read_s * 1e3:.1f} ms  ({share:.1%} of this measurement)")
        wall_ours, wall_hand = in_turn(ours, hand, pairs)
        extra = [(a - b) / REPEATS for a, b in zip(wall_ours, wall_hand, strict=True)]
        print(f"cost of a trial, start-up shared   {statistics.median(extra):.3f} s  (two trials a run)")
        skip = REPEATS  # the warm-up pair
        effect = ratio(
            _per_pair(ours.throughputs[skip:]), _per_pair(hand.throughputs[skip:]), confidence=0.90
        )
        print(f"throughput, Assay over by hand     {effect}  (to lie within 0.99 to 1.01)")


def _per_pair(figures: list[float]) -> list[float]:
    return [statistics.geometric_mean(figures[i : i + REPEATS]) for i in range(0, len(figures), REPEATS)]


if __name__ == "__main__":
    main()
