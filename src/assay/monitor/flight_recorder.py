"""Dumps of torch's flight recorder: who is missing in a collective, and who is slow on the way to each.

A dump is a pickle per rank, `{"entries": [{"collective_seq_id", "profiling_name", "process_group", "state",
"retired", "time_created_ns", "duration_ms", …}], …}`. Pickles can run code when they are loaded, so these are
read without any class: only numbers, text, lists, tuples, sets and dictionaries. A dump of a few bytes can
also claim gigabytes, so each of its numbers, texts and lists has a bound.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, Problem
from assay.inputs import open_plain
from assay.monitor.stragglers import RankVerdict, Straggler, judge_ranks

LARGEST_BYTES: Final = 256 << 20
MOST_ENTRIES: Final = 1_000_000  # of a dump; torch keeps 2,000 unless it is told otherwise
MOST_SIZES: Final = 10_000  # of an entry: one for each input of a coalesced collective
MOST_DIMENSIONS: Final = 64
LONGEST_NAME: Final = 80
# Opcodes of plain data without a text: marks, constants, containers, numbers of at most 16 bytes, and places
# in the memo below 2**22, because a memo is as large as the largest place in it.
_PLAIN: Final = re.compile(
    rb"(?:[(.N\x88\x89\]})\x8faesut\x85-\x87ld\x90\x91\x94]|[\x80Khq].|M..|J.{4}|[rj]..[\x00-\x3f]\x00|[G\x95].{8}"
    + b"".join(rb"|\x8a" + re.escape(bytes([size])) + rb".{%d}" % size for size in range(17))
    + rb"){1,1000}+",
    re.DOTALL,
)
_TEXTS: Final = {ord("X"): 4, 0x8C: 1, 0x8D: 8}  # opcode of a text → bytes of its length
_RANK: Final = re.compile(r"(\d+)(?:\.pickle|\.pkl)?$")


@dataclass(frozen=True)
class Collective:
    """A collective operation as one rank recorded it.

    group     of processes; number: counted in the group, from 1
    sizes     of its inputs
    is_done   whether it was completed on this rank
    created_s when it was enqueued, by the rank's own clock; took_s: None if it was not timed
    """

    group: str
    number: int
    name: str
    sizes: tuple[tuple[int, ...], ...]
    is_done: bool
    created_s: float
    took_s: float | None


@dataclass(frozen=True)
class CollectiveStop:
    """A collective that some ranks wait in.

    missing    ranks that have not reached it; (): all have, and it does not complete
    different  ranks that called another operation, or with other sizes, and what
    waiting    ranks in it
    """

    group: str
    number: int
    name: str
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    different: Mapping[int, str]


@dataclass(frozen=True)
class FlightRecord:
    """What the dumps of a job say.

    ranks       of which there is a dump
    stops       the first collective of each group that has not completed everywhere
    verdicts    by group of processes with times: which ranks take longer from one collective to the next,
                without the time that they wait
    timed       whether collectives were timed: without that, nobody can be named as slow
    """

    ranks: tuple[int, ...]
    stops: tuple[CollectiveStop, ...]
    verdicts: Mapping[str, RankVerdict]
    timed: bool

    @property
    def stragglers(self) -> tuple[Straggler, ...]:
        """The ranks that are slower, in any group."""
        return tuple(slow for verdict in self.verdicts.values() for slow in verdict.slow)

    def document(self) -> dict[str, Any]:
        """What dumps of the flight recorder say."""
        return {
            "ranks": self.ranks,
            "stops": [asdict(stop) for stop in self.stops],
            "stragglers": [asdict(straggler) for straggler in self.stragglers],
            "timed": self.timed,
            "judged": {group: verdict.document() for group, verdict in self.verdicts.items()},
        }


def flight_record(directory: Path) -> FlightRecord:
    """What the dumps in a directory say, one file per rank, whose name ends with the rank's number.

    Raises InputError with every file that can't be read, or if there is none.
    """
    return judged(read_dumps(directory))


def read_dumps(directory: Path) -> dict[int, list[Collective]]:
    """The collectives of each rank, in their order. Raises as `flight_record` does."""
    try:
        paths = sorted(path for path in directory.iterdir() if path.is_file() and _RANK.search(path.name))
    except OSError as error:
        raise InputError(
            f"{directory}: {error.strerror}; expected the folder of TORCH_FR_DUMP_TEMP_FILE"
        ) from error
    if not paths:
        raise InputError(
            f"{directory}: no file whose name ends with a rank's number, such as nccl_trace_rank_0"
        )
    dumps: dict[int, list[Collective]] = {}
    problems = []
    for path in paths:
        match = _RANK.search(path.name)
        assert match
        rank = int(match[1])
        try:
            if rank in dumps:
                raise ValueError(f"a second dump of rank {rank}")  # noqa: TRY301 - one list of problems
            dumps[rank] = list(_collectives(_dump(path)))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            EOFError,
            OverflowError,
        ) as error:
            problems.append(Problem(str(path), f"no dump of a flight recorder ({error})"))
    if problems:
        raise InputError(problems)
    return dumps


def _dump(path: Path) -> Mapping[str, Any]:
    with open_plain(path) as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"larger than {LARGEST_BYTES >> 20} MiB")
    _check_plain(data)
    try:
        dump = pickle.loads(data)  # noqa: S301 - it has no class, no memo beyond bounds, and no large number
    except (pickle.UnpicklingError, MemoryError, RecursionError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        raise ValueError("not a dictionary with a list of entries")  # noqa: TRY004 - bad content
    return dump


def _check_plain(data: bytes) -> None:
    """Raises ValueError for a pickle with anything but plain data, before it is loaded."""
    offset, end = 0, len(data)
    while offset < end:
        match = _PLAIN.match(data, offset)
        if match is not None:
            offset = match.end()
        elif (size := _TEXTS.get(data[offset])) is not None:
            offset += 1 + size
            offset += int.from_bytes(data[offset - size : offset], "little")
        else:
            raise ValueError(f"byte {offset} is not of plain data, which is all that is read")


def _collectives(dump: Mapping[str, Any]) -> Iterator[Collective]:
    entries = dump["entries"]
    if len(entries) > MOST_ENTRIES:
        raise ValueError(f"{len(entries):,} entries; expected at most {MOST_ENTRIES:,}")
    for entry in entries:
        if entry.get("is_p2p"):
            continue
        took = entry.get("duration_ms")
        yield Collective(
            _name(entry["process_group"][0]),
            _integer(entry["collective_seq_id"]),
            _name(entry["profiling_name"]),
            _sizes(entry.get("input_sizes") or ()),
            entry["state"] == "completed" or bool(entry.get("retired")),
            _integer(entry["time_created_ns"]) / 1e9,
            None if took is None else _seconds(took),
        )


def _name(value: object) -> str:
    if not isinstance(value, str | int):
        raise ValueError(f"a {type(value).__name__} instead of a name")  # noqa: TRY004 - bad content
    return str(value)[:LONGEST_NAME]


def _integer(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("a count is not a whole number below 2**63")
    return value


def _seconds(took_ms: object) -> float:
    if not isinstance(took_ms, int | float) or not 0 <= took_ms < math.inf:
        raise ValueError("duration_ms is not a time")
    return took_ms / 1e3


def _sizes(sizes: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(sizes, list | tuple) or len(sizes) > MOST_SIZES:
        raise ValueError(f"input_sizes is not a list of at most {MOST_SIZES:,} sizes")
    if not all(isinstance(size, list | tuple) and len(size) <= MOST_DIMENSIONS for size in sizes):
        raise ValueError(f"a size of input_sizes is not a list of at most {MOST_DIMENSIONS} numbers")
    return tuple(tuple(map(_integer, size)) for size in sizes)


def judged(dumps: Mapping[int, Sequence[Collective]]) -> FlightRecord:
    """Who is missing, and who is slow. Pure."""
    by_group: dict[str, dict[int, list[Collective]]] = {}
    for rank, own in dumps.items():
        for collective in own:
            by_group.setdefault(collective.group, {}).setdefault(rank, []).append(collective)
    stops = [stop for group, own in sorted(by_group.items()) if (stop := _stop(group, own)) is not None]
    verdicts: dict[str, RankVerdict] = {}
    for group, entered in sorted(by_group.items()):
        times = {rank: dict(_own_times(collectives)) for rank, collectives in entered.items()}
        if any(times.values()):
            verdicts[group] = judge_ranks(times)
    return FlightRecord(tuple(sorted(dumps)), tuple(stops), verdicts, bool(verdicts))


def _stop(group: str, own: Mapping[int, Sequence[Collective]]) -> CollectiveStop | None:
    """The first collective that is not completed on every rank that reached it."""
    open_ones = [
        collective for collectives in own.values() for collective in collectives if not collective.is_done
    ]
    if not open_ones:
        return None
    number = min(collective.number for collective in open_ones)
    there = {
        rank: collective
        for rank, collectives in own.items()
        for collective in collectives
        if collective.number == number
    }
    # a ring buffer forgets old entries: a rank that is past this one is not missing
    last = {
        rank: max((collective.number for collective in collectives), default=0)
        for rank, collectives in own.items()
    }
    waiting = tuple(sorted(rank for rank, collective in there.items() if not collective.is_done))
    missing = tuple(sorted(rank for rank in own if last[rank] < number))
    calls = [(there[rank].name, there[rank].sizes) for rank in waiting]
    usual = max(set(calls), key=calls.count)
    different = {
        rank: f"{there[rank].name} of {_size(there[rank].sizes)}"
        for rank in sorted(there)
        if (there[rank].name, there[rank].sizes) != usual
    }
    return CollectiveStop(group, number, f"{usual[0]} of {_size(usual[1])}", waiting, missing, different)


def _own_times(collectives: Iterable[Collective]) -> Iterator[tuple[int, float]]:
    """Seconds from one collective to the next without the time in the first, by its number."""
    before: Collective | None = None
    for collective in sorted(collectives, key=lambda collective: collective.number):
        if before is not None and collective.number == before.number + 1 and before.took_s is not None:
            own_s = collective.created_s - before.created_s - before.took_s
            if own_s > 0:
                yield before.number, own_s
        before = collective


def _size(sizes: tuple[tuple[int, ...], ...]) -> str:
    return " and ".join("x".join(map(str, size)) or "one value" for size in sizes[:2]) or "nothing"
