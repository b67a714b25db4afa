"""Which of several commands is better, by any figure that they print."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from assay.errors import EXIT_OK, EXIT_UNDECIDED, InputError
from assay.questions.compare import Compare, Comparisons, Margin
from assay.questions.evidence import reindex, runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function,
    option,
    progress_line,
    question,
    read_value,
)
from assay.units import counted, margin_of, percent, seconds
from assay.view.blocks import Lead, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.questions.printed_figures import PrintedFigure
    from assay.questions.try_commands import Variant
    from assay.questions.try_runs import FirstRun
    from assay.records import Comparison, Estimate
    from assay.run.interim_looks import Look
    from assay.view.blocks import Block, Tone

Duration = Annotated[str | float, Reads(seconds, "TIME")]
_SHORTEST_LIMIT_S = 10.0
_FROM_HERE_NO_SPEED = 2  # rank of figures that are neither rates nor times
_MANY_TIMES = 2.0  # a larger ratio isn't told in percent
_GRAVE = ("invalid", "biased")


@question
class Try(Question):
    """Compare commands by a figure that they print, or by their time, until it is decided which is better.

    Braces outside quotes are alternatives; --vs names another command. No shell takes part unless you write
    `sh -c '…'`. Each command first runs once, to find its figure: that of a known program; else the one rate
    or time in lines such as `samples/s: 9,477.7`; else how long the command takes. Then all run in turns, in
    shuffled rounds, until each is decided against the first, or for --max-time. Intervals allow for every
    look (95 % hold at all of them jointly), so that stopping early does not mislead more often.

    \b
    Examples:
      assay try 'python train.py --batch {16,64}'
      assay try 'python train.py' --vs 'python train.py --compile' --figure loss
      assay try './bench {a,b}' --pattern 'result: {value} points' --better higher
      assay try 'python train.py --workers {2,4,8}' --on lab --max-time 20min --save my-suite

    The runs are ordinary ones: compare, show and report take them, and after Ctrl-C the same command resumes.
    --save writes a suite of exactly this, for `assay run`.

    \b
    Exit codes: 0 decided; 1 a run failed; 3 undecided; 4 a command or an option can't be used as it is, or
    no such figure is printed; 5 the system can't be used; 130 stopped by Ctrl-C.
    """

    command: str = argument(metavar="COMMAND")
    vs: str | tuple[str, ...] = option(
        "Another command to compare; repeatable.", default=(), metavar="COMMAND"
    )
    figure: str | None = option(
        "The figure, by its name, or wall_time. [default: the one that is found]",
        default=None,
        metavar="NAME",
    )
    pattern: str | None = option(
        "The line with the figure, such as 'samples/s: {value}'.", default=None, metavar="LINE"
    )
    better: Literal["higher", "lower"] | None = option(
        "Which direction is better, if neither name nor unit shows it.", default=None
    )
    margin: Margin | None = option("Difference that counts as equal, such as 2%. [default: 2%]", default=None)
    max_time: Duration = option(
        "For all runs together, such as 90s; a round that has begun is completed. [default: 5min]",
        default=300.0,
    )
    on: str | None = option("Where to run. [default: this machine]", default=None, metavar="SYSTEM")
    systems: Reference | None = option(
        "File with the system. [default: systems.yaml here]", default=None, metavar="FILE", local=True
    )
    save: Reference | None = option(
        "Also write suite.yaml and systems.yaml to this directory.", default=None, metavar="DIR", local=True
    )
    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Callable[[str], None] | None = progress_line(lambda text: text, default=None)

    def __post_init__(self) -> None:
        if self.figure is not None and self.pattern is not None:
            raise ValueError("--figure names a figure, --pattern its line: use one of them")

    def answer(self) -> TrialVerdict:
        """The verdict. Raises AssayError as soon as a run fails, with its last lines."""
        from assay.questions import try_runs
        from assay.questions.printed_figures import of_pattern
        from assay.questions.try_commands import variants_of

        began, max_time_s = time.monotonic(), seconds(self.max_time)
        if not max_time_s > 0:
            raise InputError("--max-time: must be more than 0, such as 5min")
        margin = read_value("margin", self.margin, margin_of)
        variants = variants_of((self.command, *((self.vs,) if isinstance(self.vs, str) else self.vs)))
        if self.save is not None:
            _check_saved([variant.argv for variant in variants])
        labels, runs_dir = {v.name: v.label for v in variants}, runs_directory(self.runs)
        report = self.progress or (lambda _text: None)
        files = try_runs.trial_files(variants, try_runs.system_entry(self.on, self.systems), margin)
        by_pattern = None if self.pattern is None else of_pattern(self.pattern)
        if by_pattern is not None:
            try_runs.check_figure(by_pattern, ())
        first, remove_first = try_runs.first_runs(files, labels, runs_dir, max_time_s, report)
        figure = by_pattern or self._found(first)
        try_runs.check_figure(figure, first)
        figure = self._directed(figure)
        remove_first()
        durations_s = [run.duration_s for run in first]
        limit_s = min(max_time_s, max(_SHORTEST_LIMIT_S, 5 * max(durations_s)))
        files = try_runs.with_figure(files, figure, limit_s)
        if self.save is not None:
            files.write(Path(self.save))
        spent_s = time.monotonic() - began
        counted_share = min(1.0, sum(durations_s) / spent_s)  # the limit counts the programs' own time
        left_s = max(max_time_s - spent_s, 0.001) * counted_share
        completed = try_runs.rounds_until_decided(
            files, labels, runs_dir, left_s, began + max_time_s, report, shlex.split(self.as_command())
        )
        session = completed.session
        reindex(runs_dir, {session.id})
        comparisons = Compare(session.id, runs=runs_dir).comparisons()
        assert completed.look is not None
        return TrialVerdict(
            variants, figure, session.id, str(session.path), comparisons, completed.look, self.save
        )

    def _found(self, first: Sequence[FirstRun]) -> PrintedFigure:
        """What to compare, from the first run of each command."""
        from assay.questions.printed_figures import chosen, printed_figures

        return chosen([printed_figures(run.log) for run in first], self.figure)

    def _directed(self, figure: PrintedFigure) -> PrintedFigure:
        """The figure with the direction that is better. Raises InputError if nothing shows it."""
        better = self.better or figure.better
        if better is None:
            raise InputError(f"{figure.name}: add --better higher or --better lower: nothing shows which is")
        metric = {**figure.metric, "better": better} if figure.metric else {}
        return replace(figure, better=better, metric=metric)


try_ = function(Try, Try.answer)


@dataclass(frozen=True)
class TrialVerdict(Answer):
    """The result of `try_`.

    variants     the commands; the others are compared with the first
    figure       by which they are compared
    session      their runs, `suite/session`, in the directory `path`
    comparisons  as of `compare`
    look         the last look at the runs, and why it was the last
    saved        where the suite was written
    """

    variants: Sequence[Variant]
    figure: PrintedFigure
    session: str
    path: str
    comparisons: Comparisons
    look: Look
    saved: Reference | None = None

    @property
    def exit_code(self) -> int:
        """Whether all is decided."""
        return EXIT_UNDECIDED if self.look.open else EXIT_OK

    def view(self) -> Iterator[Block]:
        """The verdict in a sentence, its figures, what to do next."""
        yield Lead(self.headline, self.tone)
        if reason := self.why_open:
            yield Paragraph(reason)
        if self.comparisons.primary:
            yield self._table()
        if self.figure.metric.get("pick"):
            yield Paragraph(f"{self.figure.name}: of each run, the median of what it prints", "dim")
        if grave := _grave_doubts(self.comparisons.primary):
            yield Paragraph(f"In doubt: {', '.join(grave)}; assay explain CODE says what to do.", "biased")
        suite = f"assay run {self.saved}/suite.yaml --until decided"
        again = "the same command with --save DIR writes it as a suite"
        yield Paragraph(f"More: assay compare {self.session} --all", "dim", wraps=False)
        yield Paragraph(f"Next: {again if self.saved is None else suite}", "dim", wraps=False)

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        primary = self.comparisons.primary
        if not primary:
            return f"Undecided: {'; '.join(self.look.open)}"
        if len(primary) == 1:
            return self._sentence(primary[0])
        better, worse, same = self._words
        relations = {"faster": better, "slower": worse, "equivalent": same, "undecided": "undecided"}
        parts = [
            f"{word}: {', '.join(named)}"
            for verdict, word in relations.items()
            if (named := dict.fromkeys(self._label_of(c) for c in primary if c.verdict == verdict))
        ]
        return f"Compared with {self.variants[0].label}, {'; '.join(parts)}"

    def document(self) -> dict[str, Any]:
        """The document `assay.try/1`."""
        compared = self.comparisons.document()
        return {
            "schema": "assay.try/1",
            "session": self.session,
            "path": self.path,
            "headline": self.headline,
            "figure": {"name": self.figure.name, "better": self.figure.better, **self.figure.metric},
            "variants": [
                {"name": variant.name, "label": variant.label, "argv": list(variant.argv)}
                for variant in self.variants
            ],
            "rounds": self.look.blocks,
            "looks": list(self.look.looks),
            "ended": self.look.ended,
            "open": list(self.look.open),
            "margin": self.comparisons.margin,
            "comparisons": [c for c in compared["comparisons"] if c["primary"]],
        }

    @property
    def _is_speed(self) -> bool:
        return self.figure.rank < _FROM_HERE_NO_SPEED

    @property
    def tone(self) -> Tone:
        """Of the headline: the verdict, if there is one for all."""
        verdicts = {c.verdict for c in self.comparisons.primary}
        return verdicts.pop() if len(verdicts) == 1 else "strong"

    def _label_of(self, c: Comparison) -> str:
        from assay.view import figures

        label = next(variant.label for variant in self.variants if variant.name == c.b)
        return f"{label} {figures.labels(c.point.labels)}".strip()

    def _sentence(self, c: Comparison) -> str:
        """One verdict, with its interval."""
        from assay.analyse.comparison.verdict import too_much

        a, b, gain = self.variants[0].label, self._label_of(c), _gain(c)
        if not self._is_speed:
            a, b = f"that of {a}", f"{self.figure.name} of {b}"
        if too_much(c.lost_to_others):
            return f"Undecided whether {b} is {self._words[0]} than {a}: others used the machine"
        if gain.low is None or gain.high is None:
            return f"Undecided: the runs of {b} and {a} give no interval"
        low, high = self._side(gain.low, gain), self._side(gain.high, gain)
        if c.verdict == "undecided":
            return f"Undecided: {b} can be anything from {low} to {high}, compared with {a}"
        if c.verdict == "equivalent":
            return f"{b} is {self._words[2]} as {a}, within {percent(c.margin)} ({low} to {high})"
        than = "as" if gain.value >= _MANY_TIMES else "than"
        return f"{b} is {self._side(gain.value, gain)} {than} {a} ({low} to {high})"

    def _side(self, ratio: float, gain: Estimate) -> str:
        """`18 % faster`, `4 % slower`, `16 times as fast`."""
        better, worse, same = self._words
        if ratio >= _MANY_TIMES:
            return f"{ratio:.2g} times {same}"
        return f"{_percent(abs(ratio - 1), gain)} {better if ratio >= 1 else worse}"

    @property
    def _words(self) -> tuple[str, str, str]:
        return ("faster", "slower", "as fast") if self._is_speed else ("better", "worse", "as good")

    @property
    def why_open(self) -> str:
        """Why it is undecided, and what would decide it; "" if it is decided."""
        from assay.analyse.comparison.verdict import obstacle, too_much

        undecided = [c for c in self.comparisons.primary if c.verdict == "undecided"]
        if not undecided:
            return ""
        first = undecided[0]
        if too_much(first.lost_to_others) or obstacle(first) == "lost time":
            share = max(first.lost_to_others)
            held = f"Others on its CPUs may have held one side back by up to {percent(share)}"
            return f"{held}. More runs won't help; an idle machine will."
        if self.look.ended == "time is up":
            return (
                f"The time was up after {counted(self.look.blocks, 'round')}; the same command with a longer "
                f"--max-time goes on from there.{_would_decide(first)}"
            )
        if self.look.ended == "most blocks":
            return (
                f"{self.look.blocks} rounds are the most for one test: let each command run longer, or "
                f"accept a wider --margin.{_would_decide(first)}"
            )
        return f"{first.reason[:1].upper()}{first.reason[1:]}."

    def _table(self) -> Table:
        from assay.view import figures
        from assay.view.sentences.sentences import SYMBOLS

        primary = self.comparisons.primary
        unit, texts = figures.means(primary)
        rows = []
        for number, (c, a, b) in enumerate(zip(primary, texts[::2], texts[1::2], strict=True)):
            gain, interval = _gain(c), "no interval"
            if gain.low is not None and gain.high is not None:
                interval = f"{_signed(gain.low, gain)} to {_signed(gain.high, gain)}"
            if number == 0 or c.point.labels != primary[number - 1].point.labels:
                rows.append(TableRow((self.variants[0].label, a, "", "", str(c.n[0]), "")))
            cells = (self._label_of(c), b, _signed(gain.value, gain), interval, str(c.n[1]))
            rows.append(TableRow((*cells, f"{SYMBOLS[c.verdict]} {c.verdict}"), c.verdict))
        measured = self.figure.name if unit in ("", self.figure.name) else f"{self.figure.name}, {unit}"
        gained = "faster by" if self._is_speed else "better by"
        columns = ("", measured, gained, "95 % interval", "runs", "")
        return Table("", columns, (TableBody("", tuple(rows)),), frozenset({0, 5}), verdicts=5)


def _check_saved(commands: Sequence[Sequence[str]]) -> None:
    """Raises InputError if an argument would be a secret in a file."""
    from assay import redact

    hidden = [word for argv in commands for word in redact.redacted(list(argv)) if redact.REDACTED in word]
    if hidden:
        raise InputError(
            f"--save: {', '.join(dict.fromkeys(hidden))} is secret; let the program read it from a variable "
            "of the system instead: docs/how-to/secrets.md"
        )


def _gain(c: Comparison) -> Estimate:
    """The ratio of which more is better, with its interval."""
    ratio = c.deciding
    if c.point.better != "lower":
        return ratio
    low, high = (None if end is None else 1 / end for end in (ratio.high, ratio.low))
    return replace(ratio, value=1 / ratio.value, low=low, high=high)


def _percent(share: float, gain: Estimate) -> str:
    """A share as text, with the digits that the interval's width allows."""
    width = 1.0 if gain.low is None or gain.high is None else gain.high - gain.low
    return f"{100 * share:.{0 if width >= 0.02 else 1 if width >= 0.002 else 2}f} %"


def _signed(ratio: float, gain: Estimate) -> str:
    """`+18 %`, `−4 %`, `×16`."""
    if ratio >= _MANY_TIMES:
        return f"×{ratio:.2g}"
    text = _percent(abs(ratio - 1), gain)
    return f"{'+' if ratio >= 1 else '−'}{text}" if text.strip("0. %") else text


def _would_decide(c: Comparison) -> str:
    """How many rounds would decide it if the sides are equal; "" if that is unknown."""
    about = None if c.runs_needed is None else c.runs_needed.if_equal.about
    return "" if about is None else f" About {about} rounds would show that they are equal."


def _grave_doubts(comparisons: Sequence[Comparison]) -> list[str]:
    from assay.analyse.doubts import KINDS

    codes = {doubt.code for c in comparisons for doubt in c.doubts}
    return sorted(code for code in codes if KINDS[code].severity in _GRAVE)
