"""All tests; those that wait most of their time, for a cluster, hosts or containers, beside the others.

    python tools/run_tests.py

What takes a part of a cluster or of the network away comes after what needs it. The output of what ran beside
follows when all have ended; the exit code is the worst one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

PYTEST = [sys.executable, "-m", "pytest"]
FILES_AT_ONCE = ["--dist", "loadfile", "-n"]  # a file's tests share a namespace, a data set, a fork server

OTHERS = [*FILES_AT_ONCE, "2", "-m", "not (kubernetes or slurm or ssh or podman or torch or disruptive)"]
# trainings take a core each, and what is timed does not bear that; some use the hosts
TRAININGS = [*FILES_AT_ONCE, "2", "-m", "torch and not (kubernetes or disruptive)"]
CLUSTER = [*FILES_AT_ONCE, "3", "-m", "kubernetes and not disruptive"]
HOSTS = ["-m", "(slurm or ssh or podman) and not (kubernetes or torch or disruptive)"]
CLUSTER_BROKEN = ["-m", "kubernetes and disruptive"]
HOSTS_SLOWED = ["-m", "disruptive and not kubernetes"]


def run(options: list[str], output: IO[bytes] | None = None) -> int:
    """The exit code of one run of pytest."""
    return subprocess.run(
        [*PYTEST, *options], check=False, stdout=output, stderr=subprocess.STDOUT
    ).returncode


class Beside:
    """Runs that wait for others and keep what they print."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor()
        self.runs: list[tuple[Future[int], IO[bytes]]] = []

    def start(self, options: list[str], *after: Future[int]) -> Future[int]:
        """Begin when those before have ended, however they did."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this process

        def when_ready() -> int:
            for earlier in after:
                earlier.result()
            return run(["-p", "no:cacheprovider", *options], output)

        future = self.pool.submit(when_ready)
        self.runs.append((future, output))
        return future

    def worst(self) -> int:
        """Wait for all and show what they printed."""
        worst = 0
        for future, output in self.runs:
            worst = max(worst, future.result())
            output.seek(0)
            print("\nBeside:", output.read().decode(errors="replace"), flush=True)
        return worst


def main() -> int:
    """Run all to their ends."""
    beside = Beside()
    cluster, hosts = beside.start(CLUSTER), beside.start(HOSTS)
    beside.start(CLUSTER_BROKEN, cluster)
    beside.start(HOSTS_SLOWED, cluster, hosts)
    worst = max(run(OTHERS), hosts.result())
    return max(worst, run(TRAININGS), beside.worst())


if __name__ == "__main__":
    sys.exit(main())
