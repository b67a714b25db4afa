"""The directory in which a keeper keeps a job, for readers (keeper.py writes it)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from assay.errors import InputError, LaunchError
from assay.inputs import json_value, naming
from assay.launch import processes
from assay.launch.launcher import JobLostError
from assay.records import JobState, JobStatus, NodeCounts, Output, RankExit, StreamEnd
from assay.units import counted
from assay_payloads.keeping.relay import Stamp, no_files, stamps

_FORK_REFUSED = ("BlockingIOError: [Errno 11]", "RuntimeError: can't start new thread")
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Keeper:
    """The process that took a job, identified so that no later process is mistaken for it."""

    host: str
    boot_id: str
    pid: int
    start_ticks: int

    def runs(self) -> bool:
        """Whether it is alive. Raises LaunchError if that can't be determined from here."""
        if self.boot_id == processes.boot_id():
            return processes.runs(self.pid, self.start_ticks)
        if self.host == processes.host():  # rebooted since
            return False
        raise LaunchError(
            f"the job was started on {self.host}, but this is {processes.host()}: resume there, "
            "or remove the job's directory if that machine is gone"
        )


@dataclass(frozen=True)
class JobDirectory:
    """One job's directory."""

    directory: Path

    @property
    def work(self) -> Path:
        """The directory of the task's files."""
        return self.directory / "work"

    def share(self, node: int, nodes: int) -> Path:
        """The directory of the keeper of one of the job's nodes."""
        return self.directory / f"node-{node}" if nodes > 1 else self.directory

    def spec(self) -> dict[str, Any]:
        """The keeper's spec. Raises LaunchError if the directory is gone."""
        spec = _read(self.directory / "spec.json")
        if spec is None:
            raise LaunchError(f"nothing is left of the job in {self.directory}")
        return spec

    def keeper(self) -> Keeper | None:
        """Who took the job; None if nobody has, or if it was abandoned."""
        owner = _read(self.directory / "claim.json")
        if owner is None or owner["by"] != "keeper":
            return None
        return Keeper(owner["host"], owner["boot_id"], owner["pid"], owner["start_ticks"])

    def host(self) -> str:
        """Name of the node whose keeper took the job; "" if none has."""
        keeper = self.keeper()
        return "" if keeper is None else keeper.host

    def give_up(self) -> None:
        """Take the job so that no keeper can, unless one has. A hard link is created once or not at all.

        Only this mark remains of an abandoned job: what was sent may contain secrets.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.directory / f"claim.{os.getpid()}"
        with naming(draft):
            draft.write_text(json.dumps({"by": "nobody"}))
        with suppress(FileExistsError):
            (self.directory / "claim.json").hardlink_to(draft)
        draft.unlink()
        if self.keeper() is None:
            leave_only(self.directory, "claim.json")

    def is_over(self) -> bool:
        """Whether the job has ended or was abandoned, according to its own files."""
        owner = _read(self.directory / "claim.json")
        return (owner is not None and owner["by"] == "nobody") or self.ended() is not None

    def note_cancelled(self) -> None:
        """Record that this run requested its end; written before the keeper is asked."""
        (self.directory / "cancelled").touch()

    def was_cancelled(self) -> bool:
        """Whether this run requested its end."""
        return (self.directory / "cancelled").exists()

    def was_asked(self) -> bool:
        """Whether its keeper was asked to end its ranks: if killed after that, the job was not lost."""
        return (self.directory / "asked.json").exists()

    def status(self, runs: Callable[[Keeper], bool] = Keeper.runs) -> JobStatus:
        """The job's state; lost if its keeper is gone and left no report.

        runs  whether the keeper is alive, if its process can't be seen from here
        """
        ended = self.ended()
        if ended is None:
            keeper, started_at = self.keeper(), self.started_at()
            if keeper is not None and runs(keeper):
                state = JobState.PENDING if started_at is None else JobState.RUNNING
                return JobStatus(state, started_at=started_at)
            state = JobState.CANCELLED if self.was_asked() else JobState.LOST
            lost = JobStatus(state, self._why_lost(keeper), started_at=started_at)
            ended = self.ended() or lost  # it may have ended between the two checks
        return by_whom(ended, cancelled=self.was_cancelled())

    def new_bytes(self, taken: dict[str, int]) -> Iterator[Output]:
        """At most 1 MiB of each stream after what was taken, which is counted up.

        Raises LaunchError if a stream has become shorter: the program truncated its own output.
        """
        for path in sorted((self.directory / "streams").glob("*.log")):
            output = new_of(path, path.stem, taken)
            if output is not None:
                yield output

    def keeper_said(self) -> str:
        """The last line that the keeper itself printed; it prints only when something is wrong."""
        log = self.directory / "keeper.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        last = lines[-1] if lines else ""
        refused = last.startswith(_FORK_REFUSED)
        return f"no more processes are allowed (pids.max or `ulimit -u`): {last}" if refused else last

    def started_at(self) -> float | None:
        """When its ranks were started; None until then."""
        started = _read(self.directory / "started.json")
        return None if started is None else float(started["started_at"])

    def paused_s(self) -> float:
        """How long its ranks were suspended so far, which moves their time limit; 0 if they never were."""
        paused = _read(self.directory / "paused.json")
        return 0.0 if paused is None else float(paused["paused_s"])

    def waits_for(self) -> str:
        """What its keeper waits for before it starts its ranks; "" if it does not wait, or not yet long."""
        waiting = None if self.started_at() is not None else _read(self.directory / "waiting.json")
        return "" if waiting is None else str(waiting["for"])

    def ended(self) -> JobStatus | None:
        """How it ended, according to its keeper; None before that, or if the keeper was killed."""
        end = _read(self.directory / "ended.json")
        if end is None:
            return None
        return job_status(end)

    def _why_lost(self, keeper: Keeper | None) -> str:
        if keeper is None:
            return f"nothing is left of the job in {self.directory}"
        if keeper.boot_id != processes.boot_id():
            return "the machine was rebooted while the job ran"
        if last_line := self.keeper_said():
            return f"the job's keeper failed: {last_line}"
        if shutil.disk_usage(self.directory).free < 1 << 20:
            return f"the job's keeper ended without a report: the disk of {self.directory} is full"
        return f"the job's keeper (process {keeper.pid}) was killed while the job ran"


def not_taken(exit_code: int | None, last_line: str, waited_s: float) -> LaunchError:
    """Why no keeper took a job that should have started with one, on this or another machine.

    exit_code  of the keeper, below 0 or above 128 for a signal; None if it had not ended after `waited_s`
    last_line  its last line
    """
    if exit_code is None:
        return JobLostError(f"the job's keeper did not start within {waited_s:g} s")
    if not 0 <= exit_code <= 128:
        return JobLostError("the job's keeper was killed before it took the job")
    why = last_line or f"it ended with exit code {exit_code} and printed nothing"
    return LaunchError(f"the job's keeper did not take the job: {why}")


def leave_only(directory: Path, *names: str) -> None:
    """Remove everything but these entries from a job's directory."""
    for path in directory.iterdir():
        if path.name not in names:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def new_of(path: Path, stream: str, taken: dict[str, int]) -> Output | None:
    """At most 1 MiB of a file after what was taken of its stream, which is counted up; None if there is none.

    Raises LaunchError if the file has become shorter.
    """
    offset, size = taken.get(stream, 0), path.stat().st_size
    if size < offset:
        raise LaunchError(
            f"{stream} truncated its own output: it had {offset} bytes, and {size} are left; "
            "a script does that with > /dev/stderr or > /dev/stdout: write >&2 or >&1 instead"
        )
    if size == offset:
        return None
    with naming(path), path.open("rb") as file:
        file.seek(offset)
        data = file.read(CHUNK_BYTES)
    taken[stream] = offset + len(data)
    return Output(stream, data)


def by_whom(end: JobStatus, *, cancelled: bool) -> JobStatus:
    """The end of a job, with who caused it.

    cancelled  this run requested it: then a killed keeper does not count as lost
    """
    if cancelled and end.state is JobState.LOST:
        return replace(end, state=JobState.CANCELLED, cause=f"cancelled; {end.cause}")
    if not cancelled and end.state is JobState.CANCELLED:
        cause = "somebody else ended the job: its keeper was sent SIGTERM, but not by this run"
        return replace(end, state=JobState.STOPPED, cause=cause)
    return end


def joined(nodes: Sequence[JobStatus]) -> JobStatus:
    """How a job of several nodes ended, from the reports of each node's keeper on its share.

    The share that first failed or timed out is the cause; the others were ended because of it.
    """
    blameless = (JobState.CANCELLED, JobState.SUCCEEDED)  # these did not end on their own before the others
    cause = min(nodes, key=lambda n: (*(n.state is s for s in blameless[::-1]), n.ended_at or 0.0))
    exits = (replace(e, first=e.first and node is cause) for node in nodes for e in node.exits)
    begun = [node.started_at for node in nodes if node.started_at is not None]
    over = [node.ended_at for node in nodes if node.ended_at is not None]
    return JobStatus(
        cause.state,
        cause.cause,
        tuple(sorted(exits, key=lambda e: e.rank)),
        min(begun, default=None),
        max(over, default=None),
        {name: end for node in nodes for name, end in node.streams.items()},
        _beside_each_other(tuple(counts for node in nodes for counts in node.nodes)),
    )


def _beside_each_other(counted: tuple[NodeCounts, ...]) -> tuple[NodeCounts, ...]:
    """What the job's parts used of each other's CPUs: the job's own pods on a node don't count as others."""
    used: dict[str, float] = {}
    for node in counted:
        if node.cpu_set is not None and node.job_cpu_s is not None:
            used[node.cpu_set] = used.get(node.cpu_set, 0.0) + node.job_cpu_s
    return tuple(
        node
        if node.cpu_set is None or node.job_cpu_s is None
        else replace(node, beside_cpu_s=used[node.cpu_set] - node.job_cpu_s)
        for node in counted
    )


def job_status(end: Mapping[str, Any]) -> JobStatus:
    """How a job ended, from its keeper's `ended.json`."""
    return JobStatus(
        JobState(end["state"]),
        end["cause"],
        tuple(RankExit(**rank) for rank in end["exits"]),
        end["started_at"],
        end["ended_at"],
        {name: StreamEnd(**stream_end) for name, stream_end in end["streams"].items()},
        () if end["node"] is None else (NodeCounts(**end["node"]),),
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with naming(path):
            text = path.read_bytes()
    except FileNotFoundError:
        return None
    value: dict[str, Any] = json_value(path, text)
    return value


def check_output_name(name: str) -> None:
    """Raise InputError for a file name or glob that leads out of the working directory."""
    path = PurePath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{name!r} is not a file below the working directory; write a relative path without .."
        )


def written_outputs(
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
