"""Log reading: events of real MLPerf files compared with mlperf-logging's own parser, and raw throughput.

    python benchmarks/log_reading.py [--gigabytes 1]

Real files: $ASSAY_MLPERF_LOGS, otherwise `../shared/mlperf-logs` next to the checkout.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from options import absent, parse, sized
from paired import in_turn, ratio

from assay.formats.mllog import Event, EventReader

ROOT = Path(__file__).resolve().parent.parent
LOGS = Path(os.environ.get("ASSAY_MLPERF_LOGS", ROOT.parent / "shared" / "mlperf-logs"))
TIME_TOLERANCE_MS = 0.01  # because one side reads a time of day in seconds as a float of ms
TOKEN_LINE = (
    ':::MLLOG {{"namespace": "", "time_ms": {}, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
    '"value": {{"throughput": 361.9, "loss_scale": 32768.0}}, "metadata": {{"file": "a.py", "step": {}}}}}\n'
)
CHILD = """
import re, sys, time
from pathlib import Path
from assay.formats.mllog import EventReader
reader, events, began = EventReader(Path(sys.argv[1])), 0, time.perf_counter()
for event in reader:
    events += 1
seconds = time.perf_counter() - began
# not getrusage: its peak includes the process that started this one
peak_kib = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(events, reader.skipped, seconds, peak_kib)
"""


def main() -> None:
    """Print bytes per second and peak memory on a large raw log, then the ratio over real files."""
    options = parse(
        sized(
            __doc__,
            gigabytes=(1.0, 0.001, "size of the raw log that is made"),
            pairs=(9, 2, "times that each reads all real files"),
        )
    )
    raw_throughput(options.gigabytes)
    beside_mlperf_logging(options.pairs)


def beside_mlperf_logging(pairs: int) -> None:
    """Both readers over all real files that both can read, in turn; the events are compared one by one."""
    if not LOGS.is_dir():
        absent(f"real result files in {LOGS}; set ASSAY_MLPERF_LOGS")
    if importlib.util.find_spec("mlperf_logging") is None:
        absent("mlperf-logging")
    # mlperf-logging does not read v0.5's format
    files = [path for path in sorted(LOGS.rglob("result_*.txt")) if "v0.5" not in path.parts]
    count = sum(_checked_equal(path) for path in files)

    theirs, ours = in_turn(
        lambda: _timed(lambda: [_theirs(path) for path in files]),
        lambda: _timed(lambda: [list(EventReader(path)) for path in files]),
        pairs,
    )
    size = sum(path.stat().st_size for path in files)
    print(f"real files          {len(files)} files, {size / 1e6:.1f} MB, {count} events, equal one by one")
    print(f"mlperf-logging      {statistics.median(theirs) * 1e3:.1f} ms")
    print(f"Assay               {statistics.median(ours) * 1e3:.1f} ms")
    print(f"times faster        {ratio(theirs, ours)}  (to be at least 15)")


def raw_throughput(gigabytes: float) -> None:
    """One line in a hundred has a token; a separate process reads them, to measure its peak memory."""
    with tempfile.TemporaryDirectory(prefix="assay-log-reading-") as folder:
        path = Path(folder) / "raw.log"
        expected = _write_raw_log(path, int(gigabytes * 1e9))
        size = path.stat().st_size
        speeds, peaks = [], []
        for _ in range(5):
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(path)], check=True, capture_output=True, text=True
            )
            events, skipped, seconds, peak_kib = done.stdout.split()
            if (int(events), int(skipped)) != (expected, 0):
                sys.exit(f"{events} events and {skipped} skipped lines where {expected} were written")
            speeds.append(size / float(seconds) / 1e9)
            peaks.append(int(peak_kib) * 1024 / 1e6)
    median = statistics.median(speeds)
    print(f"raw log             {size / 1e9:.2f} GB, {expected} events, one line in a hundred")
    print(
        f"speed               {median:.2f} GB/s, {min(speeds):.2f} to {max(speeds):.2f}  (to be at least 1)"
    )
    print(f"peak memory         {max(peaks):.0f} MB  (to be under 200)")


def _theirs(path: Path) -> Any:
    from mlperf_logging.compliance_checker.mlp_parser import parse_file

    return parse_file(str(path), "0.6.0" if "v0.6" in path.parts else "3.1.0")


def _checked_equal(path: Path) -> int:
    """Number of events, if both find the same. Exits if they differ."""
    theirs, errors = _theirs(path)
    ours = list(EventReader(path))
    factor = 1000 if "v0.6" in path.parts else 1  # their v0.6 uses seconds
    if errors or len(theirs) != len(ours):
        sys.exit(f"{path}: {len(theirs)} events and {len(errors)} errors there, {len(ours)} events here")
    for a, b in zip(theirs, ours, strict=True):
        if not _alike(a, b, factor):
            sys.exit(f"{path}:{b.line}: differs: {a} and {b}")
    return len(ours)


def _alike(theirs: Any, ours: Event, factor: int) -> bool:
    return (
        ours.time_ms is not None
        and math.isclose(theirs.timestamp * factor, ours.time_ms, rel_tol=0, abs_tol=TIME_TOLERANCE_MS)
        and theirs.key == ours.key
        and theirs.value == {"value": ours.value, "metadata": ours.metadata}
    )


def _timed(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _write_raw_log(path: Path, size: int) -> int:
    """Write lines like those of trainings up to `size`; returns how many have a token."""
    lines, tokens = _lines(10_000), 0
    chunk = "".join(lines).encode()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(chunk)
            tokens += len(lines) // 100
    return tokens


def _lines(count: int) -> Sequence[str]:
    draw = random.Random(1)
    return [
        TOKEN_LINE.format(1_700_000_000_000 + n, n)
        if n % 100 == 99
        else f"{n % 8}: epoch 3 step {n} loss {draw.random():.5f} lr 0.1 time 12:33:{n % 60:02d} "
        f"[rank{n % 8}] {draw.random() * 1e4:.3f} images/s some words that the framework prints\n"
        for n in range(count)
    ]


if __name__ == "__main__":
    main()
