"""Runs programs one after the other in a job for one program.

    python -m assay_payloads.probing.in_turn assay_payloads.probing.probe \\
        "assay_payloads.micro.data_speed /data"

Each argument is a module with its arguments, as a shell would parse it. Before each
output is a line `:::ASSAY-PROGRAM NAME`. Ends with the exit code of the first: the others only collect facts.
Standard library only (3.8 or newer).
"""

from __future__ import annotations

import shlex
import subprocess
import sys

MARK = ":::ASSAY-PROGRAM "
MOST_S = 180.0  # for each: a cold import of torch from a network file system takes minutes


def run(program: str, *arguments: str) -> int:
    """Run a program to its end, with errors next to its output; 124 if it takes too long."""
    print(MARK + program, flush=True)
    argv = [sys.executable, "-m", program, *arguments]
    try:
        return subprocess.run(argv, stderr=subprocess.STDOUT, timeout=MOST_S, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"did not end within {MOST_S:g} s", flush=True)
        return 124


if __name__ == "__main__":
    codes = [run(*shlex.split(word)) for word in sys.argv[1:]]
    sys.exit(codes[0])
