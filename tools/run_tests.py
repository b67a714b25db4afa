"""All tests: trainings, those of a Kubernetes cluster and the rest side by side, since most of them wait.

    python tools/run_tests.py

What takes a part of the cluster away comes last and alone. The output of what ran beside follows when all
have ended; the exit code is the worst one.
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
THREE_FILES_AT_ONCE = ["-n", "3", "--dist", "loadfile"]  # a file's tests share a namespace
TRAININGS = [[*BESIDE, "-m", "torch and not kubernetes"]]
CLUSTER = [
    [*BESIDE, *THREE_FILES_AT_ONCE, "-m", "kubernetes and not disruptive"],
    [*BESIDE, "-m", "kubernetes and disruptive"],
]
REST = [*PYTEST, "-m", "not kubernetes and not torch"]


def worst_of(runs: Sequence[Sequence[str]], output: IO[bytes]) -> int:
    """Run one after the other, all of them."""
    return max(
        subprocess.run(argv, check=False, stdout=output, stderr=subprocess.STDOUT).returncode for argv in runs
    )


def main() -> int:
    """Run all to their ends."""
    beside = {"trainings": TRAININGS, "Kubernetes": CLUSTER}
    with ThreadPoolExecutor(len(beside)) as threads:
        outputs = {name: tempfile.TemporaryFile() for name in beside}  # noqa: SIM115  (gone when printed)
        going = {name: threads.submit(worst_of, runs, outputs[name]) for name, runs in beside.items()}
        worst = subprocess.run(REST, check=False).returncode
        for name, ended in going.items():
            worst = max(worst, ended.result())
            outputs[name].seek(0)
            print(f"\n{name}:", outputs[name].read().decode(errors="replace"), flush=True)
            outputs[name].close()
    return worst


if __name__ == "__main__":
    sys.exit(main())
