"""Verdicts on a loaded machine, with real processes: B against A, next to up to four competitors.

Three truths: A's two threads share the work of B's one (and are nearly twice as fast), they both do all of
it (and are as fast as one), or both sides have two threads, of which B's do four fifths of the work of A's
(and are 1.25 times as fast). Threads meet after each round. Everything runs on the same two CPUs through
`assay run`. For each truth and load it prints the ratio of B to A, the verdict of the interval alone, and the
verdict.

Exits 1 if a verdict names the wrong direction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from options import parse, sized

from assay.analyse.comparison.verdict import decide
from assay.errors import EXIT_OK
from assay.records import Estimate

ASSAY = str(Path(sys.executable).with_name("assay"))
CPUS = 2
LOADS = (0, 1, 2, 4)
# truth → threads and hashes per round and thread of A and of B, and the verdicts that are wrong
TRUTHS = {
    "shared": (((2, 4), (1, 8)), {"faster", "equivalent"}),
    "doubled": (((2, 8), (1, 8)), {"faster", "slower"}),
    "a fifth": (((2, 10), (2, 8)), {"slower", "equivalent"}),
}
PROGRAM = """\
import hashlib, os, sys, threading, time
threads, each = int(os.environ["THREADS"]), int(os.environ["HASHES"])
block, seconds = bytes(1 << 18), float(sys.argv[1])
rounds, end, over = 0, time.monotonic() + seconds, False
def decide():
    global rounds, over
    rounds, over = rounds + 1, time.monotonic() > end
meeting = threading.Barrier(threads, action=decide)
def work():
    while not over:
        for _ in range(each):
            hashlib.sha256(block).digest()
        meeting.wait()
begin = time.monotonic()
workers = [threading.Thread(target=work) for _ in range(threads)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print("rate", rounds / (time.monotonic() - begin))
"""


def site(directory: Path, truth: str, seconds: float, repeats: int) -> Path:
    """A suite of the program as A (the baseline) and as B."""
    program = directory / "threads.py"
    program.write_text(PROGRAM)
    argv = [sys.executable, str(program), str(seconds)]
    metric = {"pattern": "rate (?P<value>[0-9.]+)", "unit": "rounds/s", "better": "higher"}
    systems = {
        name: {"launcher": "local", "env": {"THREADS": str(threads), "HASHES": str(hashes)}}
        for name, (threads, hashes) in zip("ab", TRUTHS[truth][0], strict=True)
    }
    suite = {
        "suite": "loaded",
        "workload": "command",
        "params": {"argv": argv, "metrics": {"rate": metric}},
        "systems": [*systems],
        "baseline": "a",
        "repeats": repeats,
    }
    (directory / "systems.yaml").write_text(json.dumps(systems))
    (directory / "suite.yaml").write_text(json.dumps(suite))
    return directory / "suite.yaml"


@contextmanager
def competitors(count: int) -> Iterator[None]:
    """Keep `count` processes busy on the CPUs of this process."""
    busy = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def compared(truth: str, load: int, seconds: float, repeats: int) -> dict[str, Any]:
    """The comparison that `assay run` made under this load."""
    with tempfile.TemporaryDirectory() as place, competitors(load):
        suite = site(Path(place), truth, seconds, repeats)
        ran = subprocess.run(
            [ASSAY, "run", str(suite), "--runs", f"{place}/runs", "--quiet", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode != EXIT_OK:
        sys.exit(f"assay run ended with {ran.returncode}: {ran.stderr}")
    [found] = json.loads(ran.stdout)["comparisons"]
    return dict(found)


def main() -> None:
    """Print a line for each truth and load."""
    asked = parse(
        sized(
            __doc__,
            seconds=(0.5, 0.02, "of each run's work"),
            repeats=(5, 2, "of each side, in blocks"),
            most=(max(LOADS), 1, "competitors at most"),
        )
    )
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
    print(f"{'threads':8} {'load':>4}  {'B over A':24} {'interval alone':14} verdict")
    wrong = 0
    for truth, (_, not_true) in TRUTHS.items():
        for load in (load for load in LOADS if load <= asked.most):
            found = compared(truth, load, asked.seconds, asked.repeats)
            ratio = Estimate(**found["ratio"])
            alone, _ = decide(ratio, found["margin"], "higher")
            lost = " and ".join(f"{share:.0%}" for share in found["lost_to_others"])
            span = f"{ratio.value:.2f} ({ratio.low or 0:.2f} to {ratio.high or 0:.2f})"
            mark = " WRONG" if found["verdict"] in not_true else ""
            print(
                f"{truth:8} {load:4}  {span:24} {alone:14} {found['verdict']}{mark}; lost up to {lost}",
                flush=True,
            )
            wrong += bool(mark)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
