"""Training programs, each in its own process, run in turn: samples/s, CPU time per sample, and ratios.

In each block every program runs once, in random order, so that whatever slows the machine down slows
all of them. Ratios compare programs of one block, with Assay's own interval (`statistics.intervals.paired`).
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.analyse.statistics.intervals import paired
from assay_payloads.keeping import counters

LOOPS = Path(__file__).with_name("published_loops.py")
SMALLEST = {"blocks": 1, "batch_size": 1, "steps": 1, "warmup": 0, "window": 1}
WINDOW = '"key": "tracked_stats"'  # in our programs and in published_loops.py
FIGURE = re.compile(r'"key": "throughput", "value": ([0-9.e+-]+)|"train_samples_per_sec": ([0-9.]+)')
FACTS = re.compile(r'"key": "(device_name|torch_version|cuda_version|cudnn_version)", "value": "([^"]+)"')


@dataclass(frozen=True)
class Program:
    """One way to train.

    window_samples  samples trained between two printed windows
    env             variables in addition to this process's
    """

    name: str
    argv: Sequence[str]
    window_samples: float
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """Samples per second by the program's own clock; CPU seconds per sample, None if it prints no windows."""

    per_s: float
    cpu_s: float | None
    facts: Mapping[str, str]


class FailedError(Exception):
    """A program ended without a figure; holds its last lines."""


def run(program: Program) -> Ran:
    """Run a program to its end. Raises FailedError if it exits with an error or prints no figure."""
    spent: list[float] = []
    figures: list[float] = []
    last, facts = deque[str](maxlen=12), dict[str, str]()
    with subprocess.Popen(
        program.argv,
        env={**os.environ, **program.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            last.append(line)
            if WINDOW in line:
                spent.append(_cpu_s(process.pid))
            figures += [float(ours or timms) for ours, timms in FIGURE.findall(line)]
            facts |= dict(FACTS.findall(line))
    if process.returncode or not figures:
        raise FailedError(f"exit code {process.returncode}\n{''.join(last)}")
    windows = len(spent) - 1  # from the end of the first window on
    cpu_s = (spent[-1] - spent[0]) / (windows * program.window_samples) if windows > 0 else None
    return Ran(figures[-1], cpu_s, facts)


def _cpu_s(pid: int) -> float:
    """CPU time that a process has used, seconds: utime and stime of /proc/PID/stat, proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / counters.TICKS_PER_S


def in_blocks(programs: Sequence[Program], blocks: int, minutes: float = math.inf) -> dict[str, list[Ran]]:
    """What each program measured, block by block; a failed program is reported, and omitted from all blocks.

    minutes  minutes after which no further block starts
    """
    draw, found = random.Random(1), {program.name: list[Ran]() for program in programs}
    end = time.monotonic() + 60 * minutes
    for block in range(blocks):
        if block and time.monotonic() > end:
            break
        for program in draw.sample(programs, len(programs)):
            if program.name not in found:
                continue
            print(
                f"\r  block {block + 1} of {blocks}: {program.name:50}", end="", file=sys.stderr, flush=True
            )
            try:
                found[program.name].append(run(program))
            except FailedError as error:
                del found[program.name]
                print(f"\rfailed and skipped: {program.name}\n{error}")
    print("\r" + " " * 80 + "\r", end="", file=sys.stderr, flush=True)
    return found


def measure(
    title: str, programs: Sequence[Program], blocks: int, minutes: float = math.inf, *, sample: str
) -> None:
    """Run all in blocks and print a table; the first program is Assay's, with which the others are compared.

    Above 1, Assay's is better: more samples per second, less CPU time per sample.
    """
    first = programs[0].name
    before = counters.look()
    found = in_blocks(programs, blocks, minutes)
    met = counters.between(before, counters.look())
    if first not in found:
        sys.exit(f"{first} gave no figure: there is nothing to hold the others against")
    print(f"\n{title}; blocks: {len(found[first])}, each program once a block, in a random order")
    print("on " + ", ".join(f"{name} {value}" for name, value in sorted(found[first][0].facts.items())))
    print(f"{_others_share(met):.0%} of the CPUs' time went to others meanwhile; ratios have 95 % intervals")
    print(f"{'':46} {f'{sample}/s':>9}  {'ours / its':>20}  {'CPU ms':>7}  {'its / ours':>20}")
    for name, runs in found.items():
        rates, costs = _table_cells(found[first], runs) if name != first else ("", "")
        print(f"{name:46} {_mean([r.per_s for r in runs]):>9}  {rates:>20}  ", end="")
        print(f"{_mean([r.cpu_s * 1e3 for r in runs if r.cpu_s is not None]):>7}  {costs:>20}")


def _table_cells(first: Sequence[Ran], runs: Sequence[Ran]) -> tuple[str, str]:
    """How many times faster the first program is, and how many times more CPU time the other takes."""
    costs = [
        (a.cpu_s, b.cpu_s)
        for a, b in zip(first, runs, strict=True)
        if a.cpu_s is not None and b.cpu_s is not None
    ]
    rates = [(b.per_s, a.per_s) for a, b in zip(first, runs, strict=True)]
    return _ratio(rates), _ratio(costs)


def _ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """The second over the first, with its interval if there are two blocks or more."""
    if not pairs:
        return ""
    estimate = paired([(math.log(a), math.log(b)) for a, b in pairs]).estimate("")
    interval = "" if estimate.low is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{interval}"


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(values):.4g}" if values else "-"


def _others_share(met: Mapping[str, float]) -> float:
    """The share of all CPU time that neither this process nor the ones it waited for used."""
    return (met["busy_cpu_s"] - met["job_cpu_s"]) / (met["cpus"] * met["elapsed_s"])


def sizes(doc: str | None, **defaults: object) -> argparse.ArgumentParser:
    """The options that set how much is trained, and how often."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--blocks", type=int, help="times that each program is run")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--steps", type=int, help="that count")
    parser.add_argument("--warmup", type=int, help="steps before them")
    parser.add_argument("--window", type=int, help="steps between two readings of the clock")
    parser.add_argument("--minutes", type=float, help="of a table, after which no further block is begun")
    parser.add_argument("--only", help="of the tables, the one of this name")
    parser.set_defaults(minutes=math.inf, **defaults)
    return parser


def program(
    options: argparse.Namespace,
    name: str,
    script: Path | str,
    *argv: str,
    samples: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Program:
    """A program with the requested sizes.

    script   the name of a payload module, or published_loops.py
    samples  in a window; None: as many as its batches have
    """
    argv = (
        sys.executable,
        *(("-m", script) if isinstance(script, str) else (str(script),)),
        *argv,
        "--device",
        options.device,
    )
    for size in ("batch_size", "steps", "warmup", "window"):
        argv += (f"--{size.replace('_', '-')}", str(getattr(options, size)))
    threads = {"OMP_NUM_THREADS": str(options.threads)}
    of_window = options.batch_size * options.window if samples is None else samples
    return Program(name, argv, of_window, threads | dict(env or {}))


def tables(options: argparse.Namespace, found: Mapping[str, Sequence[Program]], *, sample: str) -> None:
    """Measure each set of programs, or only the named one."""
    if options.only is not None and options.only not in found:
        sys.exit(f"--only {options.only}: there is {', '.join(found)}")
    for title, programs in found.items():
        if options.only in (None, title):
            measure(title, programs, options.blocks, options.minutes, sample=sample)
