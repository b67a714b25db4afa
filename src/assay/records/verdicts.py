"""What it means: estimates with intervals, comparisons, and what speaks against a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assay.records.plain import Scalar
from assay.records.plans import Better, Expectation


@dataclass(frozen=True)
class Estimate:
    """An estimate with its interval; low and high are None if n does not allow one."""

    value: float
    low: float | None
    high: float | None
    n: int
    unit: str
    confidence: float = 0.95


DEFAULT_MARGIN = 0.02  # share that counts as equal by default

Verdict = Literal["equivalent", "faster", "slower", "undecided"]


@dataclass(frozen=True)
class Point:
    """What is held constant on both sides of a comparison: one metric at one point of the sweep."""

    benchmark: str
    shape: str
    metric: str
    unit: str
    better: Better | None
    labels: Mapping[str, Scalar]  # swept parameters and the measurement's own labels


@dataclass(frozen=True)
class RunsRange:
    """Runs per side that would decide; None stands for more than 10,000.

    about      at the run-to-run spread as estimated
    low, high  at the ends of that spread's 80 % interval
    """

    low: int | None
    about: int | None
    high: int | None


@dataclass(frozen=True)
class RunsNeeded:
    """How many runs per side, in total, would decide in 80 of 100 cases, whatever was seen so far.

    if_equal             for a true ratio of 1: to show `equivalent`
    if_twice_the_margin  for a true ratio of 1 + 2 margins: to show `faster` or `slower`
    spread               from one run to the next, as a share, that this rests on
    of                   what is counted: runs, or sessions if sessions are the unit of replication
    """

    if_equal: RunsRange
    if_twice_the_margin: RunsRange
    spread: float
    power: float
    of: Literal["runs", "sessions"] = "runs"


@dataclass(frozen=True)
class SizeCurve:
    """The curve over sizes that a comparison is one point of.

    sizes        of the curve, with an interval
    independent  equivalent number of independent claims, because errors are correlated; at most `sizes`
    """

    sizes: int
    independent: float


@dataclass(frozen=True)
class Family:
    """The correction for claiming several comparisons jointly.

    size        comparisons that are claimed jointly
    correction  how `ratio` allows for the others: `band` for a point of a curve
    ratio       interval that holds jointly with all others of the family in 95 % of cases
    alone       what the comparison's own interval shows
    """

    size: int
    correction: Literal["holm", "band", "bonferroni"]
    ratio: Estimate
    alone: Verdict


@dataclass(frozen=True)
class Comparison:
    """B compared with A at one point.

    ratio        geometric mean of B over that of A, in the metric's unit: below 1 is less, not worse
    n            runs of A and of B that count
    mean_b       if the method is `linked`, what B would give in the sessions of A
    method       `welch`, `paired`, or `linked`: by sessions that link stacks; "" without an interval
    verdict      of B relative to A, in the metric's better-direction
    reason       why the verdict is what it is, as text a person can act on
    by_margin    the verdict's whole interval is beyond the margin
    replication  what n of the interval are: runs, or sessions if a side has several
    sessions     of A and of B
    error        standard error of the logarithm of the ratio, with `degrees` of freedom
    runs_needed  only if the verdict is undecided and more runs could decide
    rank         the Hodges–Lehmann estimate with its exact interval, to be read next to the ratio
    family       if several comparisons are claimed jointly
    along        if it is one size of a curve
    apart        each side was measured in one session, and not in the same: the verdict is about these two
    new_session  where the ratio of one more session of both will be; None unless sessions are replicated
    allows_for   what makes the interval wider than the runs' spread does, and what to do about it: sentences
    shift        by which the ratio may be off, as a share, however many runs there are
    lost_to_others  share of their time that A and B may have lost to others on their CPUs, for which the
                 verdict allows; 0 if that was too little to matter or not counted
    """

    point: Point
    a: str
    b: str
    mean_a: float
    mean_b: float
    ratio: Estimate
    n: tuple[int, int]
    method: str
    margin: float
    verdict: Verdict
    reason: str
    smallest_visible: (
        float | None
    )  # half-width of the interval as a ratio − 1: the smallest detectable difference
    doubts: tuple[Doubt, ...] = ()
    by_margin: bool = False
    replication: Literal["runs", "sessions"] = "runs"
    sessions: tuple[int, int] = (0, 0)
    error: float | None = None
    degrees: float | None = None
    runs_needed: RunsNeeded | None = None
    rank: Estimate | None = None
    family: Family | None = None
    along: SizeCurve | None = None
    apart: bool = False
    new_session: Estimate | None = None
    allows_for: tuple[str, ...] = ()
    shift: float = 0.0
    lost_to_others: tuple[float, float] = (0.0, 0.0)

    @property
    def deciding(self) -> Estimate:
        """The ratio with the interval that the verdict rests on.

        `equivalent` rests on the comparison's own interval, whatever else is claimed; every other verdict on
        the interval that holds jointly with those of the family.
        """
        return self.ratio if self.family is None or self.verdict == "equivalent" else self.family.ratio


@dataclass(frozen=True)
class Requirement:
    """An absolute requirement checked against the runs of one system at one point: an acceptance test.

    estimate  geometric mean; each end of its interval, of 90 % or more, is a one-sided 95 % bound.
              None: nothing measured
    verdict   `holds` if the bound on the unfavorable side meets the requirement, `fails` if not even
              the favorable one does, else `undecided`
    """

    system: str
    point: Point
    expectation: Expectation
    estimate: Estimate | None
    verdict: Literal["holds", "fails", "undecided"]
    reason: str
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class ScalingPoint:
    """One size of a scaling curve.

    value       geometric mean over the runs, with its 95 % interval, in the metric's unit
    speedup     relative to the smallest size, above 1 is faster (a time is inverted); unit ""
    efficiency  speed-up divided by the ratio of ranks; 1 is ideal
    method      of the speed-up's interval: `welch` or `paired`; "" without an interval

    The smallest size itself has speed-up and efficiency 1 by definition, without an interval.
    """

    shape: str
    ranks: int
    value: Estimate
    speedup: Estimate
    efficiency: Estimate
    method: str
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class Scaling:
    """A metric of one system over sizes, smallest first; the others are compared with `points[0]`."""

    system: str
    benchmark: str
    metric: str
    unit: str
    better: Better
    labels: Mapping[str, Scalar]
    points: tuple[ScalingPoint, ...]


Severity = Literal["invalid", "biased", "weak", "note"]

SEVERITIES: dict[Severity, str] = {
    "invalid": "the result or the claim is probably wrong",
    "biased": "the result may be shifted in one direction",
    "weak": "the claim is narrower or less certain than it looks",
    "note": "for your information; nothing speaks against the result",
}
"""Each severity, the gravest first, with its meaning."""

Subject = Literal["runs", "sides", "machines", "meanwhile", "network", "training", "inference"]

SUBJECTS: dict[Subject, str] = {
    "runs": "The runs",
    "sides": "Two sides, several sizes",
    "machines": "The machines, and what they can do",
    "meanwhile": "On the nodes, during the runs",
    "network": "Between two nodes",
    "training": "Training logs and published scores",
    "inference": "Inference runs",
}
"""Each subject that doubts can be about, with its title."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to take a result at face value: code, evidence, and remedy."""

    code: str
    evidence: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class DoubtKind:
    """What doubts of one kind have in common.

    code     its name, as in `assay explain CODE`
    means    what was found, and when the doubt is raised
    effect   its possible effect on the result
    remedy   what to do
    rates    for a test: how often it is a false alarm, and what it can detect; "" for a fact
    """

    code: str
    subject: Subject
    severity: Severity
    means: str
    effect: str
    remedy: str
    rates: str = ""

    def doubt(self, evidence: str, *rewordings: tuple[str, str]) -> Doubt:
        """A doubt of this kind; its remedy has no period at the end.

        rewordings  a phrase of the remedy, and its replacement in this case: ("the smaller size", "1x4")

        Raises ValueError if the remedy does not contain such a phrase.
        """
        remedy = self.remedy.removesuffix(".")
        for phrase, replacement in rewordings:
            if phrase not in remedy:
                raise ValueError(f"the remedy of {self.code} does not contain {phrase!r}")
            remedy = remedy.replace(phrase, replacement)
        return Doubt(self.code, evidence, remedy)
