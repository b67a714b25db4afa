"""Jobs on a list of hosts, over OpenSSH: a detached keeper on each, its output followed over the connection.

On host N, a job is in `DIRECTORY/TOKEN.N`. It is copied to all hosts before any keeper is started, and the
first host's keeper is started last: if that keeper takes the job, there is a job.
"""

from __future__ import annotations

import hashlib
import io
import json
import select
import shlex
import subprocess
import tarfile
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import unquote

from assay import payload_files
from assay.errors import LaunchError, OptionsError, PlatformError, Problem
from assay.launch import job_directory, job_spec
from assay.launch.job_directory import by_whom, job_status, joined, not_taken
from assay.launch.launcher import JobLostError, JobRefusedError, Leftover
from assay.launch.spool import TOKEN
from assay.launch.ssh import SshSystem
from assay.launch.ssh.connection import Connection, HostUnreachableError, Listener, clock_offset
from assay.records import Extent, Handle, Job, JobState, JobStatus, Output, RenderedJob, Scalar

T = TypeVar("T")
LOOK_EVERY_S = 0.1
AT_ONCE = 32  # hosts queried concurrently
END_SLACK_S = 60.0  # beyond the grace time, for a host to end its share
FIRST_PORT, PORTS = 20_000, 12_000  # below the ports that Linux assigns
GIVE_UP_S = 120.0  # beyond the job's time limit, for an unresponsive host


class SshLauncher:
    """Runs jobs on hosts, with a keeper on each. `Launcher` documents what each method promises."""

    name = "ssh"

    def __init__(self, system: SshSystem) -> None:
        self.system = system
        self.hosts = [Connection(host, system) for host in system.hosts]
        self._followed: dict[str, list[Listener]] = {}
        self._ends: dict[str, dict[int, Mapping[str, Any]]] = {}  # token → node → its `ended.json`
        self._clocks: dict[str, Mapping[str, Scalar]] = {}

    def render(self, job: Job) -> RenderedJob:
        """The command that starts the keepers, then each rank's command."""
        nodes = self._nodes(job)
        job = job_spec.without_secrets(job)
        directory = f"{self.system.directory}/<token>"
        keeper = [
            self.system.python,
            "-I",
            "-S",
            f"{directory}.<node>/{payload_files.path_of(job_spec.KEEPER)}",
            f"{directory}.<node>",
        ]
        lines = [
            f"# on {', '.join(self.system.hosts[:nodes])}: node 0 to {nodes - 1}",
            shlex.join([*keeper, "--detach", "--node-from", "ASSAY_NODE"]),
            "# which starts each rank:",
            job_spec.rank_command(job, self.system.python, pin_cpus=self.system.pin_cpus),
        ]
        address = self.system.master_address or f"<address of {self.system.hosts[0]}>"
        return job_spec.rendered(
            job,
            "\n".join(lines),
            self.system.env,
            nodes=nodes,
            node="<node>" if nodes > 1 else "0",
            meeting=(address, "<from the token>"),
        )

    def submit(self, job: Job) -> Handle:
        """Copy the job to its hosts, then start the keepers; return when each has taken its share."""
        nodes = self._nodes(job)
        spec, variables = self._spec(job), job_spec.all_variables(job, self.system.env)
        laid: list[int] = []

        def lay_out(node: int) -> None:
            archive = _archive(job, spec, variables, f"node-{node}/" if nodes > 1 else "")
            self._ask(job.token, node, "lay_out", hashlib.sha256(archive).hexdigest(), stdin=archive)
            laid.append(node)

        try:
            on_each(lay_out, range(nodes))
            self._begin(job.token, nodes)
        except LaunchError as error:
            left = "".join(on_each(lambda node: self._left_of(job.token, node), laid))
            message = f"job {job.token} was not started: {error}{left}"
            if isinstance(error, PlatformError | JobLostError):
                raise type(error)(message) from error
            extent = error.extent if isinstance(error, JobRefusedError) else Extent.POINT
            raise JobRefusedError(message, extent) from error
        return self._handle(job.token, nodes, job.longest_s + self.system.grace)

    def find(self, token: str) -> Handle | None:
        """The job, if the first host's keeper has taken it; otherwise it is abandoned on all hosts."""
        first = self._ask(token, 0, "give_up")
        if first["taken"]:
            return self._handle(token, first["nodes"], first["limit_s"])

        def give_up(node: int) -> None:
            if self._ask(token, node, "give_up")["taken"]:
                self._undo(token, node)

        on_each(give_up, range(1, len(self.hosts)))
        return None

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """From each host's relay, after the bytes already stored; reconnects after a broken connection."""
        with ExitStack() as held:
            listeners = [
                held.enter_context(closing(Listener(self.hosts[n], self._place(handle.token, n), n, kept)))
                for n in _nodes_of(handle)
            ]
            self._followed[handle.token] = listeners
            held.callback(self._followed.pop, handle.token)
            ending: list[subprocess.Popen[bytes]] = []
            while not all(listener.over for listener in listeners):
                has_output = False
                for listener in listeners:
                    for output in listener.hear():
                        has_output = True
                        yield output
                self._give_up_silent(listeners, float(str(handle.data["limit_s"])))
                ending = ending or self._start_ending(handle.token, listeners)
                if not has_output:
                    yield None
                    _wait(listeners)
            for process in ending:
                process.wait()
            self._ends[handle.token] = {
                listener.node: listener.ended for listener in listeners if listener.ended is not None
            }

    def status(self, handle: Handle) -> JobStatus:
        """From the keepers' files; while the job is followed, from what has arrived."""
        listeners = self._followed.get(handle.token, [])
        if not all(listener.over for listener in listeners):
            waits = "; ".join(filter(None, (listener.trouble for listener in listeners)))
            waits = waits or next(filter(None, (listener.waits_for for listener in listeners)), "")
            running = all(listener.started for listener in listeners)
            return JobStatus(JobState.RUNNING if running else JobState.PENDING, waits)
        shares = on_each(lambda node: self._share(handle.token, node), _nodes_of(handle))
        unfinished = [share for share in shares if not share.state.final]
        if unfinished:
            return next((share for share in unfinished if share.state is JobState.PENDING), unfinished[0])
        end = joined(shares)
        if end.state in (JobState.CANCELLED, JobState.LOST):
            end = by_whom(end, cancelled=self._was_cancelled(handle))
        nodes = _nodes_of(handle)
        hosts = tuple(self.hosts[n].host for n in nodes)
        return replace(end, node_facts={f"probe-{n}": self._clock(n) for n in nodes}, hosts=hosts)

    def cancel(self, handle: Handle) -> None:
        """End the shares of all hosts at once."""
        on_each(lambda node: self._end(handle.token, node, "cancel"), _nodes_of(handle))

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the hosts' directories; from node 1 on, below `node-1/` and so on. At most 1 GiB per host."""
        for pattern in patterns:
            job_directory.check_output_name(pattern)
        for node in _nodes_of(handle):
            for item in self.hosts[node].files(self._place(handle.token, node), patterns):
                name = unquote(item.stream.removeprefix("file:"))
                yield Output(name if node == 0 else f"node-{node}/{name}", item.data)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory on each host."""
        shares = on_each(lambda node: self._ask(handle.token, node, "look"), _nodes_of(handle))
        if any(share["runs"] for share in shares):
            raise LaunchError(f"job {handle.token} is still running; cancel it first")
        on_each(lambda node: self._ask(handle.token, node, "forget"), _nodes_of(handle))
        self._ends.pop(handle.token, None)

    def leftovers(self) -> Sequence[Leftover]:
        """Directories of jobs on the hosts."""
        by_token: dict[str, list[Leftover]] = {}
        jobs_by_host = on_each(
            lambda n: self.hosts[n].ask("kept", self.system.directory), range(len(self.hosts))
        )
        for connection, jobs in zip(self.hosts, jobs_by_host, strict=True):
            for name, (runs, changed_at) in sorted(jobs.items()):
                token = name[1:].rsplit(".", 2)[0] if name.startswith(".") else name.rpartition(".")[0]
                what = f"{self.system.directory}/{name} on {connection.host}"
                by_token.setdefault(token, []).append(Leftover(token, (what,), runs, changed_at))
        return [_together(parts) for parts in by_token.values()]

    def discard(self, tokens: Collection[str]) -> None:
        """End what is running of them on any host, and remove their directories."""
        for token in tokens:
            on_each(lambda node, token=token: self._undo(token, node), range(len(self.hosts)))  # type: ignore[misc]

    # What is sent

    def _nodes(self, job: Job) -> int:
        """How many hosts the job needs. Raises OptionsError if it needs more than there are."""
        job_spec.check_task(job, self.system.env)
        nodes = job.shape.nodes or job.shape.workers
        if nodes > len(self.hosts):
            shape = job.shape
            message = (
                f"shape {shape} needs {nodes} hosts, one per worker, but the system has {len(self.hosts)}: "
                f"add `hosts`, or pack workers, like {shape.workers}x{shape.accelerators}x1"
            )
            raise OptionsError([Problem("hosts", message)])
        return nodes

    def _spec(self, job: Job) -> dict[str, Any]:
        return job_spec.spec(
            job,
            python=self.system.python,
            cwd=job.task.cwd or "work",
            nodes=self._nodes(job),
            grace_s=self.system.grace,
            start_timeout_s=job_spec.START_TIMEOUT_S,
            pin_cpus=self.system.pin_cpus,
            files_before={},
        )

    def _begin(self, token: str, nodes: int) -> None:
        address = self.system.master_address or self.hosts[0].address()
        port = str(FIRST_PORT + zlib.crc32(token.encode()) % PORTS)

        def begin(node: int) -> None:
            state = self._ask(token, node, "begin", str(node), address, port)
            if not state["taken"]:
                last_line = " ".join(state["said"].split())
                why = not_taken(state["exit_code"], last_line, state["waited_s"])
                raise type(why)(f"{self.hosts[node].host}: {why}")

        on_each(begin, range(1, nodes))
        begin(0)

    # How it ended

    def _share(self, token: str, node: int) -> JobStatus:
        """The state of one host's share; lost if the host is lost."""
        host = self.hosts[node].host
        known = self._ends.get(token, {}).get(node)
        if known is not None:
            return job_status(known)
        try:
            answer = self._ask(token, node, "look")
        except HostUnreachableError as error:
            return JobStatus(JobState.LOST, str(error))
        if answer["ended"] is not None:
            return job_status(answer["ended"])
        started_at = answer["started"]["started_at"] if answer["started"] else None
        if answer["runs"]:
            return JobStatus(
                JobState.RUNNING if answer["started"] else JobState.PENDING, started_at=started_at
            )
        state = JobState.CANCELLED if answer["asked"] else JobState.LOST  # killed while it ended its ranks
        return JobStatus(state, _why_lost(host, answer), started_at=started_at)

    def _was_cancelled(self, handle: Handle) -> bool:
        """Whether this run asked for its end, as far as its hosts can be reached."""

        def on(node: int) -> bool:
            try:
                return bool(self._ask(handle.token, node, "look")["cancelled"])
            except HostUnreachableError:
                return False

        return any(on_each(on, _nodes_of(handle)))

    def _give_up_silent(self, listeners: Sequence[Listener], limit_s: float) -> None:
        """Whether a host was silent for longer than the job may take; it is no longer waited for."""
        for listener in listeners:
            if listener.trouble and time.monotonic() - listener.heard_at > limit_s + GIVE_UP_S:
                listener.give_up()

    def _start_ending(self, token: str, listeners: Sequence[Listener]) -> list[subprocess.Popen[bytes]]:
        """If one share failed, end the others, and whatever a killed keeper may have left."""
        if not any(listener.failed for listener in listeners):
            return []
        return [
            subprocess.Popen(
                listener.connection.program("end", self._place(token, listener.node)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            for listener in listeners
            if not listener.over or listener.ended is None
        ]

    def _end(self, token: str, node: int, how: str = "end") -> None:
        outcome = self._ask(token, node, how, timeout_s=self.system.grace + END_SLACK_S)
        if outcome.get("left"):
            raise LaunchError(
                f"{self.hosts[node].host}: processes {outcome['left']} of job {token} can't be killed: "
                "they hang in the kernel"
            )

    def _undo(self, token: str, node: int) -> None:
        self._end(token, node)
        self._ask(token, node, "forget")

    def _left_of(self, token: str, node: int) -> str:
        """Undo a share of an abandoned job; if that fails, returns what remains, as text."""
        try:
            self._undo(token, node)
        except LaunchError as error:
            return f"; {self._place(token, node)} is left on {self.hosts[node].host}: {error}"
        return ""

    def _clock(self, node: int) -> Mapping[str, Scalar]:
        """How far the host's clock is off, measured once."""
        connection = self.hosts[node]
        if connection.host not in self._clocks:
            self._clocks[connection.host] = {
                "ssh.host": connection.host,
                **clock_offset(connection),
            }
        return self._clocks[connection.host]

    def _ask(self, token: str, node: int, what: str, *arguments: str, **more: Any) -> Any:
        return self.hosts[node].ask(what, self._place(token, node), *arguments, **more)

    def _place(self, token: str, node: int) -> str:
        if TOKEN.fullmatch(token) is None:
            raise ValueError(f"{token!r} is not a token: use letters, digits, dots, dashes, and underscores")
        return f"{self.system.directory}/{token}.{node}"

    def _handle(self, token: str, nodes: int, limit_s: float) -> Handle:
        return Handle(self.name, token, {"nodes": nodes, "limit_s": limit_s})


def on_each(call: Callable[[int], T], nodes: Sequence[int]) -> list[T]:
    """The call's results for all nodes, called concurrently. Raises the first error once all returned."""
    if len(nodes) < 2:
        return [call(node) for node in nodes]
    with ThreadPoolExecutor(min(len(nodes), AT_ONCE)) as pool:
        return [future.result() for future in [pool.submit(call, node) for node in nodes]]


def _together(shares: Sequence[Leftover]) -> Leftover:
    """What all hosts have of one job."""
    moments = [share.changed_at for share in shares if share.changed_at is not None]
    what = tuple(word for share in shares for word in share.what)
    return Leftover(shares[0].token, what, any(share.runs for share in shares), max(moments, default=None))


def _nodes_of(handle: Handle) -> range:
    nodes = handle.data["nodes"]
    assert isinstance(nodes, int)
    return range(nodes)


def _why_lost(host: str, answer: Mapping[str, Any]) -> str:
    if not answer["there"]:
        return f"nothing is left of the job on {host}"
    if answer["anew"]:
        return f"{host} was rebooted while the job ran"
    if printed := answer["said"].strip():
        return f"the job's keeper on {host} failed: {printed.splitlines()[-1]}"
    return f"the job's keeper on {host} was killed while the job ran"


def _archive(job: Job, spec: Mapping[str, Any], variables: Mapping[str, str], own: str) -> bytes:
    """Everything that a host needs, as one tar; equal bytes for equal jobs.

    variables  for its keeper only; own: that keeper's directory, "" for the job's
    """
    for_keeper = f"{own}{job_spec.VARIABLES}"
    members = {"spec.json": json.dumps(spec).encode(), for_keeper: json.dumps(variables).encode()}
    members |= payload_files.files(*job_spec.PROGRAMS)
    members |= {f"work/{file.name}": file.data for file in job.task.files}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755 if data.startswith(b"#!") else 0o644
            entry.mode = 0o600 if name == for_keeper else entry.mode
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _wait(listeners: Sequence[Listener]) -> None:
    """Wait until something arrives, for at most a moment."""
    select.select(
        [n for n in (listener.fileno() for listener in listeners) if n is not None], [], [], LOOK_EVERY_S
    )
