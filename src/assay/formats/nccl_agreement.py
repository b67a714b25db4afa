"""Which rows of an nccl-tests table agree, internally and with each other, and what follows from them.

Bus bandwidth is algorithmic bandwidth times a factor set by the operation and the number of ranks: one factor
for the whole table. It is the factor on which most cells agree, never what a single cell shows. Printed
figures are rounded, so each cell gives a range for it.

Where a log does not state its operation, bus over algorithmic bandwidth shows how much of the data crosses
the bus, the columns show whether the operation reduces and has a root, and a test that can't run in place
checks no result there.

Source: NVIDIA/nccl-tests, src/*.cu (…GetBw, …RunTest, …InitData), doc/PERFORMANCE.md; ROCm/rccl-tests.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from assay.formats.nccl_rows import (
    SLACK,
    NcclRow,
    NcclTest,
    PrintedRow,
    PrintedTiming,
    problem,
)
from assay.records import Scalar

_UNBOUNDED: Final = sys.maxsize
_NOTHING: Final = ("", "none")  # what is printed where an operation does not reduce


class Share(NamedTuple):
    """A range of bus over algorithmic bandwidth."""

    low: float
    high: float

    def meets(self, other: Share) -> bool:
        """Whether both may be the same number."""
        return self.low <= other.high * (1 + SLACK) and other.low <= self.high * (1 + SLACK)


@dataclass(frozen=True)
class OperationForm:
    """What the table of an operation looks like.

    times     how often (n - 1) / n of the data crosses the bus; None: all of it does
    reduces   whether its rows name a reduction; rooted: whether they name a root
    in_place  whether results in place are checked
    of_amd    whether only RCCL's tests have it
    """

    times: int | None
    reduces: bool = False
    rooted: bool = False
    in_place: bool = True
    of_amd: bool = False


OPERATIONS: Final[Mapping[str, OperationForm]] = {
    "all_reduce": OperationForm(2, reduces=True),
    "all_reduce_bias": OperationForm(2, reduces=True, of_amd=True),
    "all_gather": OperationForm(1),
    "reduce_scatter": OperationForm(1, reduces=True),
    "alltoall": OperationForm(1, in_place=False),
    "alltoallv": OperationForm(1, in_place=False, of_amd=True),
    "gather": OperationForm(1, rooted=True),
    "scatter": OperationForm(1, rooted=True),
    "broadcast": OperationForm(None, rooted=True),
    "reduce": OperationForm(None, reduces=True, rooted=True),
    "sendrecv": OperationForm(None, reduces=True, in_place=False),
    "hypercube": OperationForm(None),
}


def bus_factor(times: int | None, ranks: int) -> float:
    """Bus over algorithmic bandwidth of an operation on this many ranks; `times` as in `OperationForm`."""
    return 1.0 if times is None else times * (ranks - 1) / ranks


def ranks_for(share: Share, times: int | None) -> range:
    """Numbers of ranks with which an operation may have this factor; `times` as in `OperationForm`."""
    if times is None:
        return range(1, _UNBOUNDED if share.low <= 1 <= share.high else 1)
    if share.low >= times:
        return range(0)
    fewest = max(math.ceil(times / (times - share.low) - SLACK), 1)
    return range(
        fewest, _UNBOUNDED if share.high >= times else math.floor(times / (times - share.high) + SLACK) + 1
    )


def possible(rows: Sequence[PrintedRow], share: Share, ranks: int | None, amd: bool) -> tuple[str, ...]:
    """The operations that rows with this factor may be of; () if there are no rows.

    ranks  how many took part; None if unknown. A split communicator has a factor of fewer
    amd    whether RCCL's tests may have printed them

    Checks count least: where none of the operations that fit them has the factor, a part was not checked.
    """
    if not rows:
        return ()
    fitting = {
        name: known
        for name, known in OPERATIONS.items()
        if (amd or not known.of_amd) and _has_columns(rows, known)
    }
    checked = [name for name, known in fitting.items() if all(_checked_alike(row, known) for row in rows)]
    return _with_factor(checked, share, ranks) or _with_factor(fitting, share, ranks)


def _with_factor(names: Iterable[str], share: Share, ranks: int | None) -> tuple[str, ...]:
    """Those of some operations that may have this factor."""
    allowed = {name: ranks_for(share, OPERATIONS[name].times) for name in names}
    exact = tuple(name for name, counts in allowed.items() if ranks is not None and ranks in counts)
    return exact or tuple(name for name, counts in allowed.items() if any(n > 1 for n in counts[:2]))


def _has_columns(rows: Iterable[PrintedRow], known: OperationForm) -> bool:
    """Whether the columns of all rows are those of an operation."""
    return all(_reduces_alike(row, known) and _rooted_alike(row, known) for row in rows)


def _reduces_alike(row: PrintedRow, known: OperationForm) -> bool:
    """A table without a column of reductions is of an operation that has none."""
    return known.reduces == (row.redop not in (None, *_NOTHING))


def _rooted_alike(row: PrintedRow, known: OperationForm) -> bool:
    """Up to 2.12, only tables of operations with a root have its column."""
    return known.rooted == (row.root is not None and row.root >= 0)


def _checked_alike(row: PrintedRow, known: OperationForm) -> bool:
    """A row that checks what is out of place, and not what is in place, can't be in place.

    Up to 2.12, an all-gather has no column of reductions, and an all-to-all has an empty one.
    """
    if row.redop == "" and row.root is None:
        return not known.in_place
    out_of_place, in_place = [*row.ways, None, None][:2]
    if out_of_place is None or in_place is None or not out_of_place.checked:
        return row.redop is not None or known.in_place
    return known.in_place == in_place.checked


_ANY_TIMES: Final = (2, 1, None)  # of an operation that is in no table


def measured_test(
    rows: Sequence[PrintedRow],
    operation: str,
    hosts: Mapping[int, str],
    facts: Mapping[str, Scalar],
    *,
    bounds: tuple[int, bool] | None,
    failures: Sequence[str],
    skipped: int = 0,
    amd: bool = False,
) -> NcclTest:
    """The test that printed these rows.

    operation         as the log states it; "" if it doesn't
    hosts             rank → node, as far as the log lists them
    bounds, failures  as in `problem`
    skipped           lines that begin like a row but are not one
    amd               whether RCCL's tests may have printed them
    """
    agreed, common = agreeing(rows, operation, hosts)
    ranks = ranks_of(agreed, hosts)
    allowed = (operation,) if operation else possible(agreed, common, ranks, amd) if common else ()
    taken = tuple(_measured(agreed, _bus(agreed, common, allowed, ranks) if common else 0.0))
    torn = torn_notes(rows, agreed)
    facts = {**facts, **_kinds(agreed), **({"ranks": ranks} if ranks else {})}
    return NcclTest(
        allowed[0] if len(allowed) == 1 else "",
        taken,
        hosts,
        facts,
        problem(taken, skipped + len(torn), bounds, failures),
        skipped + len(torn),
        torn,
        allowed if len(allowed) > 1 else (),
    )


def _kinds(rows: Iterable[PrintedRow]) -> dict[str, Scalar]:
    """The data types and the reductions of rows; no reduction where they don't print it."""
    types, reductions = ({row.dtype for row in rows}, {row.redop for row in rows} - {None, ""})
    kinds = {"nccl_datatype": types, "nccl_redop": {str(redop) for redop in reductions}}
    return {fact: "/".join(sorted(values)) for fact, values in kinds.items() if values}


def agreeing(
    rows: Sequence[PrintedRow], operation: str = "", listed: Collection[int] = ()
) -> tuple[Sequence[PrintedRow], Share | None]:
    """Rows that are one exchange each and agree with most, and their bus over algorithmic bandwidth.

    operation  such as `all_reduce`; "" if the log doesn't say
    listed     ranks of the device list: they decide if no number has a majority of cells
    """
    sound = [row for row in rows if all(way is None or way.fits(row.size_bytes) for way in row.ways)]
    common = _common([_share(way) for row in sound for way in row.ways if way], operation, listed)
    if common is None:
        return (), None
    return [row for row in sound if all(_share(way).meets(common) for way in row.ways if way)], common


def _bus(rows: Sequence[PrintedRow], common: Share, allowed: Iterable[str], ranks: int | None) -> float:
    """Bus over algorithmic bandwidth: exact where operation and ranks leave one number, else as printed."""
    known = {OPERATIONS[name].times for name in allowed if name in OPERATIONS} or _ANY_TIMES
    exact = {bus_factor(times, ranks) for times in known} if ranks else set[float]()
    exact = {factor for factor in exact if Share(factor, factor).meets(common)}
    if len(exact) == 1:
        return exact.pop()
    ways = (way for row in rows for way in row.ways if way and way.algbw.value > 0)
    clearest = min(ways, key=lambda way: way.algbw.blur, default=None)
    return min(max(clearest.busbw.value / clearest.algbw.value, common.low), common.high) if clearest else 0.0


def _measured(rows: Iterable[PrintedRow], bus: float) -> Iterator[NcclRow]:
    """What rows that agree have measured."""
    for row in rows:
        timings = [way.timing(row.size_bytes, bus) if way else None for way in row.ways]
        out_of_place, in_place = [*timings, None][:2]
        yield NcclRow(row.size_bytes, out_of_place, in_place, row.line)


def torn_notes(rows: Sequence[PrintedRow], taken: Sequence[PrintedRow]) -> tuple[str, ...]:
    """What the user should know about rows that were not used, each with its line."""
    whole = {row.line for row in taken}
    return tuple(
        f"line {row.line}: its size, time, and bandwidths don't agree with each other or with the other "
        "rows; not used"
        for row in rows
        if row.line not in whole
    )


def ranks_of(rows: Sequence[PrintedRow], listed: Collection[int]) -> int | None:
    """How many ranks took part; None if neither the ranks that a log lists nor its rows show it.

    rows    that agree
    listed  ranks of the device list, of which a pasted log may have only a part

    A list without gaps from 0 on is complete unless the rows need more ranks; if they need fewer, they belong
    to the groups of a split communicator. Otherwise the rows decide: bus bandwidth over algorithmic is
    2(n-1)/n for all-reduce and (n-1)/n for what each rank sends to or collects from all others; 1 says
    nothing. Of several n that the printed digits allow, the one that the highest listed rank needs is used.
    """
    fewest = max(listed, default=-1) + 1
    by_rows = _ranks_by_rows(rows)
    if listed and len(listed) == fewest and (by_rows is None or by_rows.start <= fewest):
        return fewest
    if by_rows is None:
        return None
    allowed = range(max(by_rows.start, fewest), by_rows.stop)
    if len(allowed) == 1 or (listed and allowed and allowed[0] == fewest):
        return allowed[0]
    return None


def _share(way: PrintedTiming) -> Share:
    """What the digits allow; no upper bound if the algorithmic bandwidth was rounded to zero."""
    least = way.algbw.value - way.algbw.half
    high = (way.busbw.value + way.busbw.half) / least if least > 0 else math.inf
    return Share((way.busbw.value - way.busbw.half) / (way.algbw.value + way.algbw.half), high)


def _common(shares: Sequence[Share], operation: str, listed: Collection[int]) -> Share | None:
    """The factor of the whole table, as a range; None if undecided."""
    known = [OPERATIONS[operation].times] if operation in OPERATIONS else _ANY_TIMES
    best, cells = _most_shared(shares)
    best = [share for share in best if any(ranks_for(share, times) for times in known)]
    if len(best) > 1 or 2 * cells <= len(shares):
        ranks = len(listed) if set(listed) == set(range(len(listed))) else 0
        best = [share for share in best if any(ranks in ranks_for(share, times) for times in known)]
    return best[0] if len(best) == 1 else None


def _most_shared(shares: Sequence[Share]) -> tuple[list[Share], int]:
    """The range that most of them share, and how many share it."""
    edges = sorted(
        [(share.low * (1 - SLACK), 1) for share in shares]
        + [(share.high * (1 + SLACK), -1) for share in shares],
        key=lambda edge: (edge[0], -edge[1]),
    )
    depth, intervals = 0, list[tuple[int, Share]]()
    for (low, step), (high, next_step) in pairwise(edges):
        depth += step
        if step == 1 and next_step == -1:
            intervals.append((depth, Share(low, high)))
    most = max((depth for depth, _ in intervals), default=0)
    return [share for depth, share in intervals if depth == most], most


def _ranks_by_rows(rows: Sequence[PrintedRow]) -> range | None:
    """Numbers of ranks that agree with every row's printed bandwidths; None if all or none do."""
    shares = [_share(way) for row in rows for way in row.ways if way]
    if not shares:
        return None
    common = Share(max(share.low for share in shares), min(share.high for share in shares))
    times = 2 if common.low > 1 else 1
    if common.low > common.high or common.low <= 0 or common.low <= 1 <= common.high or common.high >= times:
        return None
    return ranks_for(common, times) or None
