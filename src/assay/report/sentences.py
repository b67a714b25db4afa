"""One sentence a question: what a comparison, a scaling or a requirement says, with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.records import Comparison, Doubt, Point, Requirement, Scaling, ScalingPoint, Verdict
from assay.report import figures
from assay.units import factor

# a symbol and a word beside the colour, which nobody should need to read a verdict
SYMBOLS: Mapping[Verdict, str] = {"equivalent": "=", "faster": "▲", "slower": "▼", "undecided": "?"}

REQUIREMENT_SYMBOLS = {"holds": "✓", "fails": "✗", "undecided": "?"}


@dataclass(frozen=True)
class Question:
    """What people ask of one benchmark on one shape: is B as fast as A? One comparison for each label."""

    comparisons: tuple[Comparison, ...]

    @property
    def point(self) -> Point:
        """The first point: all share benchmark, shape and metric."""
        return self.comparisons[0].point

    @property
    def sides(self) -> tuple[str, str]:
        """Names of A and B."""
        return self.comparisons[0].a, self.comparisons[0].b

    @property
    def verdict(self) -> Verdict:
        """The verdict that all points share; undecided where they do not agree."""
        verdicts = {c.verdict for c in self.comparisons}
        return verdicts.pop() if len(verdicts) == 1 else "undecided"

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Doubts about any of its points, each code once."""
        return tuple(doubt for doubt, _ in figures.distinct_doubts(self.comparisons))


def questions(comparisons: Sequence[Comparison]) -> tuple[Question, ...]:
    """Comparisons gathered by sides, benchmark, metric and shape, in the order met."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault((c.a, c.b, c.point.benchmark, c.point.metric, c.point.shape), []).append(c)
    return tuple(Question(tuple(group)) for group in groups.values())


def headline(asked: Sequence[Question]) -> str:
    """`here-again against here: as fast in 5 of 6, undecided in 1.` for each pair of sides."""
    return " ".join(_pair_headline(sides, asked) for sides in dict.fromkeys(q.sides for q in asked))


def _pair_headline(sides: tuple[str, str], asked: Sequence[Question]) -> str:
    verdicts = [c.verdict for q in asked if q.sides == sides for c in q.comparisons]
    a, b = sides
    words: Mapping[Verdict, str] = {"equivalent": f"as fast as {a}", "faster": "faster", "slower": "slower"}
    for verdict, word in words.items():
        if set(verdicts) == {verdict}:
            tail = "" if verdict == "equivalent" else f" than {a}"
            return f"{b} is {word}{tail} {_everywhere(len(verdicts))}."
    parts = [
        f"{word} in {verdicts.count(verdict)} of {len(verdicts)}"
        for verdict, word in (*words.items(), ("undecided", "undecided"))
        if verdict in verdicts
    ]
    return f"{b} against {a}: {', '.join(parts)}."


def _everywhere(points: int) -> str:
    return "at the one point compared" if points == 1 else f"at all {points} points compared"


def answer(question: Question) -> str:
    """The question's answer as a sentence, with its ratio and interval or the range of its points' ratios."""
    if len(question.comparisons) == 1:
        return _one(question.comparisons[0])
    return _many(question)


def _one(c: Comparison) -> str:
    evidence = f"{figures.ratio(c.ratio)}"
    margin = f"±{figures.percent(c.margin)}"
    claim = _claim(c.point, c.a, c.b, c.verdict)
    match c.verdict:
        case "equivalent":
            return f"{claim}: {evidence}, within {margin}."
        case "undecided":
            return f"{claim}: {evidence}. {_sentence(c.reason)}".strip()
        case _:
            beyond = "by more than" if _outside(c) else "though perhaps by less than"
            return f"{claim}: {evidence}, {beyond} {margin}."


def evidence(question: Question) -> str:
    """What the answer rests on: both means, n, the method, and what so many runs can show."""
    points = question.comparisons
    n = figures.runs([c.n for c in points])
    method = {"paired": "paired by block", "welch": "not paired"}.get(points[0].method, "no interval")
    visible = [c.smallest_visible for c in points if c.smallest_visible is not None]
    parts = [f"{n} runs", method]
    if len(points) == 1:
        unit, (a, b) = figures.column([points[0].mean_a, points[0].mean_b], points[0].point.unit)
        parts.insert(0, f"{a} and {b} {unit}".strip())
    if visible:
        parts.append(f"so many runs can show {figures.span(min(visible), max(visible))}")
    return "; ".join(parts)


def requirement(r: Requirement) -> str:
    """`here meets resnet50 throughput >= 20 images/s on 1 worker: the 95 % bound … is …`."""
    words = {"holds": "meets", "fails": "does not meet", "undecided": "is undecided on"}[r.verdict]
    task = f"{r.point.benchmark} {figures.metric(r.point.metric)} {r.expectation.written}"
    return f"{r.system} {words} {task} on {figures.where(r.point)}: {_sentence(r.reason, upper=False)}"


def scaled(curve: Scaling, point: ScalingPoint) -> str:
    """`here speeds resnet50 up 1.86× (1.83 to 1.90) from 1 worker to 2 workers: 93 % of ideal.`"""
    task = " ".join(filter(None, (curve.benchmark, figures.labels(curve.labels))))
    low, high = point.speedup.low, point.speedup.high
    interval = "no interval" if low is None or high is None else f"{low:.2f} to {high:.2f}"
    return (
        f"{curve.system} runs {task} {point.speedup.value:.2f} times as fast ({interval}) on "
        f"{figures.shape(point.shape)} as on {figures.shape(curve.points[0].shape)}: "
        f"{point.efficiency.value * 100:.0f} % of ideal."
    )


def _claim(point: Point, a: str, b: str, verdict: Verdict) -> str:
    as_a, more, less = ("fast", "faster", "slower") if _is_speed(point) else ("good", "better", "worse")
    task = f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"
    direction = ", where less is better" if point.better == "lower" else ""
    match verdict:
        case "equivalent":
            return f"{b} is as {as_a} as {a} at {task}"
        case "undecided":
            return f"Undecided whether {b} is as {as_a} as {a} at {task}"
        case "faster":
            return f"{b} is {more} than {a} at {task}{direction}"
        case "slower":
            return f"{b} is {less} than {a} at {task}{direction}"


def _many(question: Question) -> str:
    points = question.comparisons
    a, b = question.sides
    bare = Point(**{**question.point.__dict__, "labels": {}})
    values = [c.ratio.value for c in points]
    span = f"ratios {min(values):.3f} to {max(values):.3f}, each with its interval below"
    verdicts = [c.verdict for c in points]
    if len(set(verdicts)) == 1:
        return f"{_claim(bare, a, b, verdicts[0])}, at all {len(points)} points: {span}."
    words: Mapping[Verdict, str] = {"equivalent": "as fast", "faster": "faster", "slower": "slower"}
    counts = [
        f"{words.get(v, v)} at {verdicts.count(v)}"
        for v in ("equivalent", "faster", "slower", "undecided")
        if v in verdicts
    ]
    task = f"{bare.benchmark} {figures.metric(bare.metric)} on {figures.where(bare)}"
    return f"{b} against {a} at {task}: {', '.join(counts)} of {len(points)} points; {span}."


def _outside(c: Comparison) -> bool:
    low, high = c.ratio.low, c.ratio.high
    return low is not None and high is not None and (low > 1 + c.margin or high < 1 / (1 + c.margin))


def _is_speed(point: Point) -> bool:
    return point.unit.endswith("/s") or factor(point.unit)[1] == "s"


def _sentence(text: str, *, upper: bool = True) -> str:
    """First letter large, a full stop at the end."""
    text = text.strip()
    first = text[:1].upper() if upper else text[:1]
    return text and first + text[1:] + ("" if text.endswith(".") else ".")
