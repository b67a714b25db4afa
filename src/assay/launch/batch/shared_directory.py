"""The directory of a batch system's job, which this machine and the job's nodes share.

In addition to the files of every job (see job_directory.py), with a directory `node-N` for each node if there
are several:
  job.sh          the batch script
  submitted.json  the number that the batch system gave the job
  taken           who has it: the number of the job that started, or `nobody` if it was abandoned
  cancelled       this run requested its end
  refused         why it was abandoned in the queue, and which other jobs would wait there in vain
  SYSTEM-N.log    what the batch script printed: what starts the keepers, and the user's own commands
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assay.inputs import read_json
from assay.launch.job_directory import JobDirectory, joined, leave_only, new_of
from assay.launch.job_spec import VARIABLES
from assay.records import Extent, Handle, JobState, JobStatus, Output

SCRIPT_STREAM = "batch"
OVERDUE_S = 20.0  # beyond limit and grace time: for a keeper's last report, a shared disk, clock differences
_NOBODY = "nobody"
_LAST_LINES = 5


@dataclass(frozen=True)
class SharedJobDirectory(JobDirectory):
    """One job's directory on the shared file system."""

    def shares(self) -> list[JobDirectory]:
        """The directory of each node's keeper."""
        nodes: int = self.spec()["nodes"]
        return [JobDirectory(self.share(node, nodes)) for node in range(nodes)]

    def hosts(self) -> tuple[str, ...]:
        """Name of each node; "" if its keeper has not started."""
        return tuple(share.host() for share in self.shares())

    def ended(self) -> JobStatus | None:
        """How the job ended; None until the keepers of all nodes have reported it."""
        ends = [share.ended() for share in self.shares()]
        whole = [end for end in ends if end is not None]
        return joined(whole) if len(whole) == len(ends) else None

    def silent_nodes(self) -> list[int]:
        """Numbers of the nodes whose keepers have not reported how their share ended."""
        return [n for n, share in enumerate(self.shares()) if share.ended() is None]

    def overdue(self) -> bool:
        """Whether keepers are long overdue with their final reports, and so must be gone.

        False for a removed job.
        """
        if not self.directory.exists():
            return False
        started_at = self.started_at()
        if started_at is None or not self.silent_nodes():
            return False
        spec = self.spec()
        paused_s = max(share.paused_s() for share in self.shares())
        limit_s: float = spec["timeout_s"] + paused_s + spec["grace_s"] + OVERDUE_S
        return time.time() > started_at + limit_s

    def failed_early(self) -> JobStatus | None:
        """How shares failed before all had started, so that the others were ended; None if none did."""
        ends = [(share, share.ended()) for share in self.shares()]
        whole = [end for _, end in ends if end is not None]
        if not whole or any(end is None and share.started_at() is not None for share, end in ends):
            return None
        end = joined(whole)
        return end if end.state is JobState.FAILED else None

    def waits_for(self) -> str:
        """What the started keepers wait for, according to the first of them."""
        return next(filter(None, (share.waits_for() for share in self.shares())), "")

    def started_at(self) -> float | None:
        """When the first ranks were started."""
        times = (share.started_at() for share in self.shares())
        return min((time for time in times if time is not None), default=None)

    def new_bytes(self, taken: dict[str, int]) -> Iterator[Output]:
        """At most 1 MiB of each stream of all nodes, and of the batch script's log, after what was taken."""
        if not self.directory.exists():
            return
        for share in self.shares():
            yield from share.new_bytes(taken)
        log = self.script_log()
        output = new_of(log, SCRIPT_STREAM, taken) if log else None
        if output is not None:
            yield output

    def whole(self, end: JobStatus) -> bool:
        """Whether everything printed is visible here: a file may become visible after the job's end."""
        files = {p.stem: p for share in self.shares() for p in (share.directory / "streams").glob("*.log")}
        return all(
            name in files and files[name].stat().st_size >= end_of_stream.bytes
            for name, end_of_stream in end.streams.items()
        )

    def look_anew(self) -> None:
        """Change the directories, so that an NFS client asks its server for their contents.

        Otherwise it may answer from its cache for up to a minute (acdirmax in nfs(5)) that a file is missing.
        """
        for directory in {self.directory, *(share.directory for share in self.shares())}:
            if directory.is_dir():
                (directory / ".look").touch()
                (directory / ".look").unlink(missing_ok=True)

    # Who has it

    def note_submitted(self, handle: Handle) -> None:
        """Store its number in the batch system."""
        draft = self.directory / "submitted.part"
        draft.write_text(json.dumps(dict(handle.data)))
        draft.replace(self.directory / "submitted.json")

    def submitted(self, launcher: str, token: str) -> Handle | None:
        """The handle of the job; None if the batch system's answer was not stored."""
        path = self.directory / "submitted.json"
        return Handle(launcher, token, read_json(path)) if path.exists() else None

    def give_up(self) -> None:
        """Take the job so that its script runs nothing, unless it has started; removes its variables."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.directory / "taken.nobody"
        draft.write_text(_NOBODY)
        with suppress(FileExistsError):
            (self.directory / "taken").hardlink_to(draft)
        if self.taken_by() is None:
            for left in (*self.directory.glob(VARIABLES), *self.directory.glob(f"node-*/{VARIABLES}")):
                left.unlink(missing_ok=True)

    def leave_mark(self) -> None:
        """Remove everything of an abandoned job except the mark that says so."""
        leave_only(self.directory, "taken")

    def taken_by(self) -> int | None:
        """The number under which it started; None if it has not, or was abandoned."""
        path = self.directory / "taken"
        text = path.read_text().strip() if path.exists() else _NOBODY
        return None if text == _NOBODY else int(text)

    def given_up(self) -> bool:
        """Whether nothing of it will ever run."""
        path = self.directory / "taken"
        return path.exists() and self.taken_by() is None

    def note_refused(self, cause: str, extent: Extent) -> None:
        """Store why it was abandoned in the queue."""
        draft = self.directory / "refused.part"
        draft.write_text(json.dumps({"cause": cause, "extent": extent.value}))
        draft.replace(self.directory / "refused")

    def refused(self) -> JobStatus | None:
        """Why it was abandoned in the queue; None if it was not."""
        path = self.directory / "refused"
        if not path.exists():
            return None
        why = json.loads(path.read_bytes())
        return JobStatus(JobState.FAILED, why["cause"], extent=Extent(why["extent"]))

    # What its script printed

    def script_log(self) -> Path | None:
        """What the batch script printed; None until it runs."""
        return next(iter(sorted(self.directory.glob("*-*.log"))), None)

    def script_said(self) -> str:
        """Its last lines."""
        log = self.script_log()
        lines = log.read_text(errors="replace").splitlines() if log else []
        return " | ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip())
