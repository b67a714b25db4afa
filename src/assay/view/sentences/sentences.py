"""One sentence per question: what a comparison, a scaling curve, or a requirement says, with its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.comparison.verdict import allowing_for, lost_as_text, obstacle, surely_beyond, too_much
from assay.analyse.doubts import KINDS
from assay.analyse.statistics.sequential import ALPHA, LOOKS
from assay.records import (
    Comparison,
    Doubt,
    Estimate,
    Point,
    Requirement,
    RunsRange,
    Scaling,
    ScalingPoint,
    Severity,
    Verdict,
)
from assay.units import all_of, counted, factor
from assay.view import figures

# A symbol and a word accompany the color, so that nobody needs color to read a verdict.
SYMBOLS: Mapping[Verdict, str] = {"equivalent": "=", "faster": "▲", "slower": "▼", "undecided": "?"}

MOST_TOLD = 3  # curves that one sentence names individually; for more it gives the range
REQUIREMENT_SYMBOLS = {"holds": "✓", "fails": "✗", "undecided": "?"}


@dataclass(frozen=True)
class ComparedBenchmark:
    """A question about one benchmark on one shape: is B as fast as A? One comparison for each label."""

    comparisons: tuple[Comparison, ...]

    @property
    def point(self) -> Point:
        """The first point; all points share benchmark, shape and metric."""
        return self.comparisons[0].point

    @property
    def sides(self) -> tuple[str, str]:
        """Names of A and B."""
        return self.comparisons[0].a, self.comparisons[0].b

    @property
    def verdict(self) -> Verdict:
        """The verdict that all points share; undecided if they do not agree."""
        verdicts = {c.verdict for c in self.comparisons}
        return verdicts.pop() if len(verdicts) == 1 else "undecided"

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Doubts about any of its points, each code once."""
        return tuple(doubt for doubt, _ in figures.distinct_doubts(self.comparisons))


def questions(comparisons: Sequence[Comparison]) -> tuple[ComparedBenchmark, ...]:
    """Comparisons grouped by sides, benchmark, metric and shape, in the order of their first occurrence."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault((c.a, c.b, c.point.benchmark, c.point.metric, c.point.shape), []).append(c)
    return tuple(ComparedBenchmark(tuple(group)) for group in groups.values())


def headline(questions: Sequence[ComparedBenchmark]) -> str:
    """`here-again compared with here: as fast in 5 of 6 comparisons, undecided in 1.` for each pair.

    Then the doubts to fix before an answer counts, and the doubts that may bias answers.
    """
    pairs = dict.fromkeys(q.sides for q in questions)
    return " ".join(
        filter(None, (*(_pair_headline(sides, questions) for sides in pairs), reservations(questions)))
    )


def reservations(questions: Sequence[ComparedBenchmark]) -> str:
    """Which doubts to fix first and which may have shifted an answer; "" if there are none."""
    comparisons = [c for question in questions for c in question.comparisons]
    reservations = []
    for severity, alone, several in _RESERVATIONS:
        codes = [[d.code for d in c.doubts if KINDS[d.code].severity == severity] for c in comparisons]
        many, named = (
            sum(map(bool, codes)),
            ", ".join(dict.fromkeys(code for comparison_codes in codes for code in comparison_codes)),
        )
        if many:
            who = alone if many == len(comparisons) else f"{many} of the {len(comparisons)} {several}"
            reservations.append(f"{who}: {named}.")
    return " ".join(reservations)


_RESERVATIONS: Sequence[tuple[Severity, str, str]] = (
    ("invalid", "Fix before you decide", "must be fixed before you decide"),
    ("biased", "May be biased", "may be biased"),
)


def resolution(questions: Sequence[ComparedBenchmark]) -> str:
    """The smallest difference these runs could detect, over all comparisons; "" if there is no interval."""
    shown = visible([c for question in questions for c in question.comparisons])
    if not shown:
        return ""
    least, most = figures.percent(min(shown)), figures.percent(max(shown))
    if least == most:
        return f"The smallest difference these runs could detect is {least}."
    return f"The smallest difference these runs could detect is between {least} and {most}."


def visible(comparisons: Sequence[Comparison]) -> list[float]:
    """The smallest detectable differences, as shares; empty if others used the CPUs."""
    return [
        c.smallest_visible
        for c in comparisons
        if c.smallest_visible is not None and not any(c.lost_to_others)
    ]


def needed(comparisons: Sequence[Comparison]) -> str:
    """How many runs would decide what is undecided, as `19 to 45 new runs per side …`; "" if unknown.

    New ones, because whoever adds runs to those that left it open looks twice. The command that allows for
    its looks is named if it applies: both sides ran in the blocks of one session.
    """
    known = [c.runs_needed for c in comparisons if c.runs_needed is not None]
    if not known:
        return ""
    margins = sorted({2 * c.margin for c in comparisons if c.runs_needed is not None})
    apart = " or ".join(figures.percent(m) for m in margins)
    unit = " or ".join(dict.fromkeys(needs.of for needs in known))
    once = all(c.ratio.confidence <= 1 - ALPHA for c in comparisons)
    blocks = all((c.method, c.replication) == ("paired", "runs") for c in comparisons)
    command = _until_decided([k.if_equal for k in known]) if once and blocks else ""
    equal = f"{_runs([k.if_equal for k in known])} {'new ' * once}{unit}"
    return (
        f"{equal} per side would decide if they are equal, "
        f"{_runs([k.if_twice_the_margin for k in known])} if they differ by {apart}{command}"
    )


def _until_decided(ranges: Sequence[RunsRange]) -> str:
    """The command that makes as many new runs as it takes; "" if it can't make as many."""
    if any(r.low is None or r.low > LOOKS[-1] for r in ranges):
        return ""
    most = min(LOOKS[-1], max(r.high or LOOKS[-1] for r in ranges))
    return f"; `assay run SUITE --until decided --max-repeats {most}` chooses how many"


def _runs(ranges: Sequence[RunsRange]) -> str:
    """`19 to 45`; over several comparisons, from the lowest to the highest."""
    least = [r.low for r in ranges if r.low is not None]
    most = [r.high for r in ranges if r.high is not None]
    if not least:
        return "over 10,000"
    high = f"{max(most):,}" if len(most) == len(ranges) else "over 10,000"
    return high if high == f"{min(least):,}" else f"{min(least):,} to {high}"


def together(comparisons: Sequence[Comparison]) -> str:
    """A note that the verdicts hold jointly, if they are corrected for multiple comparisons; else ""."""
    sizes = {c.family.size for c in comparisons if c.family is not None and c.family.correction == "holm"}
    if not sizes:
        return ""
    open_ends = (
        " A bound of <1 or >1 gives the direction but not the size of the difference: the correction leaves "
        "no room for more. The interval taken alone gives the size, but does not allow for the other claims."
    )
    return (
        f"Faster, slower and undecided verdicts and their intervals hold for all {max(sizes)} claims jointly "
        "(Holm); an equivalent verdict rests on its own interval."
    ) + open_ends * any(map(figures.alone_beside, comparisons))


def _pair_headline(sides: tuple[str, str], questions: Sequence[ComparedBenchmark]) -> str:
    verdicts = [_short_word(c) for q in questions if q.sides == sides for c in q.comparisons]
    a, b = sides
    counts = [(word, verdicts.count(word)) for word in _SHORT_WORDS if word in verdicts]
    bound = in_two_sessions([c for q in questions if q.sides == sides for c in q.comparisons])
    if len(verdicts) == 1:
        return f"{b} compared with {a}: {bound}{counts[0][0]} in the only comparison."
    (first, count), *others = counts
    where = all_of(count, "comparison") if not others else f"{count} of {len(verdicts)} comparisons"
    rest = "".join(f", {word} in {times}" for word, times in others)
    return f"{b} compared with {a}: {bound}{first} in {where}{rest}."


def in_two_sessions(comparisons: Sequence[Comparison]) -> str:
    """`in these two sessions, ` before a decided verdict on two sides that have one session each; else ""."""
    decided = [c for c in comparisons if c.verdict != "undecided"]
    return "in these two sessions, " if decided and all(c.apart for c in decided) else ""


_SHORT_WORDS = ("as fast", "as good", "faster", "better", "slower", "worse", "undecided")


def _short_word(c: Comparison) -> str:
    as_a = f"as {_adjectives(c.point)[0]}"
    return as_a if c.verdict == "equivalent" else verdict_word(c)


def verdict_word(c: Comparison) -> str:
    """The verdict as a word that fits the metric: `slower` for a time or rate, `worse` for anything else."""
    _, more, less = _adjectives(c.point)
    return {"faster": more, "slower": less}.get(c.verdict, c.verdict)


def answer(question: ComparedBenchmark) -> str:
    """The answer as a sentence, with its ratio and interval, or the range of its points' ratios."""
    if len(question.comparisons) == 1:
        return _single_answer(question.comparisons[0])
    return _combined_answer(question)


def _single_answer(c: Comparison) -> str:
    bound = in_two_sessions([c])
    claim = f"{bound.capitalize()}{_claim(c)}: {figures.compared(c)}"
    margin = f"±{figures.percent(c.margin)}"
    match c.verdict:
        case "equivalent":
            return f"{claim}, within {margin}."
        case "undecided":
            return f"{claim}{_why_open(c)}."
        case "faster" | "slower":
            alone = " taken alone" if c.family is not None and not c.by_margin else ""
            reach = f"by more than {margin}{alone}" if _outside(c) else f"possibly by less than {margin}"
            return f"{claim}, {reach}."


def evidence(question: ComparedBenchmark) -> str:
    """What the answer rests on: both means, n, the method, and what these runs detect or how many decide."""
    points = question.comparisons
    n = figures.runs([c.n for c in points])
    replicate = "session" if points[0].replication == "sessions" else "block"
    methods = {"paired": f"paired by {replicate}", "welch": "not paired", "linked": f"by common {replicate}s"}
    method = methods.get(points[0].method, "no interval")
    shown = visible(points)
    parts = [f"{n} runs{_in_sessions(points)}", method]
    if len(points) == 1:
        unit, (a, b) = figures.means(points)
        parts.insert(0, f"{a} and {b} {unit}".strip())
        if points[0].ratio.low is None:
            parts.append(points[0].reason)
    deciding = needed(points)
    if shown and not deciding:
        parts.append(f"smallest detectable difference {figures.span(min(shown), max(shown))}")
    parts += filter(None, [*_beside(points), deciding, looked_at([c.ratio for c in points])])
    beyond = " ".join(filter(None, (new_session(points), *allowances(points))))
    return ". ".join(filter(None, ("; ".join(parts), beyond)))


def allowances(comparisons: Iterable[Comparison]) -> list[str]:
    """What makes intervals wider than the spread of the runs does, each sentence once."""
    return list(dict.fromkeys(sentence for c in comparisons for sentence in c.allows_for))


def new_session(comparisons: Sequence[Comparison]) -> str:
    """Where the ratios of one more session will be; "" if sessions aren't what is replicated."""
    intervals = [c.new_session for c in comparisons if c.new_session is not None]
    lows, highs = (
        [e.low for e in intervals if e.low is not None],
        [e.high for e in intervals if e.high is not None],
    )
    if not lows or not highs:
        return ""
    ends = figures.interval(replace(intervals[0], low=min(lows), high=max(highs)), " and ")
    whose = "B/A" if len(intervals) == 1 else "each B/A"
    return f"In 95 of 100 cases, one more session of both sides has {whose} between {ends}."


def looked_at(estimates: Iterable[Estimate]) -> str:
    """How the intervals allow for interim looks at the runs, if there were any; else ""."""
    level = max((estimate.confidence for estimate in estimates), default=0.0)
    if level <= 0.95:
        return ""
    return f"checked while running: {100 * level:.3g} % intervals, so that 95 % hold over all planned looks"


def runs_behind(c: Comparison) -> str:
    """`6 of A and 5 of B`; also the number of sessions, if sessions are the unit of replication."""
    return f"{c.n[0]} of {c.a} and {c.n[1]} of {c.b}{_in_sessions([c])}"


def _in_sessions(points: Sequence[Comparison]) -> str:
    """The number of sessions, if sessions are the unit of replication; else ""."""
    counted = [c.sessions for c in points if c.replication == "sessions"]
    return f" in {figures.runs(counted)} sessions, each counted once" if counted else ""


def _beside(points: Sequence[Comparison]) -> list[str]:
    """Additions to a single comparison: the rank estimate, and its verdict without the correction."""
    if len(points) > 1:
        return []
    [c] = points
    additions = [] if c.rank is None else [f"by ranks {figures.ratio(c.rank)}"]
    if c.family is not None and c.family.alone != c.verdict:
        additions.append(f"{c.family.alone} if taken alone, not as one of {c.family.size} claims")
    return additions


def by_ranks(comparisons: Sequence[Comparison]) -> str:
    """How far the rank estimates are from the ratios, and the farthest of them; "" if there are none."""
    known = [(c, c.rank) for c in comparisons if c.rank is not None]
    if not known:
        return ""
    c, farthest = max(known, key=lambda pair: abs(math.log(pair[1].value / pair[0].ratio.value)))
    ratio = figures.ratio(farthest)
    if len(comparisons) == 1:
        return f"by ranks (Hodges–Lehmann) B/A is {ratio}"
    off = abs(farthest.value / c.ratio.value - 1)
    where = f"{c.point.benchmark} {figures.metric(c.point.metric)}, {figures.where(c.point)}"
    near = f"by ranks (Hodges–Lehmann) B/A is within {figures.percent(off)} of these"
    return f"{near}; farthest at {where}: {ratio}"


def requirement(held: Sequence[Requirement]) -> str:
    """One requirement over all places it applies to: `resnet50 throughput >= 20 images/s holds …`."""
    first = held[0]
    task = f"{first.point.benchmark} {figures.metric(first.point.metric)} {first.expectation.written}"
    if len(held) == 1:
        return f"{task} {_held(first.verdict)} {_stood(first)}: {_sentence(first.reason)}"
    groups = {v: [r for r in held if r.verdict == v] for v in ("holds", "fails", "undecided")}
    groups = {v: group for v, group in groups.items() if group}
    if len(groups) == 1:
        return f"{task} {_held(first.verdict)} at {all_of(len(held), 'place')}."
    worst = [(v, group) for v, group in groups.items() if v != "holds"]
    named = "; ".join(
        f"{_held(v)} {', '.join(map(_stood, group[:4]))}{_more(group, 4)}" for v, group in worst
    )
    holding = len(groups.get("holds", ()))
    return f"{task} holds at {holding} of {len(held)} places; it {named}."


def _held(verdict: str) -> str:
    return {"holds": "holds", "fails": "fails", "undecided": "is undecided"}[verdict]


def _stood(r: Requirement) -> str:
    return f"on {r.system} ({figures.where(r.point)})"


def _more(items: Sequence[object], shown: int) -> str:
    return f" and {len(items) - shown} more" if len(items) > shown else ""


def scaled(points: Sequence[tuple[Scaling, ScalingPoint]]) -> str:
    """What a larger shape gains on each system: `resnet50 on 2 workers …: 1.86 times …`."""
    curve, point = points[0]
    alike = len({figures.labels(c.labels) for c, _ in points}) == 1
    what = " ".join(filter(None, (curve.benchmark, figures.labels(curve.labels) if alike else "")))
    task, base = f"{what} on {figures.shape(point.shape)}", figures.shape(curve.points[0].shape)
    if len(points) > MOST_TOLD:
        speedups, shares = ([f(p) for _, p in points] for f in (_speedup_value, _efficiency_percent))
        return (
            f"{task} runs {min(speedups):.2f} to {max(speedups):.2f} times as fast as on {base}, "
            f"{min(shares):.0f} to {max(shares):.0f} % of ideal, over {len(points)} curves; "
            "the tables list each curve."
        )
    gains = "; ".join(
        f"{_times(p)} as fast on {name}, {_efficiency_percent(p):.0f} % of ideal"
        for name, p in ((c.system if alike else _curve_name(c), p) for c, p in points)
    )
    return f"{task} compared with {base}: {gains}."


def efficiency(points: Sequence[tuple[Scaling, ScalingPoint]]) -> str:
    """`93 %` or `88 to 97 %` of ideal."""
    shares = [_efficiency_percent(p) for _, p in points]
    least, most = f"{min(shares):.0f}", f"{max(shares):.0f}"
    return f"{least} %" if least == most else f"{least} to {most} %"


def scaling_evidence(points: Sequence[tuple[Scaling, ScalingPoint]]) -> str:
    """The number of runs behind each point and how the speed-up's interval was computed."""
    n = sorted({p.value.n for _, p in points})
    runs = counted(n[0], "run") if len(n) == 1 else f"{n[0]} to {n[-1]} runs"
    paired = all(p.method == "paired" for _, p in points)
    method = "sizes paired" if paired else "not paired"
    return "; ".join(filter(None, (f"{runs} each", method, looked_at([p.speedup for _, p in points]))))


def _curve_name(curve: Scaling) -> str:
    return " ".join(filter(None, (curve.system, figures.labels(curve.labels))))


def _speedup_value(point: ScalingPoint) -> float:
    return point.speedup.value


def _efficiency_percent(point: ScalingPoint) -> float:
    return point.efficiency.value * 100


def _times(point: ScalingPoint) -> str:
    interval = figures.interval(point.speedup)
    known = "no interval" if interval == figures.NONE else interval
    return f"{figures.ratio_value(point.speedup)} times ({known})"


def _claim(c: Comparison) -> str:
    """The verdict as a clause; for an undecided one, what the interval leaves open."""
    as_a, more, less = _adjectives(c.point)
    task = f"{c.point.benchmark} {figures.metric(c.point.metric)} on {figures.where(c.point)}"
    direction = ", where lower is better" if c.point.better == "lower" else ""
    match c.verdict:
        case "equivalent":
            return f"{c.b} is as {as_a} as {c.a} at {task}"
        case "undecided":
            return _left_open(c, task)
        case "faster":
            return f"{c.b} is {more} than {c.a} at {task}{direction}"
        case "slower":
            return f"{c.b} is {less} than {c.a} at {task}{direction}"


def _why_open(c: Comparison) -> str:
    """Why the verdict is open: others used the CPUs, or the metric has no direction; else ""."""
    if obstacle(c) == "no direction":
        return "; the metric has no declared direction"
    lost = lost_as_text(c.lost_to_others, (c.a, c.b))
    return f"; {lost}" if lost else ""


def _left_open(c: Comparison, task: str) -> str:
    """`b is as fast as a at … or slower`: within the margin in one direction, open in the other."""
    as_a, more, less = _adjectives(c.point)
    better = c.point.better
    stretched = allowing_for(c.lost_to_others, c.deciding, better)
    low, high = stretched.low, stretched.high
    if low is None or high is None or too_much(c.lost_to_others):
        return f"It is undecided whether {c.b} is as {as_a} as {c.a} at {task}"
    if better is None:
        return f"{c.b} may differ from {c.a} at {task}"
    less_open, more_open = low < 1 / (1 + c.margin), high > 1 + c.margin
    if better == "lower":
        less_open, more_open = more_open, less_open
    if less_open and more_open:
        return f"{c.b} may be {more} or {less} than {c.a} at {task}"
    return f"{c.b} is as {as_a} as {c.a} or {more if more_open else less} at {task}"


def _adjectives(point: Point) -> tuple[str, str, str]:
    return ("fast", "faster", "slower") if is_speed(point) else ("good", "better", "worse")


def _combined_answer(question: ComparedBenchmark) -> str:
    points = question.comparisons
    a, b = question.sides
    bare = Point(**{**question.point.__dict__, "labels": {}})
    task = f"{bare.benchmark} {figures.metric(bare.metric)} on {figures.where(bare)}"
    span = f"ratios {figures.ratio_span([c.ratio for c in points])}"
    verdicts = [c.verdict for c in points]
    if set(verdicts) == {"undecided"}:
        return f"{b} compared with {a} at {task}: undecided at {all_of(len(points), 'point')}, {span}."
    if len(set(verdicts)) == 1:
        return f"{_claim(replace(points[0], point=bare))}, at {all_of(len(points), 'point')}: {span}."
    verdict_words = [_short_word(c) for c in points]
    counts = [f"{word} at {verdict_words.count(word)}" for word in _SHORT_WORDS if word in verdict_words]
    return f"{b} compared with {a} at {task}: {', '.join(counts)} of {len(points)} points; {span}."


def _outside(c: Comparison) -> bool:
    """Whether its own, uncorrected interval lies entirely beyond the margin."""
    return surely_beyond(c.ratio, c.margin, c.point.better, c.lost_to_others)


def is_speed(point: Point) -> bool:
    """Whether the metric is a time or a rate (fast or slow); anything else is good or bad."""
    return point.unit.endswith("/s") or factor(point.unit)[1] == "s"


def _sentence(text: str) -> str:
    """The text with exactly one period at the end."""
    return text.strip().rstrip(".") + "."
