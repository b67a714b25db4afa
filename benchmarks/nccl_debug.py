"""How fast NCCL's INFO lines of a large job are read: `python benchmarks/nccl_debug.py [--ranks 512]`.

A log of 100 MB is generated in the format of NCCL 2.19 and read by Assay. The ratio is to reading the same
bytes and counting their lines, which is the minimum that any reader must do.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from options import parse, sized

from assay.formats.nccl_debug import transports


def write(path: Path, ranks: int, size_bytes: int) -> None:
    """Each rank's links to the next node and within its own, channel by channel."""
    line = "node-{node}:{pid}:{pid} [{device}] NCCL INFO Channel {channel:02d}/0 : {a}[{device}] "
    line += "-> {b}[{device}] "
    written, channel = 0, 0
    with path.open("w") as log:
        while written < size_bytes:
            for a in range(ranks):
                at = {"node": a // 8, "pid": 4000 + a, "device": a % 8, "channel": channel % 100, "a": a}
                written += log.write(
                    line.format(**at, b=(a + 8) % ranks) + "[send] via NET/IB/0/GDRDMA/Shared\n"
                )
                written += log.write(line.format(**at, b=a // 8 * 8 + (a + 1) % 8) + "via P2P/CUMEM\n")
            channel += 1


def timed(what: str, seconds: float, size_bytes: int) -> None:
    """Print one measurement."""
    print(f"{what:28} {seconds:.2f} s, {size_bytes / seconds / 1e6:.0f} MB/s")


def main() -> None:
    """Generate the log and read it both ways."""
    options = parse(
        sized(__doc__, ranks=(512, 16, "of the job"), megabytes=(100, 1, "of log, each a million bytes"))
    )
    ranks = options.ranks
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "rank-0.log")
        write(log, ranks, options.megabytes * 10**6)
        size = log.stat().st_size
        start = time.perf_counter()
        with log.open("rb") as lines:
            count = sum(1 for _ in lines)
        plain_s = time.perf_counter() - start
        timed(f"counting {count:,} lines", plain_s, size)
        start = time.perf_counter()
        found = transports([log])
        read_s = time.perf_counter() - start
        timed(f"{len(found.links):,} links of {ranks} ranks", read_s, size)
        print(f"{'ratio':28} {read_s / plain_s:.1f}")


if __name__ == "__main__":
    main()
