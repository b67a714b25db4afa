"""Files that a job wrote into its working directory, as opposed to those that were there before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from assay.errors import InputError, LaunchError
from assay.inputs import naming
from assay.records import Output
from assay.units import counted
from assay_payloads.keeping.relay import Stamp, no_files, stamps

CHUNK_BYTES = 1 << 20


def check_name(name: str) -> None:
    """Raise InputError for a file name or glob that leads out of the working directory."""
    path = PurePath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{name!r} is not a file below the working directory; write a relative path without .."
        )


def written(
    directory: Path, patterns: Sequence[str], before: Mapping[str, Stamp], limit_bytes: int
) -> Iterator[Output]:
    """The matching files that changed since `before`, in parts of at most 1 MiB.

    Raises LaunchError if they are larger than `limit_bytes` together or a name is not a valid file name,
    before any part is yielded, and if one can't be read.
    """
    if problem := no_files(directory, patterns):
        raise LaunchError(f"outputs: {problem}")
    changed = stamps(directory, patterns, before)
    total = sum(size for _, size, _ in changed.values())
    if total > limit_bytes:
        largest = max(changed, key=lambda name: changed[name][1])
        raise LaunchError(
            f"outputs: {total} bytes in {counted(len(changed), 'file')} of {directory}, the largest "
            f"{largest}; at most {limit_bytes} are kept: list fewer files, or write large ones to another "
            "disk"
        )
    for name in changed:
        try:
            yield from _parts(name, directory / name)
        except OSError as error:
            raise LaunchError(f"outputs: can't read {directory / name}: {error.strerror}") from error


def _parts(name: str, path: Path) -> Iterator[Output]:
    with naming(path), path.open("rb") as file:
        data = file.read(CHUNK_BYTES)
        yield Output(name, data)
        while data := file.read(CHUNK_BYTES):
            yield Output(name, data)
