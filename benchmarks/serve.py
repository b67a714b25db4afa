"""`assay serve` as a process over many runs: time to a page, a filter and a verdict, and memory.

`--runs` made-up results go straight into the index (default 100,000), as in store.py, and each has its run
directory, so that looking for changes has its cost; `--a-side` more are on each side of the comparison. Next
to the time that a browser waits is the CPU time that the server used meanwhile, for all that it does: on a
machine that others use, it is what can be compared. The aims are for an idle machine.
"""

from __future__ import annotations

import http.client
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from options import parse, sized
from store import ASSAY, made_results

from assay import read, store
from assay.records import Plan, Result, to_json
from assay.rundir.files import SCHEMA, Header

AIMS_MS = {
    "first page": ("/", 300),
    "list of sets": ("/runs", 300),
    "list of runs": ("/runs?trials=true", 300),
    "filter by system": ("/runs?system=system-1&trials=true", 150),
    "filter by words": ("/runs?q=SYSTEM-3&sort=-failed", 150),
    "last page": ("/runs?trials=true&number=1000000000", 150),
    "the same as JSON": ("/api/v1/runs?system=system-1&trials=true", 150),
}


def write_runs(root: Path, count: int, suite: str = "made", seed: int = 1) -> None:
    """Run directories of made-up results, and an index that has them."""
    stamps: dict[str, str] = {}
    store.update(root, _written(root, made_results(count, suite, seed), stamps), stamps=stamps)


def _written(root: Path, results: Iterator[Result], stamps: dict[str, str]) -> Iterator[Result]:
    for result in results:
        run = result.run
        session, attempt = root / run.suite / run.session, root / run.id / "attempt-1"
        if not session.exists():
            session.mkdir(parents=True)
            header = Header(SCHEMA, "0", run.suite, "suite", "plan", run.created_at, "here", finished_at=1.0)
            (session / "session.json").write_text(to_json(header))
            (session / "plan.json").write_text(to_json(_plan(run.suite)))
        attempt.mkdir(parents=True)
        record = attempt / "run.json"
        record.write_text(to_json(run))
        about = record.stat()
        stamps[run.id] = f"1-{about.st_size}-{about.st_mtime_ns}-{read.read_by(run.trial.workload)}"
        yield result


def _plan(suite: str) -> Plan:
    return Plan(suite, "suite", "plan", 1, 1, (), None, 0.02, True, {}, {}, ())


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


def cpu_s(pid: int) -> float:
    """CPU time that a process has used, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(what: str, ask: Callable[[], float], pid: int, times: int, note: str = "") -> None:
    """Print the median time that a browser waits, and the server's CPU time a request."""
    before_s = cpu_s(pid)
    waited = [ask() for _ in range(times)]
    used_s = (cpu_s(pid) - before_s) / times
    print(
        f"{what:40} {statistics.median(waited) * 1e3:8.1f} ms, CPU {used_s * 1e3:8.1f} ms  {note}", flush=True
    )


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
        write_runs(root, options.runs)
        for seed, name in enumerate(("left", "right")):  # of four systems each, of which one is compared
            write_runs(root, 4 * options.a_side, name, seed)
        with served(root) as (port, server):

            def asking(path: str) -> Callable[[], float]:
                return lambda: asked_s(port, path)

            report("first request of all", asking("/"), server.pid, 1)
            for what, (path, most_ms) in AIMS_MS.items():
                report(what, asking(path), server.pid, options.times, f"(to be under {most_ms} ms)")
            compared = asking("/compare?a=left:system-1&b=right:system-1")
            sides = f"compare {options.a_side} + {options.a_side}"
            report(f"{sides}, first", compared, server.pid, 1)
            report(
                f"{sides}, again", compared, server.pid, max(2, options.times // 3), "(to be under 1000 ms)"
            )
            print(f"{'memory of the server':40} {memory_mb(server):8.1f} MB  (to be under 500 MB)")


if __name__ == "__main__":
    main()
