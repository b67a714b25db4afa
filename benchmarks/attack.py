"""An attack on Assay on one machine: what must hold under hostile conditions, tried as often as you like.

    python benchmarks/attack.py                      about twenty minutes
    python benchmarks/attack.py --only kills --kills 200 --seed 7
    python benchmarks/attack.py --smallest           a few of each, in a minute or two

kills      assay run killed at random moments and run again: nothing lost, nothing done twice
pairs      two concurrent runs of one suite
suites     corrupted suites and systems; logs: corrupted training logs
programs   trials that hang, flood, print garbage or one very long line, or feed a pattern that backtracks
secrets    planted in suite and system, searched for in everything that is written or printed
files      damaged run directories

Prints one line for each promise and every case that broke it; exits with 1 if one did not hold. The files
of an attack in which something broke are kept. The seed determines the cases, the machine the timing.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from attacks.command import Check
from attacks.damage import damaged_files
from attacks.fuzz import fuzz_logs, fuzz_suites
from attacks.kills import kills, two_at_once
from attacks.planted import secrets
from attacks.programs import odd_programs
from options import parse, sized

ATTACKS: dict[str, Callable[[Path, int, random.Random], list[Check]]] = {
    "kills": kills,
    "pairs": two_at_once,
    "suites": fuzz_suites,
    "logs": fuzz_logs,
    "programs": odd_programs,
    "secrets": secrets,
    "files": damaged_files,
}
SHOWN = 10  # cases shown per broken promise


def main() -> None:
    """Attack, print the table, and exit 1 if a promise did not hold."""
    parser = sized(
        __doc__,
        kills=(40, 2, "kills of assay run"),
        pairs=(10, 1, "pairs of concurrent runs"),
        suites=(200, 6, "spoilt suites"),
        logs=(200, 6, "spoilt logs"),
        programs=(300, 50, "megabytes of one line, and of a flood"),
        secrets=(3, 1, "sets of secrets"),
        files=(20, 3, "damaged run directories"),
        seed=(1, 1, "of the cases"),
    )
    parser.add_argument("--only", choices=ATTACKS, help="one of the attacks")
    options = parse(parser)
    folder = Path(tempfile.mkdtemp(prefix="assay-attack-"))
    broken = 0
    print(f"{'promise':82} {'tried':>6} {'broken':>6}")
    for name, attack in ATTACKS.items():
        if options.only in (None, name):
            begin = time.monotonic()
            checks = attack(folder / name, getattr(options, name), random.Random(options.seed))
            for check in checks:
                broken += bool(check.broken)
                print(f"{check.promise:82} {check.tried:6} {len(check.broken):6}")
                for case in check.broken[:SHOWN]:
                    print(f"    {case}")
            print(f"  {name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            if not any(check.broken for check in checks):
                shutil.rmtree(folder / name, ignore_errors=True)
    if broken:
        sys.exit(f"{broken} promises did not hold; their files are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
