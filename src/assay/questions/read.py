"""What logs say, at once: nothing needs a name, and nothing is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_OK, EXIT_WORSE, InputError, Problem
from assay.questions.evidence import RunSet, runs_directory, updated
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    function_of_many,
    option,
    progress_line,
    question,
)
from assay.units import counted, human
from assay.view.blocks import Doubts, Fold, Lead, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from assay.analyse.sweeps.verdicts import Nodes, SweepVerdicts
    from assay.questions.import_ import Imported
    from assay.questions.logs_at_once import LogReader, ReadLog
    from assay.view.blocks import Block

NAME = "logs"  # of the set that the runs are in, which nothing keeps
MOST_SHOWN = 8  # rows of a table on the first screen


@question
class Read(Question):
    """Read logs and say what they show: figures, slow hosts, the faster system. Nothing is kept.

    PATHs are logs in any format that `assay import` knows, folders and archives (tar, zip) of them, or - for
    standard input. Logs of several hosts show which are slow; of several systems, or several folders, how
    they compare; of several sizes of a job, how it scales; of several message sizes, the curve. A host is
    what the logs name, otherwise a file or folder that is named after it.

    \b
    Examples:
      assay read all_reduce.log
      mpirun … all_reduce_perf -b 8 -e 8G | assay read -
      assay read burn-in/               which of the hosts is slow
      assay read before/ after/         whether it became slower
      assay read results.tar.gz --keep cluster && assay compare cluster

    \b
    Exit codes: 0 read; 1 something is slow, or a log is no result; 3 a comparison is undecided; 4 no log
    could be read.
    """

    all_help = "Show every file and figure, and the doubts in full."

    paths: tuple[Reference, ...] = argument(metavar="PATH…", parameters=("path", "paths"))
    keep: str | None = option(
        "Also keep the runs as the set NAME, as `assay import` does.", default=None, metavar="NAME"
    )
    runs: Reference | None = option(RUNS, default=None, local=True)
    tell: Callable[[int, str], None] | None = progress_line(
        lambda files, name: f"{counted(files, 'file')} read; {name}", default=None
    )

    def answer(self) -> LogsRead:
        """What the logs say. Raises InputError if none could be read, with every reason."""
        from assay.questions.logs_at_once import read_at_once

        with read_at_once([str(path) for path in self.paths], self.tell) as logs:
            if not logs.read:
                raise InputError(logs.problems or [Problem("", "there is no log here")])
            imported = None if self.keep is None else self._kept(self.keep, logs)
        return LogsRead(tuple(logs.read), tuple(logs.problems), tuple(logs.notes), imported)

    def _kept(self, name: str, logs: LogReader) -> Imported:
        from assay.formats.logged import Stated
        from assay.questions.import_ import Imported, kept_logs

        directory = runs_directory(self.runs)
        sessions = kept_logs(logs.sources, directory, name, Stated(), named=logs.named)
        return Imported(tuple(sessions), updated(directory))


read_logs = function_of_many(Read, Read.answer)


@dataclass(frozen=True)
class LogsRead(Answer):
    """The result of `read_logs`.

    logs      each run that a log is of, with or without a result
    problems  files that could not be read
    left_out  what else was there
    imported  what was kept; None if nothing was to be
    """

    logs: tuple[ReadLog, ...]
    problems: tuple[Problem, ...]
    left_out: tuple[str, ...]
    imported: Imported | None

    @cached_property
    def judgement(self) -> SlowHosts | Answer:
        """Which hosts are slow, how systems compare, how a job scales; else the figures with their doubts."""
        from assay.analyse.comparison.sides import are_ranked
        from assay.analyse.judgement import ranking_with_doubts
        from assay.analyse.rankings import rankings
        from assay.questions.compare import Compare, Rankings
        from assay.questions.scale import Scale
        from assay.questions.show import RunDetails

        if verdicts := self._hosts():
            return verdicts
        runs = RunSet(NAME, tuple(log.result for log in self.logs), None)
        systems = runs.by_system()
        if are_ranked(systems, None) and (ranked := tuple(rankings(systems, runs.metrics()))):
            return Rankings(tuple(map(ranking_with_doubts, ranked)))
        try:
            if len(systems) > 1:
                return Compare(NAME).between(runs)
            if len({str(log.result.run.trial.shape) for log in self.logs}) > 1:
                return Scale((NAME,)).of_sets([runs])
        except InputError:  # they have nothing in common: each is shown
            pass
        return RunDetails(runs, ())

    def _hosts(self) -> SlowHosts | None:
        """What the hosts' figures show, if several hosts ran the same, on one system."""
        from assay.analyse.points.groups import SIZE
        from assay.analyse.sweeps.nodes import MOST_QUESTIONS
        from assay.analyse.sweeps.verdicts import SweepFigure, SweepSession, judge_sweep
        from assay.records import Point

        good = [log for log in self.logs if log.host and log.headline is not None]
        if len({log.system for log in self.logs}) > 1 or len({log.host for log in good}) < 2:
            return None
        figures: dict[str, SweepFigure] = {}
        for log in good:
            trial, headline = log.result.run.trial, log.headline
            if headline is None or log.better is None or not headline.value > 0:
                continue
            labels = {name: value for name, value in headline.labels.items() if name == SIZE}
            shape = str(trial.shape)
            point = Point(trial.benchmark, shape, headline.metric, headline.unit, log.better, labels)
            figure = figures.setdefault(f"{point.benchmark} {shape}", SweepFigure(point, log.better, {}))
            if figure.point == point:
                figure.values.setdefault(log.host, []).append(headline.value)
        several = {name: figure for name, figure in figures.items() if len(figure.values) > 1}
        if not 0 < len(several) <= MOST_QUESTIONS:
            return None
        hosts = {host: (host,) for figure in several.values() for host in figure.values}
        return SlowHosts(judge_sweep(SweepSession(NAME, several, hosts), None, (), hosts=hosts))

    @property
    def failed(self) -> list[ReadLog]:
        """Logs that are no result."""
        return [log for log in self.logs if log.problem]

    @property
    def exit_code(self) -> int:
        """1 if something is slow or a log is no result; else that of the comparison."""
        return EXIT_WORSE if self.failed else self.judgement.exit_code

    @property
    def notes(self) -> Sequence[str]:
        """What could not be read, was left out, or was kept."""
        kept = [] if self.imported is None else [f"kept: {s.session.id}" for s in self.imported.sessions]
        problems = [str(problem) for problem in self.problems]
        if len(problems) > MOST_SHOWN:
            problems = [*problems[:MOST_SHOWN], f"and {len(problems) - MOST_SHOWN} more could not be read"]
        return [*problems, *self.left_out, *kept]

    def view(self) -> Iterator[Block]:
        """The answer, the files, and what the judgement says in full."""
        yield Lead(self._summary(), "slower" if self.exit_code == EXIT_WORSE else "strong")
        order = self.judgement.order if isinstance(self.judgement, SlowHosts) else {}
        logs = sorted(self.logs, key=lambda log: (not log.problem, order.get(log.host, 0)))
        shared = os.path.commonprefix([log.file for log in logs])  # noqa: RUF071 - cut at a slash
        folder, more = shared[: shared.rfind("/") + 1], len(logs) - MOST_SHOWN
        yield Fold(
            (_files([log.row(folder, short=True) for log in logs[:MOST_SHOWN]]),),
            (_files([log.row() for log in logs]), *self.judgement.view()),
            f"{counted(more, 'more file')}, every figure and every doubt"
            if more > 0
            else "Every figure and doubt",
        )
        yield from self._doubts()

    def _summary(self) -> str:
        """One or two sentences."""
        from assay.questions.compare import Comparisons, Rankings
        from assay.questions.scale import ScalingCurves
        from assay.view import verdicts
        from assay.view.sentences import ranking
        from assay.view.sentences import scaling as scaling_words

        judgement, bad = self.judgement, len(self.failed)
        lacking = (
            f" {bad} of {counted(len(self.logs), 'log')} {'is' if bad == 1 else 'are'} no result."
            if bad
            else ""
        )
        if isinstance(judgement, SlowHosts):
            return judgement.sentences() + lacking
        if isinstance(judgement, Comparisons) and (judgement.primary or judgement.open):
            return verdicts.advice(judgement.primary, open_questions=judgement.open).text + lacking
        if isinstance(judgement, Rankings):
            first, left = judgement.rankings[:2], len(judgement.rankings) - 2
            more = f" {counted(left, 'more benchmark')} with --all." if left > 0 else ""
            return " ".join(map(ranking.headline, first)) + more + lacking
        if isinstance(judgement, ScalingCurves):
            return scaling_words.lead(judgement.studies[0]) + lacking
        return self._figures() + (lacking if len(self.logs) > 1 else "")

    def _figures(self) -> str:
        """What the logs of one system say, without a judgement."""
        first = next((log for log in self.logs if not log.problem), None)
        if first is None:
            return f"{self.logs[0].file} is no result: {self.logs[0].problem}."
        if len(self.logs) == 1:
            where = f" on {first.place}" if first.place else ""
            return f"{first.format} measured {first.figure}{where}. One run does not show how much it varies."
        kinds = list(dict.fromkeys(log.format for log in self.logs))
        many = f"{len(self.logs)} logs of {', '.join(kinds) if len(kinds) < 4 else f'{len(kinds)} programs'}"
        if len({log.result.run.trial.benchmark for log in self.logs}) > 1:
            return f"{many}, of different things, so none is compared with another."
        return f"{many}, of one system; the first measured {first.figure}."

    def _doubts(self) -> Iterator[Block]:
        from assay.analyse.doubts.design import TOO_FEW_RUNS
        from assay.questions.show import RunDetails
        from assay.view.sentences.exchange import describe_curve

        if isinstance(self.judgement, RunDetails):
            details = self.judgement
            curves = [curve for system in details.systems for curve in system.exchanges]
            for curve in curves[:1]:
                yield Paragraph(f"{curve.benchmark} {curve.shape}: {describe_curve(curve)}.")
            # that one run says little is the first sentence
            grave = [d for d in details.doubts if len(self.logs) > 1 or d[0].code != TOO_FEW_RUNS.code]
            yield Fold((Doubts(tuple(grave[:3]), details.points, brief=True),), (), "")

    def document(self) -> dict[str, Any]:
        """The document `assay.read/1`."""
        return {
            "schema": "assay.read/1",
            "answer": self._summary(),
            "logs": [log.document() for log in self.logs],
            "problems": [{"file": problem.where, "reason": problem.what} for problem in self.problems],
            "left_out": list(self.left_out),
            "judgement": self.judgement.document(),
            "kept": None if self.imported is None else self.imported.document()["sessions"],
        }


@dataclass(frozen=True)
class SlowHosts(Answer):
    """Which hosts are slow, among those whose logs are of the same."""

    verdicts: SweepVerdicts

    @property
    def exit_code(self) -> int:
        """1 if a host is slow."""
        return EXIT_WORSE if self.verdicts.slow else EXIT_OK

    def sentences(self) -> str:
        """Who is slow and by how much; how sure that is."""
        from assay.analyse.statistics.outliers import FALSE_ALARM
        from assay.view import figures

        sure = f"{figures.percent(FALSE_ALARM)} of sets of healthy hosts report a false one."
        if slow := [
            _slow(measured) for measured in self.verdicts.nodes if measured.slow or measured.slow_group
        ]:
            return " ".join([*slow, sure])
        measured = next((nodes for nodes in self.verdicts.nodes if nodes.judged), self.verdicts.nodes[0])
        slowest = measured.crowd.standings[0]
        least = f"{slowest.node} is the slowest, at {slowest.ratio:.3f} of {_median(measured)}"
        if measured.judged:
            return f"No host is slow: {least}. {sure}"
        return f"{least}. No host is called slow or healthy: {measured.crowd.reason}."

    @property
    def order(self) -> dict[str, int]:
        """Each host's place, the slowest first."""
        nodes = [standing.node for measured in self.verdicts.nodes for standing in measured.crowd.standings]
        return {node: place for place, node in enumerate(dict.fromkeys(nodes))}

    def view(self) -> Iterator[Block]:
        """Each measurement: its hosts, the slowest first, and what loss it can show."""
        from assay.view.sentences.sweep import about

        for measured in self.verdicts.nodes:
            yield _hosts_table(measured)
            yield Paragraph("; ".join(about(measured.crowd)) + ".", "dim")

    def document(self) -> dict[str, Any]:
        """As of a sweep that was judged."""
        from assay.questions.sweep import judged_sweep_document

        return judged_sweep_document(NAME, self.verdicts)


def _median(measured: Nodes) -> str:
    hosts, unit = counted(len(measured.crowd.standings), "host"), measured.point.unit
    return f"the median of {hosts}, {human(measured.crowd.median, unit)}"


def _slow(measured: Nodes) -> str:
    """Which hosts are slow in one measurement, and how slow."""
    if group := measured.slow_group:
        return f"A group of hosts is slow, at {group.ratio:.2f} of the others: {', '.join(group.nodes)}."
    ratios = [standing.ratio for standing in measured.crowd.standings if standing.slow]
    span = f"{ratios[0]:.3f}" + (f" to {ratios[-1]:.3f}" if len(ratios) > 1 else "")
    verb = "is" if len(ratios) == 1 else "are"
    return f"{', '.join(measured.crowd.slow)} {verb} slow: {span} of {_median(measured)}."


def _hosts_table(measured: Nodes) -> Table:
    rows = tuple(
        TableRow(
            (standing.node, f"{standing.ratio:.3f}", str(standing.runs), "slow" if standing.slow else "")
        )
        for standing in measured.crowd.standings
    )
    median = human(measured.crowd.median, measured.point.unit)
    title = f"{measured.point.benchmark} {measured.point.metric.replace('_', ' ')}"
    body = TableBody(title, rows, f"the median is {median}")
    return Table("", ("host", "of the median", "runs", ""), (body,), frozenset({0, 3}))


def _files(rows: Sequence[TableRow]) -> Table:
    columns = ("file", "format", "machine", "figure")
    return Table("", columns, (TableBody("", tuple(rows)),), frozenset(range(len(columns))))
