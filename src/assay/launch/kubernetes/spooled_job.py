"""What has been collected of a job besides its streams: how each node ended, files, and the final status."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from assay.errors import InputError, LaunchError
from assay.inputs import read_json
from assay.launch import job_directory
from assay.records import JobStatus, Output, from_json, to_json


@dataclass(frozen=True)
class SpooledJob:
    """A job's directory in the launcher's spool."""

    directory: Path

    @property
    def exists(self) -> bool:
        """Whether something is stored and was not removed."""
        return self.directory.is_dir()

    def create(self) -> None:
        """Create the directory."""
        (self.directory / "frames").mkdir(parents=True, exist_ok=True)

    def taken(self) -> dict[str, int]:
        """Bytes stored of each stream that the caller does not store."""
        frames = self.directory / "frames"
        files = self.directory / "files"
        sizes = {path.name: path.stat().st_size for path in frames.glob("*")}
        lying = (path for path in files.rglob("*") if path.is_file())
        return sizes | {f"file:{quote(str(path.relative_to(files)))}": path.stat().st_size for path in lying}

    def is_ours(self, stream: str) -> bool:
        """Whether the stream is stored here rather than by the caller."""
        return stream.startswith(("started-", "ended-", "file:"))

    def append(self, stream: str, data: bytes) -> None:
        """Append to one of these streams. A file whose name leads out of the directory is dropped."""
        path = self.directory / "frames" / stream
        if stream.startswith("file:"):
            name = unquote(stream.removeprefix("file:"))
            with suppress(InputError):
                job_directory.check_output_name(name)
                path = self.directory / "files" / name
                path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)

    def started_at(self) -> float | None:
        """When the ranks of the first node started, by its clock."""
        return min((report["started_at"] for report in self._reports("started")), default=None)

    def ends(self) -> list[dict[str, Any]]:
        """How the nodes ended, from those keepers that reported it."""
        return list(self._reports("ended"))

    def files(self, patterns: Sequence[str]) -> Iterator[Output]:
        """Files of the job that match, in parts of at most 1 MiB.

        Raises LaunchError if they did not arrive.
        """
        if (self.directory / "unkept").exists():
            raise LaunchError((self.directory / "unkept").read_text(encoding="utf-8"))
        return job_directory.written_outputs(self.directory / "files", patterns, {}, 1 << 30)

    def note_unkept(self, why: Sequence[str]) -> None:
        """Record that expected files did not arrive."""
        if why:
            (self.directory / "unkept").write_text("; ".join(why), encoding="utf-8")

    # The job as a whole

    def cancel_asked(self) -> bool:
        """Whether this side requested its end."""
        return (self.directory / "cancelled").exists()

    def note_cancel(self) -> None:
        """Record that this side requested its end."""
        self.create()
        (self.directory / "cancelled").touch()

    def status(self) -> JobStatus | None:
        """How it ended, once that is known."""
        try:
            return from_json(JobStatus, (self.directory / "status.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def settle(self, status: JobStatus) -> None:
        """Save how it ended, atomically."""
        self.create()
        beside = self.directory / "status.part"
        beside.write_text(to_json(status), encoding="utf-8")
        beside.replace(self.directory / "status.json")

    def remove(self) -> None:
        """Remove everything."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.directory)

    def _reports(self, what: str) -> Iterator[dict[str, Any]]:
        for path in sorted((self.directory / "frames").glob(f"{what}-*")):
            with suppress(InputError):  # still arriving
                yield read_json(path)
