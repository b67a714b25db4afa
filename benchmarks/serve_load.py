"""`assay serve` under load: pages asked at a steady rate by many browsers, its errors, latency and growth.

Locust asks for the home page, lists, filters, a comparison, a history and the JSON of a list, as many a
second as `--rate` says, for `--minutes`. The server's memory, threads and open files are looked at all the
time: after the first fifth, in which caches fill, they must not grow. Exits with 1 if an answer was an error
or the server grew.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from options import absent, parse, sized

try:
    import gevent
    from locust import HttpUser, constant_throughput, task
    from locust.env import Environment
except ImportError:
    absent("locust: pip install 'cluster-assay[bench]'")

from serve import cpu_s, memory_mb, served, write_runs

BROWSERS = 50
GROWTH = 1.10  # of the server's memory, from the first fifth to the last
FILES = 8  # more open files or threads than this are a leak
PATHS = {
    "/": 3,
    "/runs": 3,
    "/runs?system=system-1&trials=true": 3,
    "/runs?q=SYSTEM-3&sort=-failed": 2,
    "/runs?trials=true&number=3": 2,
    "/api/v1/runs?system=system-1": 3,
    "/doubts": 1,
    "/history": 1,
    "/docs/how-to/serve.md": 1,
}


def asking(path: str) -> Callable[[HttpUser], None]:
    """A task that asks for a page."""

    def ask(user: HttpUser) -> None:
        user.client.get(path, name=path)

    return ask


class Browser(HttpUser):  # type: ignore[misc]
    """Somebody who looks at pages."""

    tasks = [task(weight)(asking(path)) for path, weight in PATHS.items()]  # noqa: RUF012 - as Locust has it


def size(pid: int) -> tuple[int, int]:
    """Threads and open files of a process."""
    root = Path(f"/proc/{pid}")
    return len(list((root / "task").iterdir())), len(list((root / "fd").iterdir()))


@contextmanager
def emptied() -> Iterator[Path]:
    """A new directory, removed by another process: gevent closes files later than `rmtree` opens more."""
    root = Path(tempfile.mkdtemp())
    try:
        yield root
    finally:
        subprocess.run(["rm", "-r", str(root)], check=True)


def main() -> None:
    """Print latencies, the rate, errors and the server's size over time."""
    options = parse(
        sized(
            __doc__,
            runs=(100_000, 200, "run directories"),
            rate=(50, 20, "requests a second, of all browsers together"),
            minutes=(10.0, 0.1, "of load"),
        )
    )
    Browser.wait_time = constant_throughput(options.rate / BROWSERS)
    with emptied() as root:
        write_runs(root, options.runs)
        with served(root) as (port, server):
            environment = Environment(user_classes=[Browser], host=f"http://127.0.0.1:{port}")
            runner = environment.create_local_runner()
            begin, before_s = time.monotonic(), cpu_s(server.pid)
            runner.start(BROWSERS, spawn_rate=BROWSERS)
            looks: list[tuple[float, int, int]] = []
            while time.monotonic() - begin < 60 * options.minutes:
                gevent.sleep(min(5.0, 60 * options.minutes / 10))
                looks.append((memory_mb(server), *size(server.pid)))
            runner.quit()
            took_s = time.monotonic() - begin
            used_s = cpu_s(server.pid) - before_s
    total = environment.stats.total
    rate = f"{total.num_requests / took_s:.1f} a second"
    print(f"{'requests':46} {total.num_requests:10} in {took_s:.0f} s, {rate}")
    for share in (0.5, 0.95, 0.99):
        print(f"{f'latency, {share:.0%}':46} {total.get_response_time_percentile(share):10.0f} ms")
    print(f"{'errors':46} {total.num_failures:10}")
    print(f"{'CPU time of the server a request':46} {used_s / max(1, total.num_requests) * 1e3:10.1f} ms")
    fifth = max(1, len(looks) // 5)
    first, last = looks[fifth - 1 : 2 * fifth] or looks, looks[-fifth:]
    sizes = [[statistics.median(values) for values in zip(*part, strict=True)] for part in (first, last)]
    for what, before, after in zip(("memory, MB", "threads", "open files"), *sizes, strict=True):
        print(f"{what + ', early and late':46} {before:10.0f} {after:10.0f}")
    (memory, *early), (later, *late) = sizes
    grew = later > GROWTH * memory or any(b - a > FILES for a, b in zip(early, late, strict=True))
    for one in environment.stats.errors.values():
        print(f"  {one.occurrences} × {one.name}: {one.error}")
    if not options.smallest and (total.num_failures or grew):
        sys.exit("it answered with errors, or it grew")


if __name__ == "__main__":
    main()
