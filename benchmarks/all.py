"""Every benchmark of this folder, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {
    "all.py",
    "paired.py",
    "published_loops.py",
    "torchvision_references.py",
    "training_speed.py",
}


def main() -> None:
    """Run each; the exit code says whether all ran."""
    failed = []
    for script in sorted([*HERE.glob("*.py"), *(main.parent for main in HERE.glob("*/__main__.py"))]):
        if script.name in NOT_BENCHMARKS:
            continue
        print(f"\n== {script.name}", flush=True)
        if subprocess.run([sys.executable, str(script)], check=False).returncode:
            failed.append(script.name)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
