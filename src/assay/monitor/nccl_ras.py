"""What NCCL itself reports of a running job, and which ranks others wait for.

Since 2.24 each process of an NCCL job answers on `localhost:28028`: it asks the other processes and returns
the state of all. Since 2.28.7 it does so as JSON. Asking changes nothing of the job. NCCL is untrusted like
any other job: answers have a largest size and a time limit, and names have a form.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.errors import HostError, InputError
from assay.monitor.stragglers import SILENT_GAPS, SILENT_S, WARM_UP
from assay.monitor.watching import LONGEST_S, SHORTEST_S

COLD_SILENT_S: Final = (
    600.0  # silence that counts while too few changes are known to judge the job's own pauses
)
IN_PROGRESS: Final = 7  # ncclInProgress: no error


@dataclass(frozen=True)
class RasStall:
    """A communicator in which ranks wait for others that have called fewer collectives.

    silent_s       since a count last changed
    longest_gap_s  longest time between two changes before, 0 if there were none
    low, high      calls of those that are behind, at least, and of the others
    """

    communicator: str
    size: int
    operation: str
    silent_s: float
    longest_gap_s: float
    low: int
    high: int
    behind: tuple[RasRank, ...]


@dataclass
class _Progress:
    """How the counts of a communicator change over time."""

    counts: Mapping[int, Mapping[str, int]]
    changed_s: float
    changes: int = 0
    longest_gap_s: float = 0.0

    def limit_s(self) -> float:
        """Silence from which on it counts as a stall."""
        return max(SILENT_S if self.changes >= WARM_UP else COLD_SILENT_S, SILENT_GAPS * self.longest_gap_s)


@dataclass
class RasWatch:
    """What NCCL has reported so far.

    at_s           of the newest answer, seconds since the first
    communicators  in the newest answer
    stalls         communicators in which ranks wait
    lost           ranks that NCCL got no answer from in the last two answers, by communicator
    failed         ranks with an asynchronous error, by communicator
    """

    at_s: float = 0.0
    communicators: tuple[RasCommunicator, ...] = ()
    stalls: tuple[RasStall, ...] = ()
    lost: Mapping[str, tuple[RasRank, ...]] = field(default_factory=dict)
    failed: Mapping[str, tuple[RasRank, ...]] = field(default_factory=dict)
    _progress: dict[str, _Progress] = field(default_factory=dict)
    _lost_before: set[tuple[str, int]] = field(default_factory=set)

    @property
    def names_a_rank(self) -> bool:
        """Whether a rank needs a look."""
        return bool(self.stalls or self.lost or self.failed)

    def take(self, communicators: Sequence[RasCommunicator], at_s: float) -> None:
        """Add an answer.

        Counts that differ are normal while they change. A communicator stalls if they differ and none has
        changed for 60 s and for 8 times its longest pause so far; for 600 s if it has changed less than 16
        times. If all are equal, it is idle or all ranks are in the same collective: nobody is named.
        Of 300 simulated jobs of 500 steps whose pauses follow a Pareto law (exponent 2.5), 0.7 % had a rank
        named if steps took at least 1 s, and 4.3 % if they took at least 60 s.
        """
        self.at_s, self.communicators = at_s, tuple(communicators)
        self._progress = {
            communicator.name: self._update_progress(communicator) for communicator in communicators
        }
        self.stalls = tuple(
            stall for communicator in communicators if (stall := self._stall(communicator)) is not None
        )
        lost = {
            (communicator.name, rank.rank): rank
            for communicator in communicators
            for rank in communicator.ranks
            if rank.is_lost
        }
        self.lost = {
            communicator.name: again
            for communicator in communicators
            if (
                again := tuple(
                    rank
                    for rank in communicator.ranks
                    if (communicator.name, rank.rank) in self._lost_before & set(lost)
                )
            )
        }
        self._lost_before = set(lost)
        self.failed = {
            communicator.name: bad
            for communicator in communicators
            if (bad := tuple(rank for rank in communicator.ranks if rank.error not in (0, IN_PROGRESS)))
        }

    def _update_progress(self, communicator: RasCommunicator) -> _Progress:
        counts = {rank.rank: rank.counts for rank in communicator.ranks if rank.counts}
        progress = self._progress.get(communicator.name)
        if progress is None:
            return _Progress(counts, self.at_s)
        # a rank that did not answer this time has not progressed by that
        if any(counts[rank] != progress.counts.get(rank, own) for rank, own in counts.items()):
            progress.longest_gap_s = max(progress.longest_gap_s, self.at_s - progress.changed_s)
            progress.changes += 1
            progress.changed_s = self.at_s
        progress.counts = {**progress.counts, **counts}
        return progress

    def _stall(self, communicator: RasCommunicator) -> RasStall | None:
        progress = self._progress[communicator.name]
        silent_s = self.at_s - progress.changed_s
        if silent_s <= progress.limit_s():
            return None
        answered = [rank for rank in communicator.ranks if rank.counts]
        for operation in sorted({name for rank in answered for name in rank.counts}):
            calls = {rank.rank: rank.counts.get(operation, 0) for rank in answered}
            low, high = min(calls.values()), max(calls.values())
            if low < high:
                behind = tuple(rank for rank in answered if calls[rank.rank] < high)
                return RasStall(
                    communicator.name,
                    communicator.size,
                    operation,
                    silent_s,
                    progress.longest_gap_s,
                    low,
                    high,
                    behind,
                )
        return None

    def document(self) -> dict[str, Any]:
        """What NCCL reports of its communicators, and which ranks need a look."""
        return {
            "at_s": self.at_s,
            "communicators": [asdict(communicator) for communicator in self.communicators],
            "stalls": [asdict(stall) for stall in self.stalls],
            "lost": {name: [asdict(rank) for rank in ranks] for name, ranks in self.lost.items()},
            "failed": {name: [asdict(rank) for rank in ranks] for name, ranks in self.failed.items()},
        }


def watch(address: str, period_s: float, for_s: float | None = None) -> Iterator[RasWatch]:
    """Ask until nobody answers any more, which is the end of the job, or for a time.

    It yields the same object after each answer. Raises InputError if nobody answers at first, or something
    that isn't NCCL does; HostError if an answer takes too long.
    """
    host, port = host_and_port(address)
    if not SHORTEST_S <= period_s <= LONGEST_S:
        raise InputError(f"every {period_s:g} s: choose between {SHORTEST_S:g} s and {LONGEST_S:g} s")
    watched, begin = RasWatch(), None
    while True:
        try:
            text = ask_ras(host, port)
        except TimeoutError:
            raise HostError(
                f"{address}: NCCL did not answer completely within {ANSWER_S:g} s; try again"
            ) from None
        except OSError as error:
            if begin is not None:
                return
            raise InputError(
                f"{address}: no job's NCCL answers there ({error.strerror or error}); run this on a node of "
                "the job, while it runs; NCCL 2.28.7 or newer answers unless NCCL_RAS_ENABLE is 0"
            ) from None
        now = time.monotonic()
        begin = now if begin is None else begin
        try:
            watched.take(ras_communicators(text), now - begin)
        except ValueError as error:
            raise InputError(f"{address}: the answer is not NCCL's ({error})") from None
        yield watched
        left_s = period_s if for_s is None else min(period_s, begin + for_s - time.monotonic())
        if left_s <= 0:
            return
        time.sleep(left_s)


ADDRESS: Final = "localhost:28028"
LARGEST_BYTES: Final = 64 << 20  # 100,000 ranks in one communicator take half of it
ANSWER_S: Final = 30.0  # for a whole answer; NCCL waits up to 10 s for the job's other processes
COLLECT_S: Final = 10
_LINE: Final = 4096
_HOST: Final = re.compile(r"[\w.:%-]{1,64}")
_OPERATION: Final = re.compile(r"\w{1,32}")


@dataclass(frozen=True)
class RasRank:
    """A rank of a communicator.

    rank    in the communicator, not in the job
    counts  collectives that it has called so far, by operation; {} if it did not answer
    error   asynchronous error of NCCL (ncclResult_t), 0 if there is none
    is_lost NCCL got no answer from its process, or considers it dead
    """

    rank: int
    host: str
    pid: int
    counts: Mapping[str, int] = field(default_factory=dict)
    error: int = 0
    is_lost: bool = False


@dataclass(frozen=True)
class RasCommunicator:
    """A communicator; ranks are in order, those that did not answer included."""

    name: str
    size: int
    ranks: tuple[RasRank, ...]


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of `HOST:PORT`. Raises InputError if it is not one."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port[:6]) < 1 << 16:
        raise InputError(f'found the address "{address[:80]}"; expected HOST:PORT, like {ADDRESS}')
    return host.strip("[]"), int(port)


def ask_ras(host: str, port: int) -> bytes:
    """The JSON text of an answer. Raises OSError, or InputError for an answer of something else."""
    until = time.monotonic() + ANSWER_S
    with socket.create_connection((host, port), timeout=ANSWER_S) as connection:
        for line, expected in (
            ("CLIENT PROTOCOL 2", b"SERVER PROTOCOL "),
            (f"TIMEOUT {COLLECT_S}", b"OK"),
            ("SET FORMAT json", b"OK"),
        ):
            connection.sendall(line.encode() + b"\n")
            answer = _receive(connection, until, _LINE, to_newline=True)
            if not answer:
                raise ConnectionError("the connection was closed")
            if not answer.startswith(expected):
                raise InputError(
                    f"{host}:{port}: found the answer {answer[:80].decode(errors='replace')!a} to "
                    f'"{line}", expected "{expected.decode().strip()}"; NCCL answers as JSON from 2.28.7 on'
                )
        connection.sendall(b"VERBOSE STATUS\n")
        text = _receive(connection, until, LARGEST_BYTES, to_newline=False)
    if not text:
        raise ConnectionError("the connection was closed")
    return text


def _receive(connection: socket.socket, until: float, most_bytes: int, *, to_newline: bool) -> bytes:
    """A line, or everything up to the end of the connection."""
    received = bytearray()
    while not (to_newline and received.endswith(b"\n")):
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        block = connection.recv(1 << 16)
        if not block:
            break
        received += block
        if len(received) > most_bytes:
            raise InputError(f"found an answer of more than {most_bytes} bytes; expected that of NCCL")
    return bytes(received)


def ras_communicators(text: bytes) -> list[RasCommunicator]:
    """The communicators in an answer. Raises ValueError if it is not one."""
    try:
        answer = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return [_communicator(entry) for entry in _list(answer, "communicators")]


def _communicator(communicator: Any) -> RasCommunicator:
    ranks = [_rank(rank, is_missing=False) for rank in _list(communicator, "ranks")]
    ranks += [_rank(rank, is_missing=True) for rank in _list(communicator, "missing_ranks")]
    if len({rank.rank for rank in ranks}) < len(ranks):
        raise ValueError("a rank is in a communicator twice")
    # two communicators can have the same hash: the second one tells them apart
    name = f"{_text(communicator, 'hash', _HOST)}/{_text(communicator, 'secondary_hash', _HOST)}"
    return RasCommunicator(
        name, _count(communicator, "size"), tuple(sorted(ranks, key=lambda rank: rank.rank))
    )


def _rank(each: Any, *, is_missing: bool) -> RasRank:
    status = _mapping(each, "status")
    rank, host, pid = _count(each, "rank"), _text(each, "host", _HOST), _count(each, "pid")
    if is_missing:
        lost = status.get("unresponsive") is True or status.get("considered_dead") is True
        return RasRank(rank, host, pid, is_lost=lost)
    called = _mapping(each, "collective_counts")
    if not all(_OPERATION.fullmatch(name) for name in called):
        raise ValueError("collective_counts: not a name of an operation")
    return RasRank(
        rank, host, pid, {name: _count(called, name) for name in called}, _count(status, "async_error")
    )


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    member = value.get(key) if isinstance(value, dict) else None
    if not isinstance(member, dict):
        raise ValueError(f"{key}: missing, or not an object")  # noqa: TRY004 - bad content
    return member


def _list(value: Any, key: str) -> list[Any]:
    entries = value.get(key) if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f"{key}: missing, or not a list")  # noqa: TRY004 - bad content
    return entries


def _count(value: Mapping[str, Any], key: str) -> int:
    number = value.get(key)
    if type(number) is not int or not -1 <= number < 1 << 64:
        raise ValueError(f"{key}: missing, or not a count")
    return number


def _text(value: Mapping[str, Any], key: str, form: re.Pattern[str]) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not form.fullmatch(text):
        raise ValueError(f"{key}: missing, or not a name")
    return text
