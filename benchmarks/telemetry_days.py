"""What the telemetry of a long run takes: its size, and time and memory to store and read it.

One node is sampled once per second, with every column that the sampler has. Each step runs in a process of
its own, whose largest memory is what the kernel counted, interpreter and libraries included.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from options import parse, sized

from assay_payloads.sampling.gpus import GPU_COLUMNS
from assay_payloads.sampling.node import COLUMNS

DAYS, GPUS = 10.0, 8
STEP = """
import resource, sys, time
from pathlib import Path
from assay.telemetry import gpu_use, profile, recorded
directory, duration_s = Path(sys.argv[1]), float(sys.argv[2])
steps = {
    "store": lambda: recorded.store(directory),
    "draw": lambda: profile.profile(directory),
    "sum the energy": lambda: gpu_use.gpu_energy(directory, duration_s),
    "each GPU's use": lambda: gpu_use.gpu_uses(directory),
}
begun = time.perf_counter()
steps[sys.argv[3]]()
print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def main() -> None:
    """Print sizes, times and memory."""
    options = parse(
        sized(__doc__, days=(DAYS, 0.01, "days that were sampled"), gpus=(GPUS, 2, "of the node"))
    )
    seconds = int(options.days * 86400)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "logs").mkdir()
        write_lines(directory / "logs/telemetry-0.log", seconds, options.gpus)
        lines_bytes = (directory / "logs/telemetry-0.log").stat().st_size
        for step in ("draw", "store", "draw", "sum the energy", "each GPU's use"):
            what = "lines" if (directory / "logs/telemetry-0.log").exists() else "tables"
            ran = subprocess.run(
                [sys.executable, "-c", STEP, name, str(seconds), step],
                capture_output=True,
                text=True,
                check=True,
            )
            took_s, memory = map(float, ran.stdout.split())
            print(f"{step}, from {what}: {took_s:.1f} s, {memory / 2**20:.0f} MiB")
        tables_bytes = sum(path.stat().st_size for path in (directory / "telemetry").iterdir())
    print(
        f"{options.days:g} days, {options.gpus} GPUs, once per second: {lines_bytes / 1e6:.0f} MB as lines, "
        f"{tables_bytes / 1e6:.0f} MB as tables"
    )


def write_lines(log: Path, seconds: int, gpus: int) -> None:
    """Counters that count, and values that vary like those of a training."""
    numbers = [{"index": gpu, "uuid": f"GPU-{gpu}"} for gpu in range(gpus)]
    header = {"version": 1, "started_at": 1.7e9, "period_s": 1.0, "node": COLUMNS, "gpu": GPU_COLUMNS}
    draw = random.Random(1)
    with log.open("w") as file:
        file.write(f":::ASSAY-TELEMETRY {json.dumps({**header, 'gpus': numbers})}\n")
        for second in range(seconds):
            file.write(f"n {second}.003 {row(COLUMNS, second, draw)} .\n")
            for gpu in range(gpus):
                file.write(f"g {second}.004 {gpu} {row(GPU_COLUMNS, second, draw)} .\n")


def row(columns: tuple[str, ...], second: int, draw: random.Random) -> str:
    """A value for each column."""
    noise = draw.random()
    count, value = f"{second * 12.5 + noise:.3f}", f"{600 + 20 * noise:.1f}"
    return " ".join(count if name.endswith("_total") else value for name in columns)


if __name__ == "__main__":
    main()
