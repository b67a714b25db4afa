"""Dumps of torch's flight recorder: who is missing in a collective, and who is slow on the way to each.

A dump is a pickle per rank, `{"entries": [{"collective_seq_id", "profiling_name", "process_group", "state",
"retired", "time_created_ns", "duration_ms", …}], …}`. Pickles can run code when they are loaded, so these are
read without any class: only numbers, text, lists, tuples, sets and dictionaries.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, Problem
from assay.inputs import open_plain
from assay.monitor.stragglers import Straggler, stragglers

LARGEST_BYTES: Final = 256 << 20
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
    stragglers  ranks that take longer from one collective to the next, without the time that they wait
    timed       whether collectives were timed: without that, nobody can be named as slow
    """

    ranks: tuple[int, ...]
    stops: tuple[CollectiveStop, ...]
    stragglers: tuple[Straggler, ...]
    timed: bool


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
    found: dict[int, list[Collective]] = {}
    problems = []
    for path in paths:
        match = _RANK.search(path.name)
        assert match
        rank = int(match[1])
        try:
            if rank in found:
                raise ValueError(f"a second dump of rank {rank}")  # noqa: TRY301 - one list of problems
            found[rank] = list(_collectives(_dump(path)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError) as error:
            problems.append(Problem(str(path), f"no dump of a flight recorder ({error})"))
    if problems:
        raise InputError(problems)
    return found


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse: a dump has no classes."""
        raise ValueError(f"it would run {module}.{name}")


def _dump(path: Path) -> Mapping[str, Any]:
    with open_plain(path) as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"larger than {LARGEST_BYTES >> 20} MiB")
    try:
        dump = _PlainUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, MemoryError, RecursionError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if not isinstance(dump, dict):
        raise ValueError(f"{type(dump).__name__} instead of a dictionary")  # noqa: TRY004 - bad content
    return dump


def _collectives(dump: Mapping[str, Any]) -> Iterator[Collective]:
    for entry in dump["entries"]:
        if entry.get("is_p2p"):
            continue
        took = entry.get("duration_ms")
        yield Collective(
            str(entry["process_group"][0]),
            int(entry["collective_seq_id"]),
            str(entry["profiling_name"])[:80],
            tuple(tuple(map(int, size)) for size in entry.get("input_sizes") or ()),
            entry["state"] == "completed" or bool(entry.get("retired")),
            int(entry["time_created_ns"]) / 1e9,
            None if took is None else float(took) / 1e3,
        )


def judged(dumps: Mapping[int, Sequence[Collective]]) -> FlightRecord:
    """Who is missing, and who is slow. Pure."""
    groups = {one.group for own in dumps.values() for one in own}
    by_group = {
        group: {
            rank: [one for one in own if one.group == group]
            for rank, own in dumps.items()
            if any(one.group == group for one in own)
        }
        for group in sorted(groups)
    }
    stops = [found for group, own in by_group.items() if (found := _stop(group, own)) is not None]
    slow: list[Straggler] = []
    timed = False
    for own in by_group.values():
        times = {rank: dict(_own_times(collectives)) for rank, collectives in own.items()}
        timed |= any(times.values())
        slow += stragglers(times)
    return FlightRecord(tuple(sorted(dumps)), tuple(stops), tuple(slow), timed)


def _stop(group: str, own: Mapping[int, Sequence[Collective]]) -> CollectiveStop | None:
    """The first collective that is not completed on every rank that reached it."""
    open_ones = [one for collectives in own.values() for one in collectives if not one.is_done]
    if not open_ones:
        return None
    number = min(one.number for one in open_ones)
    there = {rank: one for rank, collectives in own.items() for one in collectives if one.number == number}
    # a ring buffer forgets old entries: a rank that is past this one is not missing
    last = {rank: max((one.number for one in collectives), default=0) for rank, collectives in own.items()}
    waiting = tuple(sorted(rank for rank, one in there.items() if not one.is_done))
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
    for one in sorted(collectives, key=lambda found: found.number):
        if before is not None and one.number == before.number + 1 and before.took_s is not None:
            own_s = one.created_s - before.created_s - before.took_s
            if own_s > 0:
                yield before.number, own_s
        before = one


def _size(sizes: tuple[tuple[int, ...], ...]) -> str:
    return " and ".join("x".join(map(str, size)) or "one value" for size in sizes[:2]) or "nothing"
