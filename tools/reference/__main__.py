"""Write the generated pages of docs/reference from the code: `python tools/reference [--check] [PAGE…]`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import commands
import doubts
import exit_codes
import failure_causes
import python_api
import suite_file
import systems_file

import workloads

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
MARK = "<!-- Written by `make reference`; edit the code instead. -->\n"
PAGES: Mapping[str, Callable[[], str]] = {
    "commands": commands.page,
    "doubts": doubts.page,
    "exit-codes": exit_codes.page,
    "failure-causes": failure_causes.page,
    "python-api": python_api.page,
    "suite": suite_file.page,
    "systems": systems_file.page,
    "workloads": workloads.page,
}


def main(words: list[str]) -> None:
    """Write the named pages, or all of them; with --check, fail if one is stale."""
    check = "--check" in words
    names = [word for word in words if word != "--check"] or list(PAGES)
    if unknown := set(names) - PAGES.keys():
        sys.exit(f"{', '.join(sorted(unknown))}: no such page; choose from {', '.join(PAGES)}")
    stale = []
    for name in names:
        path, text = FOLDER / f"{name}.md", MARK + PAGES[name]()
        if not path.is_file() or path.read_text() != text:
            stale.append(f"docs/reference/{name}.md")
            if not check:
                path.write_text(text)
    if stale and check:
        sys.exit(f"stale: {', '.join(stale)}; run: make reference")


if __name__ == "__main__":
    main(sys.argv[1:])
