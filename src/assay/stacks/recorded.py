"""Observations that no run directory holds: a stack that can't be installed never runs anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from assay.durable import make_directory, write_atomic
from assay.errors import InputError, Problem
from assay.inputs import read_whole
from assay.records import Observation, digest_of, from_json, to_json, to_plain
from assay.stacks import places

_BUNDLE: Final = "bundle "  # begins the name of a source that is one


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
    """What changes when a recorded file does, by its name as a source of knowledge.

    A bundle also changes when its key is no longer trusted, or is again.
    """
    stamps = {}
    for path in sorted(places.failures(runs_dir).glob("*.json")):
        stamps[f"failure {path.name}"] = _stamp(path)
    keys_stamp = _stamp(places.trusted_keys(runs_dir)) if bundle_names(runs_dir) else ""
    for name in bundle_names(runs_dir):
        path = places.bundles(runs_dir) / name.removeprefix(_BUNDLE)
        stamps[name] = f"{_stamp(path)} {keys_stamp}"
    return stamps


def bundle_names(runs_dir: Path) -> list[str]:
    """The imported bundles, by their names as sources of knowledge, in the order of their import."""
    paths = places.bundles(runs_dir).glob("*.json")
    return [
        f"{_BUNDLE}{path.name}"
        for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))
    ]


def _stamp(path: Path) -> str:
    if not path.is_file():
        return "none"
    about = path.stat()
    return f"{about.st_size}-{about.st_mtime_ns}"


def read(runs_dir: Path, source: str) -> Iterator[Observation]:
    """The observations of one source; none of a bundle whose key is not trusted any more.

    Raises InputError if its file is damaged.
    """
    _, _, name = source.partition(" ")
    if source.startswith(_BUNDLE):
        yield from _bundled(runs_dir, places.bundles(runs_dir) / name)
        return
    path = places.failures(runs_dir) / name
    try:
        yield from_json(Observation, read_whole(path))
    except ValueError as error:
        first = str(error).splitlines()[0]
        what = f"not a recorded failure ({first}); remove it, or restore it"
        raise InputError([Problem(str(path), what)]) from error


def _bundled(runs_dir: Path, path: Path) -> Iterator[Observation]:
    from assay.stacks import bundles, keys

    trusted = keys.trusted(runs_dir)
    if any(path.name.startswith(key[8:24]) for key in trusted):
        key, bundle = bundles.opened(path, trusted)
        yield from bundles.observations(bundle, key)
