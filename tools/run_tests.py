"""All tests; those that wait most of their time, for a cluster, hosts or containers, beside the others.

    python tools/run_tests.py

What takes a part of a cluster or of the network away comes after what needs it, one by one. The output of
what ran beside follows when all have ended; the exit code is the worst one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

PYTEST = [sys.executable, "-m", "pytest"]
BESIDE = [*PYTEST, "-p", "no:cacheprovider"]
FILES_AT_ONCE = ["--dist", "loadfile", "-n"]  # a file's tests share a namespace, a data set, a fork server
CLUSTER = [
    [*BESIDE, *FILES_AT_ONCE, "3", "-m", "kubernetes and not disruptive"],
    [*BESIDE, "-m", "kubernetes and disruptive"],
    [*BESIDE, "-m", "disruptive and not kubernetes"],
]
HOSTS = [[*BESIDE, "-m", "(slurm or ssh or podman) and not (kubernetes or torch or disruptive)"]]
OTHERS = [[*PYTEST, "-m", "not (kubernetes or slurm or ssh or podman or torch or disruptive)"]]
# trainings take a core each, and what is timed does not bear that; some use the hosts
TRAININGS = [[*PYTEST, *FILES_AT_ONCE, "2", "-m", "torch and not (kubernetes or disruptive)"]]


def worst_of(runs: Sequence[Sequence[str]], output: IO[bytes] | None = None) -> int:
    """Run one after the other, all of them."""
    return max(
        subprocess.run(argv, check=False, stdout=output, stderr=subprocess.STDOUT).returncode for argv in runs
    )


def main() -> int:
    """Run all to their ends."""
    with (
        tempfile.TemporaryFile() as of_cluster,
        tempfile.TemporaryFile() as of_hosts,
        ThreadPoolExecutor(2) as beside,
    ):
        cluster = beside.submit(worst_of, CLUSTER, of_cluster)
        hosts = beside.submit(worst_of, HOSTS, of_hosts)
        worst = max(worst_of(OTHERS), hosts.result())
        worst = max(worst, worst_of(TRAININGS), cluster.result())
        for output in (of_hosts, of_cluster):
            output.seek(0)
            print("\nBeside:", output.read().decode(errors="replace"), flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
