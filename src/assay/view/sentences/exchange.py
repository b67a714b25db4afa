"""Exchange between ranks: curves over message size, alone and compared, and how ranks were connected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.analyse.comparison.families import CurveVerdict, band, curve_verdicts, size_of
from assay.analyse.doubts.paths import asked_and_used
from assay.analyse.points.groups import place_of
from assay.records import Comparison, Estimate, Links, Result, Verdict
from assay.units import all_of, counted, human
from assay.view import figures
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.figures import gathered
from assay.view.sentences.sentences import SYMBOLS

if TYPE_CHECKING:
    from assay.analyse.exchange.curves import ExchangeCurve

_ALIKE: dict[Verdict, str] = {"equivalent": "as fast", "faster": "faster", "slower": "slower"}


def heading(curve: ExchangeCurve) -> str:
    """`dgx · all-reduce, 2 workers × 8, mode tcp`: which curve this is."""
    place = (figures.shape(curve.shape), figures.labels(curve.labels))
    return ", ".join(filter(None, (f"{curve.system} · {curve.benchmark}", *place)))


def describe_curve(curve: ExchangeCurve) -> str:
    """Latency, bandwidth, n½ and share of the line rate; if no line fits, why, and the measured values."""
    return "; ".join(_curve_parts(curve))


def _curve_parts(curve: ExchangeCurve) -> Iterator[str]:
    if curve.alpha is not None and curve.asymptote is not None:
        yield f"latency {_estimate(curve.alpha)}, asymptotic bus bandwidth {_estimate(curve.asymptote)}"
    else:
        yield f"α + n·β: {curve.why_no_line}{_off(curve)}"
        best = max(curve.points, key=lambda point: point.busbw.value)
        least = curve.points[0]
        yield (
            f"{_estimate(least.latency)} at {figures.binary_bytes(least.size_bytes)}, at most "
            f"{_estimate(best.busbw)} at {figures.binary_bytes(best.size_bytes)}"
        )
    if curve.half is not None:
        maximum = "it" if curve.half_by == "line" else "that"
        yield f"half of {maximum} reached at {_size(curve.half)}"
    if curve.of_line_rate is not None and curve.line_rate is not None:
        line = f"{curve.line_rate.ports} ({human(curve.line_rate.bytes_per_s, 'B/s')})"
        yield f"at most {figures.share(curve.of_line_rate)} of the line rate of {line}"


def _off(curve: ExchangeCurve) -> str:
    """The size with the largest deviation from the fitted line, if a line was fitted."""
    if curve.misfit is None:
        return ""
    way = "more" if curve.misfit.share > 0 else "less"
    share = figures.percent(abs(curve.misfit.share))
    size = figures.binary_bytes(curve.misfit.size_bytes)
    return f", {size} takes {share} {way} time than the best-fitting line predicts"


def _estimate(estimate: Estimate) -> str:
    value, interval, _ = figures.measured(estimate)
    return value if interval == figures.NONE else f"{value} ({interval})"


def _size(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return figures.binary_bytes(estimate.value)
    ends = (figures.binary_bytes(end) for end in (estimate.low, estimate.high))
    return f"{figures.binary_bytes(estimate.value)} ({' to '.join(ends)})"


def tables(curves: Sequence[ExchangeCurve]) -> tuple[Table, ...]:
    """One table for all curves; empty if there are no curves."""
    if not curves:
        return ()
    bodies = tuple(
        TableBody(benchmark[0].benchmark, tuple(map(_row, benchmark)))
        for benchmark in gathered(curves, lambda curve: curve.benchmark)
    )
    columns = ("", "latency", "asymptotic bus bandwidth", "half of it at", "of the line rate", "")
    return (Table("Exchanges by message size", columns, bodies, frozenset({0, 5})),)


def _row(curve: ExchangeCurve) -> TableRow:
    place = ", ".join(filter(None, (figures.shape(curve.shape), figures.labels(curve.labels))))
    figures_ = (
        _estimate(curve.alpha) if curve.alpha else figures.NONE,
        _estimate(curve.asymptote) if curve.asymptote else figures.NONE,
        _size(curve.half) if curve.half else figures.NONE,
        figures.share(curve.of_line_rate) if curve.of_line_rate else figures.NONE,
    )
    note = f"{curve.why_no_line}{_off(curve)}" if curve.why_no_line else ""
    if note and curve.half is not None:
        note += "; half of the highest measured bandwidth"
    return TableRow((f"{curve.system}, {place}", *figures_, note))


def verdict_line(curve_verdict: CurveVerdict) -> str:
    """`▼ all-reduce bus bandwidth, 2 workers: slower at 4 of 24 sizes, 1 MiB to 8 MiB (0.80 to 0.84); …`."""
    point, count = curve_verdict.point, len(curve_verdict.sizes)
    place = ", ".join(filter(None, (figures.shape(point.shape), figures.labels(point.labels))))
    title = f"{SYMBOLS[curve_verdict.verdict]} {point.benchmark} {figures.metric(point.metric)}, {place}"
    parts = [
        _sizes_with_verdict(verdict, curve_verdict.sizes, count)
        for verdict in ("slower", "faster", "equivalent", "undecided")
    ]
    return f"{title}: {'; '.join(filter(None, parts))}"


def _sizes_with_verdict(verdict: Verdict, sizes: Sequence[Comparison], count: int) -> str:
    """Where this verdict applies and the range of the ratios there; "" if it applies nowhere."""
    here = [c for c in sizes if c.verdict == verdict]
    if not here:
        return ""
    where = f"at {all_of(count, 'size')}" if len(here) == count else f"at {len(here)} of {count} sizes"
    ranges = ", ".join(_stretches(here, sizes))
    ratios = figures.ratio_span([band(c) for c in here])
    return f"{_ALIKE.get(verdict, verdict)} {where}, {ranges} (ratio {ratios})"


def _stretches(here: Sequence[Comparison], sizes: Sequence[Comparison]) -> Iterator[str]:
    """`8 B to 1 KiB, 4 MiB`: adjacent sizes merged into ranges."""
    place = {id(c): index for index, c in enumerate(sizes)}
    run: list[Comparison] = []
    for c in here:
        if run and place[id(c)] != place[id(run[-1])] + 1:
            yield _stretch(run)
            run = []
        run.append(c)
    yield _stretch(run)


def _stretch(run: Sequence[Comparison]) -> str:
    first, last = (figures.binary_bytes(size_of(run[end])) for end in (0, -1))
    return first if first == last else f"{first} to {last}"


def how_to_read(curves: Sequence[CurveVerdict]) -> str:
    """A note that the verdicts of a curve's sizes hold simultaneously; "" if no curve uses a band."""
    corrections = {c.family.correction for curve in curves for c in curve.sizes if c.family is not None}
    if "band" not in corrections:
        return ""
    return "the intervals of a curve's sizes form one band: with 95 % confidence it holds at all sizes"


def plain(comparisons: Iterable[Comparison]) -> list[dict[str, Any]]:
    """Each curve over sizes with its band, as plain data for programs."""
    return [_curve_as_data(curve_verdict) for curve_verdict in curve_verdicts(comparisons)]


def _curve_as_data(curve_verdict: CurveVerdict) -> dict[str, Any]:
    first, point = curve_verdict.sizes[0], curve_verdict.point
    return {
        "a": first.a,
        "b": first.b,
        "benchmark": point.benchmark,
        "shape": point.shape,
        "metric": point.metric,
        "labels": dict(point.labels),
        "verdict": curve_verdict.verdict,
        "independent_sizes": None if first.along is None else first.along.independent,
        "sizes": [
            {
                "size_bytes": size_of(c),
                "ratio": c.ratio.value,
                "low": band(c).low,
                "high": band(c).high,
                "verdict": c.verdict,
            }
            for c in curve_verdict.sizes
        ],
    }


MOST_PLACES = 16  # in a matrix; with more places, rows list the rarest transports
MOST_ROWS = 24
_NONE = "·"


def newest_transports(results: Sequence[Result]) -> list[Result]:
    """The last run of each point whose library reported how its ranks were connected."""
    return list({place_of(r.run): r for r in results if r.reading.links}.values())


def first_transport_line(results: Sequence[Result]) -> str:
    """Which requested transport a run did not use, if any; "" if all did."""
    mismatches = Counter(mismatch for result in results if (mismatch := asked_and_used(result)))
    return "; ".join(
        f"{mismatch} ({runs} of {counted(len(results), 'run')})" for mismatch, runs in mismatches.items()
    )


def transport_summary(links: Sequence[Links]) -> str:
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


def transport_tables(sides: Mapping[str, Sequence[Result]]) -> tuple[Table, ...]:
    """A table for each side's last run of each point, from place to place."""
    return tuple(
        transport_table(result, side)
        for side, results in sides.items()
        for result in newest_transports(results)
    )


def transport_table(result: Result, side: str) -> Table:
    """A matrix from each place to each other; for many places, rows of the rarest transports and a total."""
    links, trial = result.reading.links, result.run.trial
    place = ", ".join(filter(None, (figures.shape(str(trial.shape)), figures.labels(trial.varied))))
    caption = f"From rank to rank: {side}, {trial.benchmark}, {place}: {transport_summary(links)}"
    places = sorted({name for link in links for name in (link.sender, link.receiver)}, key=_by_number)
    if len(places) <= MOST_PLACES:
        return _transport_matrix(caption, links, places)
    return _transport_rows(caption, links)


def _by_number(place: str) -> tuple[int, str]:
    first = place.partition(" ")[0]
    return (int(first), place) if first.isdecimal() else (-1, place)


def _transport_matrix(caption: str, links: Sequence[Links], places: Sequence[str]) -> Table:
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


def _transport_rows(caption: str, links: Sequence[Links]) -> Table:
    shown, left = _rarest_first(links)
    rows = [
        TableRow((link.sender, link.receiver, link.transport, str(link.links), str(link.channels)))
        for link in shown
    ]
    if left:
        rows.append(TableRow((f"and {len(left)} more pairs", "", transport_summary(left), "", "")))
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


def transport_lines(results: Sequence[Result]) -> Iterator[str]:
    """The same for the terminal, one line per pair of places."""
    for result in newest_transports(results):
        trial, links = result.run.trial, result.reading.links
        yield f"  {trial.benchmark} {trial.shape} {figures.labels(trial.varied)}".rstrip() + (
            f", from rank to rank: {transport_summary(links)}"
        )
        shown, left = _rarest_first(links)
        width = max(len(f"{link.sender} -> {link.receiver}") for link in shown)
        for link in shown:
            way = f"{link.sender} -> {link.receiver}"
            count = f"{link.links} links, " if link.links > 1 else ""
            yield f"    {way:{width}}  {link.transport}, {count}{link.channels} channels"
        if left:
            yield f"    and {len(left)} more pairs: {transport_summary(left)}"
