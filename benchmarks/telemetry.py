"""What the sampler costs: the same work with and without it, in turn, and its own CPU time and memory.

The work fills every core of this machine, so that the sampler can only run at the work's expense. A trial
without the sampler has `sample_every: never`. The ratio of the throughputs comes with its interval.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from options import parse, sized
from paired import in_turn, ratio

from assay import api, payload_files
from assay.launch.job_spec import SAMPLER

PAIRS, WORK_S, WATCHED_S = 20, 8.0, 60.0
WORK = """
import sys, time
end, done = time.perf_counter() + float(sys.argv[1]), 0
begun = time.perf_counter()
while time.perf_counter() < end:
    sum(range(20_000)); done += 1
print(f"rate: {done / (time.perf_counter() - begun):.6f}")
"""


def main() -> None:
    """Print the ratio of throughputs, and the sampler's share of a core and memory."""
    options = parse(
        sized(
            __doc__,
            pairs=(PAIRS, 2, "times that each runs"),
            work_s=(WORK_S, 1.0, "seconds that each works"),
            watched_s=(WATCHED_S, 3.0, "seconds over which the sampler's own use is counted"),
        )
    )
    for every in ("1s", "100ms"):
        with tempfile.TemporaryDirectory() as name:
            rate = partial(throughput, Path(name), options.work_s)
            with_it, without = in_turn(partial(rate, every), partial(rate, "never"), options.pairs)
        print(f"throughput with samples every {every}, over without: {ratio(with_it, without)}")
        share, memory = own_use(1.0 if every == "1s" else 0.1, options.watched_s)
        print(
            f"the sampler every {every}: {share:.2%} of one core, {memory / 2**20:.1f} MiB of its own memory"
        )


def throughput(folder: Path, work_s: float, every: str) -> float:
    """Work per second of the slowest rank, one rank on each core."""
    program = folder / "work.py"
    program.write_text(WORK)
    suite, _ = api.make_suite(
        {
            "suite": f"telemetry-{every}",
            "workload": "command",
            "params": {
                "argv": [sys.executable, str(program), str(work_s)],
                "metrics": {"rate": {"pattern": "rate: (?P<value>[0-9.]+)", "unit": "1/s"}},
            },
            "shapes": [f"1x{len(os.sched_getaffinity(0))}"],
            "repeats": 1,
            "sample_every": every,
            "systems": ["local"],
        }
    )
    done = api.run(suite, runs=folder / "runs", new=True)
    (result,) = done.completed.results
    (measured,) = (m.value for m in result.reading.measurements if m.metric == "rate")
    return measured


def own_use(period_s: float, watched_s: float) -> tuple[float, float]:
    """The sampler's share of one core and the memory that only it has, bytes, next to an idle process."""
    program = payload_files.DIRECTORY / payload_files.path_of(SAMPLER)
    argv = [sys.executable, "-I", "-S", str(program), str(os.getpid()), str(period_s)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as sampler:
        time.sleep(1.0)  # its start is not its running
        before, begun = _cpu_s(sampler.pid), time.monotonic()
        memory = []
        while time.monotonic() - begun < watched_s:
            memory.append(_private_bytes(sampler.pid))
            time.sleep(0.5)
        share = (_cpu_s(sampler.pid) - before) / (time.monotonic() - begun)
        sampler.terminate()
    return share, median(memory)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _private_bytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024.0 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
