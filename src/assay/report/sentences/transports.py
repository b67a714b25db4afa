"""How ranks were connected: as a sentence, and as a table from each place to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from assay.analyse.doubts.paths import asked_and_used
from assay.analyse.points.groups import place_of
from assay.records import Links, Result
from assay.report import figures
from assay.units import counted
from assay.view.blocks import Table, TableBody, TableRow

MOST_PLACES = 16  # in a matrix; with more places, rows list the rarest transports
MOST_ROWS = 24
_NONE = "·"


def newest(results: Sequence[Result]) -> list[Result]:
    """The last run of each point whose library reported how its ranks were connected."""
    return list({place_of(r.run): r for r in results if r.reading.links}.values())


def first_line(results: Sequence[Result]) -> str:
    """Which requested transport a run did not use, if any; "" if all did."""
    mismatches = Counter(mismatch for result in results if (mismatch := asked_and_used(result)))
    return "; ".join(
        f"{mismatch} ({runs} of {counted(len(results), 'run')})" for mismatch, runs in mismatches.items()
    )


def summary(links: Sequence[Links]) -> str:
    """`GPUDirect RDMA 16 links, 64 channels; P2P 14 links, 56 channels`: the most used first."""
    pairs: Counter[str] = Counter()
    channels: Counter[str] = Counter()
    for link in links:
        pairs[link.transport] += link.links
        channels[link.transport] += link.channels
    return "; ".join(
        f"{kind} {count} link{'s' * (count > 1)}, {channels[kind]} channel{'s' * (channels[kind] > 1)}"
        for kind, count in pairs.most_common()
    )


def tables(sides: Mapping[str, Sequence[Result]]) -> tuple[Table, ...]:
    """A table for each side's last run of each point, from place to place."""
    return tuple(table(result, side) for side, results in sides.items() for result in newest(results))


def table(result: Result, side: str) -> Table:
    """A matrix from each place to each other; for many places, rows of the rarest transports and a total."""
    links, trial = result.reading.links, result.run.trial
    place = ", ".join(filter(None, (figures.shape(str(trial.shape)), figures.labels(trial.varied))))
    caption = f"From rank to rank: {side}, {trial.benchmark}, {place}: {summary(links)}"
    places = sorted({name for link in links for name in (link.sender, link.receiver)}, key=_by_number)
    if len(places) <= MOST_PLACES:
        return _matrix(caption, links, places)
    return _rows(caption, links)


def _by_number(place: str) -> tuple[int, str]:
    first = place.partition(" ")[0]
    return (int(first), place) if first.isdecimal() else (-1, place)


def _matrix(caption: str, links: Sequence[Links], places: Sequence[str]) -> Table:
    """A cell lists the transports: with channels for ranks, with links for nodes."""
    ranks = all(link.links == 1 for link in links)
    cells: dict[tuple[str, str], list[str]] = {}
    for link in links:
        count = link.channels if ranks else link.links
        cells.setdefault((link.sender, link.receiver), []).append(f"{link.transport} × {count}")
    rows = tuple(
        TableRow((sender, *(", ".join(cells.get((sender, to), [_NONE])) for to in places)))
        for sender in places
    )
    counted = "× channels" if ranks else "× links"
    columns = (f"from ↓ to → ({counted})", *places)
    return Table(caption, columns, (TableBody("", rows),), frozenset(range(len(columns))))


def _rows(caption: str, links: Sequence[Links]) -> Table:
    shown, left = _rarest_first(links)
    rows = [
        TableRow((link.sender, link.receiver, link.transport, str(link.links), str(link.channels)))
        for link in shown
    ]
    if left:
        rows.append(TableRow((f"and {len(left)} more pairs", "", summary(left), "", "")))
    columns = ("from", "to", "transport", "links", "channels")
    text_columns = frozenset({0, 1, 2})
    return Table(f"{caption}; rarest first", columns, (TableBody("", tuple(rows)),), text_columns)


def _rarest_first(links: Sequence[Links]) -> tuple[list[Links], list[Links]]:
    """The links to show, with the rarest transport first, and the others."""
    total: Counter[str] = Counter()
    for link in links:
        total[link.transport] += link.links
    ordered = sorted(
        links, key=lambda link: (total[link.transport], _by_number(link.sender), _by_number(link.receiver))
    )
    return ordered[:MOST_ROWS], ordered[MOST_ROWS:]


def lines(results: Sequence[Result]) -> Iterator[str]:
    """The same for the terminal, one line per pair of places."""
    for result in newest(results):
        trial, links = result.run.trial, result.reading.links
        yield f"  {trial.benchmark} {trial.shape} {figures.labels(trial.varied)}".rstrip() + (
            f", from rank to rank: {summary(links)}"
        )
        shown, left = _rarest_first(links)
        width = max(len(f"{link.sender} -> {link.receiver}") for link in shown)
        for link in shown:
            way = f"{link.sender} -> {link.receiver}"
            count = f"{link.links} links, " if link.links > 1 else ""
            yield f"    {way:{width}}  {link.transport}, {count}{link.channels} channels"
        if left:
            yield f"    and {len(left)} more pairs: {summary(left)}"
