"""Time to train split into factors, as text and tables for the terminal, the page and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from assay.analyse.mlperf.convergence import Convergence
from assay.analyse.mlperf.decompose import Decomposition, UndecomposedBenchmark
from assay.analyse.mlperf.training_sets import TrainingSet
from assay.records import Estimate, Verdict
from assay.units import counted, significant
from assay.view import figures
from assay.view.blocks import Block, Fold, Paragraph, Table, TableBody, TableRow
from assay.view.figures import NONE
from assay.view.sentences.sentences import SYMBOLS, looked_at

MOST_DIFFERENCES = 12  # in the short form
_WIDEST_NAME = 14  # characters that fit in a column
_LONG_MINUTES = 2.0  # shorter training times are shown in seconds
_PER_UNIT = {"epochs": "epoch", "samples": "sample"}


def sentence(d: Decomposition) -> str:
    """The system factor and its verdict, as one sentence."""
    per = _PER_UNIT[d.a.unit]
    claim = {
        "equivalent": f"{d.b.name} trains as fast as {d.a.name}",
        "faster": f"{d.b.name} trains faster than {d.a.name}",
        "slower": f"{d.b.name} trains slower than {d.a.name}",
        "undecided": f"whether {d.b.name} trains as fast as {d.a.name} is undecided",
    }[d.verdict]
    warning = "" if d.likeness.stands == "system" else " Not like for like: no verdict on the systems alone."
    return (
        f"{d.benchmark}: {claim}, apart from {d.a.unit}: "
        f"its time per {per} is {figures.ratio(d.system)} times {d.a.name}'s.{warning}"
    )


def convergence_sentence(d: Decomposition) -> str:
    """How much of the ratio of times is chance or recipe, and whether that is known at all."""
    if d.time is None or d.convergence is None:
        return f"Convergence is undecided: {d.undecided}."
    convergence = figures.ratio(d.convergence)
    whole = (
        f"Time to train is {figures.ratio(d.time)} times {d.a.name}'s, of which convergence is {convergence}"
    )
    statement = f"{whole}; undecided: {d.undecided}." if d.undecided else f"{whole}."
    return " ".join(filter(None, (statement, _not_the_quotients(d), _not_the_comparisons(d))))


def _not_the_quotients(d: Decomposition) -> str:
    """Why the factors are not the quotients of lengths and of times per unit; "" if they are."""
    if d.convergence is None:
        return ""
    lengths = d.b.mean.length / d.a.mean.length
    if _agree(d.convergence, lengths) and _agree(d.system, _each(d.b) / _each(d.a)):
        return ""
    return (
        f"Only part of the time grows with the {d.a.unit}. The factors, which multiply to the ratio of "
        f"times, are therefore not the quotients of {d.a.unit} and of time per {_PER_UNIT[d.a.unit]}."
    )


def _not_the_comparisons(d: Decomposition) -> str:
    """Why the ratio of times differs from that of the comparison; "" if it doesn't."""
    if d.time is None or d.a.minutes is None or d.b.minutes is None:
        return ""
    geometric = replace(d.time, value=d.b.minutes.value / d.a.minutes.value)
    if _agree(d.time, geometric.value):
        return ""
    return (
        f"This is the ratio of mean times, which are additive; the ratio of geometric means is "
        f"{figures.ratio_value(geometric)}."
    )


def _agree(factor: Estimate, quotient: float) -> bool:
    return figures.ratio_value(factor) == figures.ratio_value(replace(factor, value=quotient))


def _each(s: TrainingSet) -> float:
    """Mean minutes over mean length."""
    return s.mean.minutes / s.mean.length


def evidence(d: Decomposition) -> str:
    """What the verdict rests on and how far it reaches, without a period at the end."""
    parts = [convergence_sentence(d), d.likeness.claim]
    if looked := looked_at([d.system]):
        parts.append(f"{looked.capitalize()}.")
    if d.replication == "runs" and d.system.low is not None:
        parts.append("One side has only one session: the claim is about these runs, not about others.")
    return " ".join(parts).removesuffix(".")


def of_set(s: TrainingSet) -> str:
    """One set's time to train as length × time per unit, and where the time goes."""
    unit, [per] = figures.column([s.minutes_per_unit.value * 60], "s")
    each = f"{per} {unit} per {_PER_UNIT[s.unit]}"
    m = s.mean
    shares = ", ".join(
        f"{name} {figures.percent(part / m.minutes)}"
        for name, part in (
            ("start", m.start),
            ("training", m.training),
            ("evaluation", m.evaluation),
            ("rest", m.rest),
        )
    )
    if s.minutes is None or s.length is None:
        whole = f"{s.converged} of {counted(s.runs, 'run')} converged; {each}"
    else:
        length = _length(s)
        units = _PER_UNIT[s.unit] if length == "1" else s.unit
        whole = f"time to train {_time(s.minutes)} = {length} {units} × {each} (geometric means)"
    beside = "" if s.overlap_minutes == 0 else f"; evaluation in open epochs {_minutes(s.overlap_minutes)}"
    before = "" if s.init_minutes is None else f"; initialization before it {_minutes(s.init_minutes)}"
    return f"{whole}: {shares}{beside}{before}"


def describe_convergence(convergence: Convergence) -> str:
    """A set compared with the references, as one sentence."""
    size = "" if convergence.batch_size is None else f" at batch size {convergence.batch_size:,}"
    claim = {
        "as the references": "converges as its references do",
        "suspiciously fast": "converges suspiciously fast",
        "slow": "converges slowly",
        "unknown": "can't be compared with a reference",
    }[convergence.speed]
    return f"{convergence.name}, {convergence.benchmark}{size}: {claim}; {convergence.reason}."


def tables(splits: Iterable[Decomposition]) -> list[Table]:
    """For each split: the factors, where the minutes go, and what differs."""
    tables = []
    for d in splits:
        tables += [factors(d), minutes(d)]
        if d.causes:
            tables.append(causes(d))
        if d.likeness.differences:
            tables.append(differences(d))
    return tables


def factors(d: Decomposition) -> Table:
    """Time to train = length × time per unit, for each side and as ratios."""
    per = _PER_UNIT[d.a.unit]
    rows = (
        _factor_row("time to train, mean", _times(d), d.time),
        _factor_row(f"convergence, {d.a.unit}", [_mean_length(s) for s in (d.a, d.b)], d.convergence, d.grid),
        _factor_row(f"system, time per {per}", _per_unit(d.a, d.b, d.system), d.system, verdict=d.verdict),
    )
    columns = ("", d.a.name, d.b.name, "ratio", "95 % interval", "verdict")
    return Table(f"{_title(d)}: factors", columns, (TableBody("", rows),), frozenset({0, 5}))


def _factor_row(
    name: str,
    sides: list[str],
    factor: Estimate | None,
    grid: tuple[float, float] | None = None,
    verdict: Verdict | None = None,
) -> TableRow:
    value = NONE if factor is None else figures.ratio_value(factor)
    interval = NONE if factor is None else figures.interval(factor)
    if interval == NONE and grid is not None:
        interval = f"grid {grid[0]:.3f} to {grid[1]:.3f}"
    word = "" if verdict is None else f"{SYMBOLS[verdict]} {verdict}"
    return TableRow((name, *sides, value, interval, word), verdict or "")


def minutes(d: Decomposition) -> Table:
    """Mean minutes per run by phase; phases outside the sum are listed separately."""
    unit, per_minute = _unit(d)

    def row(name: str, a: float | None, b: float | None) -> TableRow:
        texts = [NONE if value is None else _text(value * per_minute) for value in (a, b)]
        change = NONE if a is None or b is None else _signed((b - a) * per_minute)
        return TableRow((name, *texts, change))

    a, b = d.a.mean, d.b.mean
    inside = (
        row("start", a.start, b.start),
        row("training", a.training, b.training),
        row("evaluation", a.evaluation, b.evaluation),
        row("rest", a.rest, b.rest),
        row("run_start to run_stop", a.minutes, b.minutes),
    )
    outside = (
        row("evaluation in open epochs, counted only once", d.a.overlap_minutes, d.b.overlap_minutes),
        row("initialization, before run_start", d.a.init_minutes, d.b.init_minutes),
    )
    bodies = (TableBody("", inside), TableBody("separate, not part of the sum", outside))
    return Table(
        f"{_title(d)}: where the time goes, {unit} per run", ("", d.a.name, d.b.name, "change"), bodies
    )


def causes(d: Decomposition) -> Table:
    """The contributions that lead from A's mean time to B's."""
    unit, per_minute = _unit(d)
    rows = tuple(
        TableRow((c.name, c.factor_of, _signed(c.minutes * per_minute), f"{c.factor:.4f}")) for c in d.causes
    )
    columns = ("", "belongs to", f"adds, {unit}", "as a factor")
    return Table(
        f"{_title(d)}: what makes the difference", columns, (TableBody("", rows),), frozenset({0, 1})
    )


def differences(d: Decomposition) -> Table:
    """What is not like for like."""
    rows = tuple(TableRow((x.name, x.a, x.b, x.kind)) for x in d.likeness.differences)
    columns = ("", d.a.name, d.b.name, "concerns")
    return Table(f"{_title(d)}: not like for like", columns, (TableBody("", rows),), frozenset({0, 1, 2, 3}))


def _title(d: Decomposition) -> str:
    sizes = "" if d.a.shape == d.b.shape else f" ({d.a.shape} and {d.b.shape})"
    return f"{d.benchmark}, {d.b.name} compared with {d.a.name}{sizes}"


def unit_of(d: Decomposition) -> str:
    """`min`, or `s` for short trainings."""
    return _unit(d)[0]


def _unit(d: Decomposition) -> tuple[str, float]:
    """The unit in which the training times are shown, and the number of these units per minute."""
    return ("min", 1.0) if max(d.a.mean.minutes, d.b.mean.minutes) >= _LONG_MINUTES else ("s", 60.0)


def _text(value: float) -> str:
    return f"{value:,.3f}"


def _signed(value: float) -> str:
    return f"{value:+,.3f}".replace("-", "−") if abs(value) >= 0.0005 else f"{0:,.3f}"


def _minutes(minutes: float) -> str:
    unit, [text] = figures.column([minutes * 60], "s")
    return f"{text} {unit}"


def _time(estimate: Estimate | None) -> str:
    if estimate is None:
        return NONE
    return _minutes(estimate.value)


def _mean_length(s: TrainingSet) -> str:
    return significant(s.mean.length, 4) if s.length is not None else _length(s)


def _length(s: TrainingSet) -> str:
    if s.length is None:
        return f"{s.converged} of {s.runs} converged"
    return significant(s.length.value, 4)


def _times(d: Decomposition) -> list[str]:
    """Both sides' mean times to train; their quotient is the ratio next to them."""
    texts = _in_one_unit([s.mean.minutes for s in (d.a, d.b)], d.time)
    return [NONE if s.minutes is None else text for s, text in zip((d.a, d.b), texts, strict=True)]


def _per_unit(a: TrainingSet, b: TrainingSet, system: Estimate) -> list[str]:
    return _in_one_unit([_each(a), _each(b)], system)


def _in_one_unit(minutes: Sequence[float], ratio: Estimate | None) -> list[str]:
    """Times with their unit, to the precision of their ratio."""
    half = None if ratio is None else figures.half_width(ratio)
    halves = [None if ratio is None or half is None else m * 60 * half / ratio.value for m in minutes]
    unit, texts = figures.column([m * 60 for m in minutes], "s", halves)
    return [f"{text} {unit}" for text in texts]


def splits(
    decompositions: Sequence[Decomposition],
    not_split: Sequence[UndecomposedBenchmark],
    convergences: Sequence[Convergence],
) -> Iterator[Block]:
    """Each split with its tables and its claim, then what could not be split, then the references."""
    for d in decompositions:
        yield Paragraph(f"\n{sentence(d)}", "strong")
        if max(len(d.a.name), len(d.b.name)) > _WIDEST_NAME:
            yield Paragraph(f"A is {d.a.name}, B is {d.b.name}.")
            d = replace(d, a=replace(d.a, name="A"), b=replace(d.b, name="B"))
        yield from map(_captioned, (factors(d), minutes(d)))
        yield Paragraph(convergence_sentence(d))
        if d.likeness.differences:
            yield _differences(_captioned(differences(d)))
        yield Paragraph(d.likeness.claim)
        yield from (Paragraph(f"{s.name}: {note}.", "dim") for s in (d.a, d.b) for note in s.notes)
    for left in not_split:
        yield Paragraph(f"{left.benchmark}: time to train is not split: {left.why}.")
    yield from (Paragraph(describe_convergence(convergence)) for convergence in convergences)


def _captioned(table: Table) -> Table:
    """The table without its benchmark, which the sentence above it names."""
    return replace(table, caption=table.caption.partition(": ")[2])


def _differences(table: Table) -> Block:
    rows = [row for body in table.bodies for row in body.rows]
    more = len(rows) - MOST_DIFFERENCES
    if more <= 0:
        return table
    short = replace(table, bodies=(TableBody("", tuple(rows[:MOST_DIFFERENCES])),))
    return Fold((short,), (table,), f"{more} more differences")
