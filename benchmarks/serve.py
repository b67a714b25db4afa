"""`assay serve` as a process over an index of many runs: time to a page, a filter and a verdict, and memory.

`--runs` made-up results go straight into the index (default 100,000), as in store.py; `--a-side` more are on
each side of the comparison. The aims are for an idle machine.
"""

from __future__ import annotations

import http.client
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from options import parse, sized
from store import ASSAY, made_results, report

from assay import store

AIMS_MS = {
    "first page": ("/", 300),
    "list of sets": ("/runs", 300),
    "list of runs": ("/runs?trials=true", 300),
    "filter by system": ("/runs?system=system-1&trials=true", 150),
    "filter by words": ("/runs?q=SYSTEM-3&sort=-failed", 150),
    "last page": ("/runs?trials=true&number=1000000000", 150),
    "the same as JSON": ("/api/v1/runs?system=system-1&trials=true", 150),
}


@contextmanager
def served(runs: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Port and process of a server."""
    argv = [ASSAY, "serve", "--listen", "127.0.0.1:0", "--runs", str(runs)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = re.search(r":(\d+)/", server.stdout.readline())
        assert address is not None
        try:
            yield int(address[1]), server
        finally:
            server.terminate()


def asked_s(port: int, path: str) -> float:
    """Wall time of one request. Raises RuntimeError unless it is answered."""
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}: {body[-300:]!r}")
    return time.perf_counter() - begin


def memory_mb(process: subprocess.Popen[str]) -> float:
    """Its resident memory now."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1e3 if found else float("nan")


def main() -> None:
    """Print every figure."""
    options = parse(
        sized(
            __doc__,
            runs=(100_000, 200, "made-up results"),
            a_side=(1000, 20, "runs of each side of the comparison"),
            times=(11, 2, "requests of each kind"),
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        store.update(root, made_results(options.runs))
        for seed, name in enumerate(("left", "right")):  # of four systems each, of which one is compared
            store.update(root, made_results(4 * options.a_side, name, seed))
        with served(root) as (port, server):
            report("first request of all", asked_s(port, "/"), "(reads the directories once)")
            for what, (path, most_ms) in AIMS_MS.items():
                seconds = statistics.median(asked_s(port, path) for _ in range(options.times))
                report(what, seconds, f"(to be under {most_ms} ms)")
            compared = "/compare?a=left:system-1&b=right:system-1"
            report(f"compare {options.a_side} + {options.a_side}, first", asked_s(port, compared))
            again = statistics.median(asked_s(port, compared) for _ in range(max(2, options.times // 3)))
            report(f"compare {options.a_side} + {options.a_side}, again", again, "(to be under 1000 ms)")
            print(f"{'memory of the server':46} {memory_mb(server):10.1f} MB  (to be under 500 MB)")


if __name__ == "__main__":
    main()
