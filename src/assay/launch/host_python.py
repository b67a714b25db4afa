"""The interpreter that runs Assay, where trials see other files than Assay does: `python: host`.

Its directories are shown to the trials read-only at their own paths, so that a container or a pod and a
trial beside them run the very same Python, torch and libraries. The C library stays the image's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import OptionsError, Problem

HOST: Final = "host"
HELP: Final = "host: the one that runs Assay, seen inside at its own path, read-only"


@dataclass(frozen=True)
class HostPython:
    """An interpreter and the directories that it needs, absolute; none lies in another."""

    executable: str
    directories: tuple[str, ...]


def host_python() -> HostPython:
    """The interpreter that runs this, with its environment and the installation that it was made from.

    Raises InputError where its links lead out of both: then there is no telling what it needs.
    """
    places = sorted({Path(sys.prefix), Path(sys.base_prefix)})
    outer = [place for place in places if not any(place.is_relative_to(p) for p in places if p != place)]
    for link in _links(Path(sys.executable)):
        if not any(link.is_relative_to(place) for place in outer):
            words = (
                f"{HOST}: {sys.executable} is a link to {link}, outside of {' and '.join(map(str, outer))}: "
                "name an interpreter, and its directories under volumes"
            )
            raise OptionsError([Problem("python", words)])
    return HostPython(sys.executable, tuple(map(str, outer)))


def _links(path: Path) -> Iterator[Path]:
    """The path, and each that it leads to."""
    yield path
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path
