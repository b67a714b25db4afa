"""The interpreter that runs Assay, for trials that see other files than Assay does: `python: host`.

Its directories are mounted read-only for the trials at their own paths, so that a container or a pod runs the
same Python, torch, and libraries as a trial outside it. The C library is still the image's.
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
HELP: Final = "host: the interpreter that runs Assay, mounted read-only at the same path"


@dataclass(frozen=True)
class HostPython:
    """An interpreter and the directories that it needs; absolute, and none inside another."""

    executable: str
    directories: tuple[str, ...]


def host_python() -> HostPython:
    """The interpreter that runs this code, with its environment and the installation that it was made from.

    Raises InputError if its links lead out of both: then Assay can't tell what it needs.
    """
    places = sorted({Path(sys.prefix), Path(sys.base_prefix)})
    outer = [place for place in places if not any(place.is_relative_to(p) for p in places if p != place)]
    for link in _links(Path(sys.executable)):
        if not any(link.is_relative_to(place) for place in outer):
            message = (
                f"{HOST}: {sys.executable} is a link to {link}, outside {' and '.join(map(str, outer))}: "
                "set an interpreter, and list its directories under volumes"
            )
            raise OptionsError([Problem("python", message)])
    return HostPython(sys.executable, tuple(map(str, outer)))


def _links(path: Path) -> Iterator[Path]:
    """The path, and each path that it links to."""
    yield path
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path
