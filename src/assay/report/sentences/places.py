"""The node of each rank, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from assay.records import Result

MOST_SHOWN = 6


def lines(results: Iterable[Result]) -> Iterator[str]:
    """One line for each placement of a shape's runs; empty if no run recorded its placement."""
    counts = Counter((r.run.trial.shape, r.run.places) for r in results if r.run.places)
    ordered = sorted(
        counts.items(),
        key=lambda placement_runs: (
            placement_runs[0][0].ranks,
            str(placement_runs[0][0]),
            -placement_runs[1],
            placement_runs[0][1],
        ),
    )
    for (shape, places), runs in ordered[:MOST_SHOWN]:
        yield f"  {shape} ran {'once' if runs == 1 else f'{runs} times'} with {describe_placement(places)}"
    if len(ordered) > MOST_SHOWN:
        yield f"  and in {len(ordered) - MOST_SHOWN} more placements: --json lists the nodes of each run"


def describe_placement(places: Sequence[str]) -> str:
    """`rank 0 on node1, ranks 1 to 3 on node2`."""
    spans = []
    for node, members in groupby(range(len(places)), key=lambda rank: places[rank]):
        ranks = list(members)
        which = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        spans.append(f"{which} on {node or 'an unknown node'}")
    return ", ".join(spans)
