"""All tests, those of a Kubernetes cluster beside the others: they wait most of their time.

    python tools/run_tests.py

What takes a part of the cluster away comes last and alone. The cluster's output follows the others' when
both have ended; the exit code is the worst one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO

PYTEST = [sys.executable, "-m", "pytest"]
CLUSTER = [*PYTEST, "-p", "no:cacheprovider"]
SIDE_BY_SIDE = ["-n", "3", "--dist", "loadfile"]  # a file's tests share a namespace


def cluster_tests(output: IO[bytes]) -> int:
    """Those that bear each other, then those that don't."""
    calm = [*CLUSTER, *SIDE_BY_SIDE, "-m", "kubernetes and not disruptive"]
    disruptive = [*CLUSTER, "-m", "kubernetes and disruptive"]
    return max(
        subprocess.run(argv, check=False, stdout=output, stderr=subprocess.STDOUT).returncode
        for argv in (calm, disruptive)
    )


def main() -> int:
    """Run all to their ends."""
    with tempfile.TemporaryFile() as output, ThreadPoolExecutor(1) as beside:
        cluster = beside.submit(cluster_tests, output)
        others = subprocess.run([*PYTEST, "-m", "not kubernetes"], check=False).returncode
        worst = max(others, cluster.result())
        output.seek(0)
        print("\nKubernetes:", output.read().decode(errors="replace"), flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
