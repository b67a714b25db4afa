"""What ten browsers that follow a run cost it: the same program's speed, watched and not, in turns.

Blocks of two runs, in shuffled order: with `assay serve` and `--browsers` open streams, and with the server
alone. The program counts how often it multiplies two matrices in `--seconds`. The verdict is Assay's own
comparison of the two sides at 2 %. The server's CPU time says more where the machine's speed varies: it can't
cost the run more than that share of a CPU.
"""

from __future__ import annotations

import http.client
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from options import parse, sized
from serve import cpu_s, served
from store import ASSAY

from assay import api

SUITE = """
suite: watched
benchmarks:
  multiply:
    workload: matmul
    params: {{sizes: [{size}], dtypes: [fp32], min_time_s: {seconds}}}
repeats: 1
"""


@contextmanager
def following(port: int) -> Iterator[list[int]]:
    """A browser that follows what runs; the list has the bytes that it got."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", "/live/events")
    stream, got = connection.getresponse(), [0]

    def read() -> None:
        try:
            while line := stream.readline():
                got[0] += len(line)
        except (OSError, ValueError, AttributeError):  # closed while it waits
            return

    threading.Thread(target=read, daemon=True).start()
    try:
        yield got
    finally:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)  # ends the reading, which close would wait for
        connection.close()


def speed(suite: Path, runs: Path) -> float:
    """Multiplications per second of one session."""
    done = subprocess.run(
        [ASSAY, "run", str(suite), "--new", "--quiet", "--runs", str(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    [system] = api.show("watched", runs=runs).systems
    return system.points[0].estimate.value


def measure(blocks: int, browsers: int, seconds: float, scratch: Path) -> Path:
    """A table of both sides' speeds."""
    suite, runs = scratch / "suite.yaml", scratch / "runs"
    suite.write_text(SUITE.format(size=512, seconds=seconds))
    speed(suite, runs)  # warms caches up
    rows, order = ["system,benchmark,metric,value,unit,better,run"], random.Random(1)
    used: dict[str, list[float]] = {"watched": [], "alone": []}
    with served(runs) as (port, server):
        for block in range(blocks):
            for side in order.sample(["watched", "alone"], 2):
                with ExitStack() as open_streams:
                    got = [
                        open_streams.enter_context(following(port))
                        for _ in range(browsers * (side == "watched"))
                    ]
                    begin, before_s = time.monotonic(), cpu_s(server.pid)
                    value = speed(suite, runs)
                    used[side].append((cpu_s(server.pid) - before_s) / (time.monotonic() - begin))
                    if not all(one[0] for one in got):
                        raise RuntimeError("a browser got nothing, so nothing was watched")
                rows.append(f"{side},multiply,speed,{value},1/s,higher,{block}")
                print(f"block {block + 1} of {blocks}, {side}: {value:.6g}", file=sys.stderr, flush=True)
    for side, shares in used.items():
        print(f"CPU that the server uses, run {side}: {statistics.median(shares):.2%} of one")
    table = scratch / "live.csv"
    table.write_text("\n".join(rows) + "\n")
    return table


def main() -> None:
    """Measure, and print the verdict."""
    parser = sized(
        __doc__,
        blocks=(12, 3, "blocks of one run of each side"),
        browsers=(10, 10, "that follow the watched run"),
        seconds=(8.0, 0.5, "of each run"),
    )
    options = parse(parser)
    with tempfile.TemporaryDirectory() as scratch:
        table = measure(options.blocks, options.browsers, options.seconds, Path(scratch))
        runs = Path(scratch) / "answer"
        api.import_(str(table), runs=runs)
        print(api.compare("live:alone", "live:watched", margin="2%", runs=runs))


if __name__ == "__main__":
    main()
