"""Which operation a table of nccl-tests measured, where the log does not state it.

Bus over algorithmic bandwidth shows how much of the data crosses the bus; the columns show whether the
operation reduces and has a root; and a test that can't run in place checks no result there.

Source: NVIDIA/nccl-tests, src/*.cu (…GetBw, …RunTest, …InitData), doc/PERFORMANCE.md; ROCm/rccl-tests.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.logs.nccl_rows import SLACK, PrintedRow

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
