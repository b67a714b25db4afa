"""Whether something is still as good as its baseline, for CI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE
from assay.questions.compare import MARGIN, Compare, Margin
from assay.questions.question import RUNS, Answer, Question, Reference, argument, function, option, question
from assay.records import to_plain
from assay.units import counted
from assay.view.blocks import Lead, Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from assay.analyse.comparison.sides import OpenQuestion
    from assay.analyse.comparison.verdict import GateAnswer, GateVerdict
    from assay.records import Point, Result
    from assay.view.blocks import Block

MOST_NAMED = 4  # sessions of one side in one line
_EXIT_CODES: Mapping[GateAnswer, int] = {"holds": EXIT_OK, "worse": EXIT_WORSE, "undecided": EXIT_UNDECIDED}

BASELINE_FILE = "baseline.txt"  # in a session's directory: the reference that it is compared with


@question
class Gate(Question):
    """Check by exit code that A is no worse than its baseline, within a margin.

    A and B are runs as `assay show` shows them: `suite` is a suite's newest session, `suite/session` is that
    session, `suite:system` is all of a system's finished runs since the suite last changed; or an imported
    set. A may be better by any amount. Whether it is worse depends on 95 % intervals; with few runs the
    answer is "undecided".

    \b
    Examples:
      assay gate nightly --baseline nightly/2026-03-01T021500Z --margin 2%
      assay gate resnet50:new-driver --baseline resnet50:old-driver --junit gate.xml

    \b
    Exit codes: 0 holds; 1 worse by more than the margin; 3 undecided, or something was measured on only one
    side; 4 nothing to compare.
    """

    a: str = argument()
    baseline: str = option("What to compare A with.", metavar="B")
    margin: Margin | None = option(MARGIN, default=None)
    metric: str | None = option("Only this metric, instead of each benchmark's primary one.", default=None)
    junit: Path | None = option(
        "Write JUnit XML to this file: worse is a failure, undecided an error.", default=None, output=True
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> GateResult:
        """Each primary comparison, and the answer to all of them."""
        from assay.analyse.comparison.verdict import gate_verdict, overall

        compared = Compare(
            self.baseline, self.a, margin=self.margin, metric=self.metric, runs=self.runs
        ).comparisons()
        judged = tuple(map(gate_verdict, compared.primary))
        missing = tuple(
            (point, why)
            for point, why in compared.not_compared
            if compared.leading.get(point.benchmark) == point.metric
        )
        answer = overall(judged, len(missing) + len(compared.open))
        return GateResult(answer, judged, missing, compared.open, compared.margin, _sides(compared.sides))

    def write(self, answer: GateResult) -> GateResult:
        """The JUnit XML."""
        if self.junit is not None:
            from assay.durable import deliver
            from assay.view.junit import junit

            name = f"{self.a} compared with {self.baseline}"
            text = junit(name, answer.judged, answer.missing, answer.open)
            deliver(self.junit, text.encode(), option="--junit")
        return answer


gate = function(Gate, Gate.answer)


@dataclass(frozen=True)
class GateSide:
    """Where the runs of one side come from.

    name      as in the comparisons
    runs      number of runs that gave a result, of all benchmarks
    sessions  `suite/session` of each of their sessions, sorted by name
    """

    name: str
    runs: int
    sessions: tuple[str, ...]


@dataclass(frozen=True)
class GateResult(Answer):
    """The result of `gate`.

    answer   `holds`, `worse` or `undecided`
    judged   each primary comparison, with A as its B, and whether A is worse there by more than the margin
    missing  points of the primary metrics that one side lacks, each with the reason as text
    open     benchmarks without a verdict, although other metrics were compared
    margin   share that counts as equal: 0.02
    sides    the runs that were pooled, of the baseline and of A
    """

    answer: GateAnswer
    judged: tuple[GateVerdict, ...]
    missing: tuple[tuple[Point, str], ...]
    open: tuple[OpenQuestion, ...]
    margin: float
    sides: tuple[GateSide, ...] = ()

    @property
    def exit_code(self) -> int:
        """By the answer."""
        return _EXIT_CODES[self.answer]

    def view(self) -> Iterator[Block]:
        """The answer, then each comparison with its own, and what was pooled."""
        from assay.view import figures
        from assay.view.sentences import sentences

        comparisons = [verdict.comparison for verdict in self.judged]
        bound = " in these two sessions" if any(c.apart for c in comparisons) else ""
        answer = f"{self.answer}{bound} at a margin of {figures.percent(self.margin)}."
        reserved = sentences.reservations(sentences.questions(comparisons))
        yield Lead(f"{answer} {reserved}".rstrip())
        for verdict in self.judged:
            c = verdict.comparison
            n = f"n = {sentences.runs_behind(c)}"
            ratio = f"{c.b}/{c.a} {figures.compared(c)}"
            yield Paragraph(f"{verdict.answer}: {_place(c.point)}, {ratio}, {n}: {verdict.reason}")
        yield from (Paragraph(f"undecided: {open_question}") for open_question in self.open)
        yield from (Paragraph(f"undecided: {_place(point)}: {why}") for point, why in self.missing)
        yield from (Paragraph(_pooled(side)) for side in self.sides)
        if jointly := sentences.together(comparisons):
            rests = '"holds" rests on the interval taken alone, "worse" on the one for all claims.'
            yield Paragraph(f"{jointly} {rests}")
        if codes := sorted({doubt.code for c in comparisons for doubt in c.doubts}):
            yield Paragraph(f"doubts: {', '.join(codes)} (for details, run `assay compare`)")

    def document(self) -> dict[str, Any]:
        """The document `assay.gate/1`."""
        return {
            "schema": "assay.gate/1",
            "answer": self.answer,
            "margin": self.margin,
            "sides": to_plain(self.sides),
            "judged": [
                {"answer": v.answer, "reason": v.reason, "comparison": to_plain(v.comparison)}
                for v in self.judged
            ],
            "missing": [{"point": to_plain(point), "reason": why} for point, why in self.missing],
            "open": to_plain(self.open),
        }


def _place(point: Point) -> str:
    from assay.view import figures

    return f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"


def _pooled(side: GateSide) -> str:
    """`new: 6 runs in 2 sessions: nightly/2026-03-01T021500Z, nightly/2026-03-02T021500Z`."""
    named = side.sessions if len(side.sessions) <= MOST_NAMED else (side.sessions[0], "…", side.sessions[-1])
    pooled = f"{counted(side.runs, 'run')} in {counted(len(side.sessions), 'session')}"
    return f"{side.name}: {pooled}" + (f": {', '.join(named)}" if named else "")


def _sides(runs: Mapping[str, Sequence[Result]]) -> tuple[GateSide, ...]:
    counting = {name: [r.run for r in results if r.counts] for name, results in runs.items()}
    return tuple(
        GateSide(name, len(side), tuple(sorted({f"{run.suite}/{run.session}" for run in side})))
        for name, side in counting.items()
    )
