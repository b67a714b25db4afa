"""Observations that no run directory holds: a stack that can't be installed never runs anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.durable import make_directory, write_atomic
from assay.errors import InputError, Problem
from assay.inputs import read_whole
from assay.records import Observation, digest_of, from_json, to_json, to_plain
from assay.stacks import places


def record(runs_dir: Path, observation: Observation) -> Path:
    """Keep a failure that no run holds, such as `does not install`; returns its file.

    The same one twice is one file. Raises ValueError if it is not a failure, HostError if it can't be
    written.
    """
    if observation.failure is None or not observation.why:
        raise ValueError("only a failure with its cause can be recorded; figures come from runs")
    folder = places.failures(runs_dir)
    make_directory(folder)
    path = folder / f"{digest_of(to_plain(observation))}.json"
    write_atomic(path, to_json(observation).encode())
    return path


def stamps(runs_dir: Path) -> dict[str, str]:
    """What changes when a recorded file does, by its name as a source of knowledge."""
    found = {}
    for kind, folder in (("failure", places.failures(runs_dir)),):
        for path in sorted(folder.glob("*.json")):
            about = path.stat()
            found[f"{kind} {path.name}"] = f"{about.st_size}-{about.st_mtime_ns}"
    return found


def read(runs_dir: Path, source: str) -> Iterator[Observation]:
    """The observations of one source. Raises InputError if its file is damaged."""
    _, _, name = source.partition(" ")
    path = places.failures(runs_dir) / name
    try:
        yield from_json(Observation, read_whole(path))
    except ValueError as error:
        first = str(error).splitlines()[0]
        what = f"not a recorded failure ({first}); remove it, or restore it"
        raise InputError([Problem(str(path), what)]) from error
