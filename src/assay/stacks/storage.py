"""What a runs directory stores of stacks, in `RUNS/.stacks/`: where, failures, bundles, and journals.

A stack that can't be installed never runs anything, so no run directory holds its failure. A journal has a
line for every decision of an exploration or a bisection, each written whole before the next step;
measurements are not in it: they are in run directories. A line that a kill cut off is dropped, and what it
would have said is done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.durable import append, make_directory, sync, write_atomic
from assay.errors import InputError, Problem
from assay.inputs import read_whole
from assay.records import digest_of, to_json, to_plain

if TYPE_CHECKING:
    from assay.stacks.stack import Observation

_FOLDER: Final = ".stacks"  # no suite has such a name


def knowledge_file(runs_dir: Path) -> Path:
    """Every observation; rebuilt if it is deleted."""
    return runs_dir / _FOLDER / "knowledge.duckdb"


def failures_dir(runs_dir: Path) -> Path:
    """Failures that no run directory holds, a file each."""
    return runs_dir / _FOLDER / "failures"


def bundles_dir(runs_dir: Path) -> Path:
    """Bundles that were imported, unchanged, a file each."""
    return runs_dir / _FOLDER / "bundles"


def has_more_than_runs(runs_dir: Path) -> bool:
    """Whether there are observations besides those of runs."""
    return failures_dir(runs_dir).is_dir() or bundles_dir(runs_dir).is_dir()


def trusted_keys_file(runs_dir: Path) -> Path:
    """The keys whose bundles are believed."""
    return runs_dir / _FOLDER / "trusted-keys.json"


def own_key_file(runs_dir: Path) -> Path:
    """The key that signs this directory's bundles; private."""
    return runs_dir / _FOLDER / "signing-key.pem"


def explorations_dir(runs_dir: Path) -> Path:
    """What explorations tried and built, a folder each; their measurements are in sessions."""
    return runs_dir / _FOLDER / "explorations"


def bisections_dir(runs_dir: Path) -> Path:
    """What bisections built, a folder each; their measurements are in sessions."""
    return runs_dir / _FOLDER / "bisections"


BUNDLE: Final = "bundle "  # begins the name of a source that is one


def record_failure(runs_dir: Path, observation: Observation) -> Path:
    """Keep a failure that no run holds, such as `does not install`; returns its file.

    The same one twice is one file. Raises ValueError if it is not a failure, HostError if it can't be
    written.
    """
    if observation.failure is None or not observation.why:
        raise ValueError("only a failure with its cause can be recorded; figures come from runs")
    folder = failures_dir(runs_dir)
    make_directory(folder)
    path = folder / f"{digest_of(to_plain(observation))}.json"
    write_atomic(path, to_json(observation).encode())
    return path


def recorded_stamps(runs_dir: Path) -> dict[str, str]:
    """What changes when a recorded file does, by its name as a source of knowledge.

    A bundle also changes when its key is no longer trusted, or is again.
    """
    stamps = {}
    for path in sorted(failures_dir(runs_dir).glob("*.json")):
        stamps[f"failure {path.name}"] = _file_stamp(path)
    keys_stamp = _file_stamp(trusted_keys_file(runs_dir)) if bundle_names(runs_dir) else ""
    for name in bundle_names(runs_dir):
        path = bundles_dir(runs_dir) / name.removeprefix(BUNDLE)
        stamps[name] = f"{_file_stamp(path)} {keys_stamp}"
    return stamps


def bundle_names(runs_dir: Path) -> list[str]:
    """The imported bundles, by their names as sources of knowledge, in the order of their import."""
    paths = bundles_dir(runs_dir).glob("*.json")
    return [
        f"{BUNDLE}{path.name}"
        for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))
    ]


def _file_stamp(path: Path) -> str:
    if not path.is_file():
        return "none"
    about = path.stat()
    return f"{about.st_size}-{about.st_mtime_ns}"


_LARGEST_BYTES = 64 << 20


@dataclass
class Journal:
    """The lines of an exploration's journal.

    lines  in the order written: each has `what`, and the values that it is about
    """

    path: Path
    lines: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal, read; a new one if there is none. Raises InputError if it is damaged."""
        if not path.exists():
            return cls(path)
        whole = read_whole(path, _LARGEST_BYTES)
        kept, _, cut = whole.rpartition(b"\n")
        if cut:
            os.truncate(path, len(whole) - len(cut))
        lines = []
        for number, line in enumerate(kept.split(b"\n") if kept else (), 1):
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                what = f"not a line of a journal ({error}); restore the file, or remove its folder"
                raise InputError([Problem(f"{path}:{number}", what)]) from error
        return cls(path, lines)

    def add(self, what: str, **values: Any) -> None:
        """Write one line, and wait until the disk has it. Raises HostError if there is no space."""
        line = {"what": what, **values}
        append(self.path, json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        sync(self.path, self.path.parent)
        self.lines.append(line)

    def entries(self, what: str) -> Iterator[Mapping[str, Any]]:
        """The lines of one kind."""
        return (line for line in self.lines if line["what"] == what)
