"""Options of every benchmark, and its exit if its subject is missing.

`--smallest` runs a benchmark's smallest form: seconds that show that it still works, with meaningless
figures. `--quick`, where there is one, takes about two minutes. A benchmark whose subject is missing here, a
GPU or a cluster, names it and exits with `ABSENT`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import NoReturn

ABSENT = 77  # automake's exit code for skipped tests


def sized(
    doc: str | None, quick: Mapping[str, float] | None = None, **sizes: tuple[float, float, str]
) -> argparse.ArgumentParser:
    """A parser with one option for each size: its default, the smallest form's, and what it counts.

    quick  sizes of a form of about two minutes, whose figures mean something; None: there is none
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (usual, _, help_text) in sizes.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(usual), default=usual, help=help_text)
    if quick is not None:
        parser.add_argument("--quick", action="store_true", help="two minutes: fewer pairs, smaller sets")
        parser.set_defaults(quick_sizes=quick)
    parser.set_defaults(smallest_sizes={name: smallest for name, (_, smallest, _) in sizes.items()})
    return parser


def parse(parser: argparse.ArgumentParser, **smallest: object) -> argparse.Namespace:
    """The options of the command line; `--smallest` changes these defaults."""
    parser.add_argument(
        "--smallest", action="store_true", help="seconds instead of minutes, to see that it works"
    )
    found = parser.parse_args()
    if found.smallest:
        parser.set_defaults(**smallest, **getattr(found, "smallest_sizes", {}))
        found = parser.parse_args()
    elif getattr(found, "quick", False):
        parser.set_defaults(**found.quick_sizes)
        found = parser.parse_args()
    return found


def absent(subject: str) -> NoReturn:
    """Exit because `subject` is not available."""
    print(f"absent: {subject}")
    sys.exit(ABSENT)
