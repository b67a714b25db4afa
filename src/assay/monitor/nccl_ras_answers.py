"""The answers of NCCL's RAS service, as it gives them on a socket.

NCCL is untrusted like any other job: answers have a largest size and a time limit, and names have a form.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assay.errors import InputError

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


def ask(host: str, port: int) -> bytes:
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


def parse(text: bytes) -> list[RasCommunicator]:
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
