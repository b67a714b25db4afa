"""Prepare a release, or check that a tag names one.

    python tools/release.py 0.2.0             write the version, and date the changelog's "Unreleased"
    python tools/release.py --check v0.2.0    print its part of the changelog, or report what is wrong

docs/how-to/release.md has the steps.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
UNRELEASED = "## Unreleased\n"


def prepare(root: Path, version: str, today: datetime.date) -> None:
    """Write the version into the package and above the changelog's unreleased entries."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        sys.exit(f"{version} is not a version; write one like 0.2.0 or 0.2.0rc1")
    package, changelog = root / "src" / "assay" / "version.py", root / "CHANGELOG.md"
    before, found, after = changelog.read_text().partition(UNRELEASED)
    if not found or not after.split("\n## ")[0].strip():
        sys.exit(f"{changelog}: nothing is unreleased; describe the changes under {UNRELEASED.strip()}")
    changelog.write_text(f"{before}{UNRELEASED}\n## {version} - {today}\n{after}")
    package.write_text(VERSION.sub(f'__version__ = "{version}"', package.read_text()))


def notes(root: Path, tag: str) -> str:
    """The changelog's section on the release with this tag. Exits if tag, version, and changelog differ."""
    [version] = VERSION.findall((root / "src" / "assay" / "version.py").read_text())
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, the package's version {version}; expected the tag v{version}")
    section = re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)",
        (root / "CHANGELOG.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    if section is None:
        sys.exit(f"CHANGELOG.md has no section '## {version} - DATE': python tools/release.py {version}")
    return section[1].strip()


def main() -> None:
    """Prepare, or check and print."""
    match sys.argv[1:]:
        case ["--check", tag]:
            print(notes(ROOT, tag))
        case [version] if not version.startswith("-"):
            prepare(ROOT, version, datetime.datetime.now(datetime.UTC).date())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
