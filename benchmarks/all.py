"""Every benchmark in this directory, one after the other: `make bench`.

    python benchmarks/all.py               all of them: hours
    python benchmarks/all.py --smallest    the smallest form of each: minutes, to see that they work

A benchmark whose subject is missing here, like a GPU or a cluster, is listed at the end and is not a failure.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from options import ABSENT, parse

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {
    "accepted.py",  # reads rounds that must be imported first
    "all.py",
    "options.py",
    "paired.py",
    "published_loops.py",
    "torchvision_references.py",
    "training_speed.py",
}


def benchmarks() -> list[Path]:
    """Scripts, and directories that Python runs as scripts."""
    found = [*HERE.glob("*.py"), *(main.parent for main in HERE.glob("*/__main__.py"))]
    return sorted(path for path in found if path.name not in NOT_BENCHMARKS)


def main() -> None:
    """Run each; exit 1 if one failed."""
    options = parse(argparse.ArgumentParser(description=__doc__))
    size = ["--smallest"] if options.smallest else []
    failed, absent = [], []
    for script in benchmarks():
        print(f"\n== {script.name}", flush=True)
        code = subprocess.run([sys.executable, str(script), *size], check=False).returncode
        if code == ABSENT:
            absent.append(script.name)
        elif code:
            failed.append(script.name)
    if absent:
        print("\nnot measured, because their subject is missing here: " + ", ".join(absent))
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
