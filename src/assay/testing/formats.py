"""What every reader of a program's logs promises, as tests, whatever falls into them.

A test file of a format inherits `ReaderContract` and keeps what is special to its program.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.formats.figures import LogFigures
from assay.formats.tool_log import TOOL_LOG, ToolLogParams
from assay.formats.tools import TOOLS, read_log, tools_of
from assay.questions.import_ import import_
from assay.read import result
from assay.records import Reading, RunState
from assay.testing.dressed_logs import OF_SEVERAL_LINES, SURE, UNKNOWN
from assay.units import factor
from assay.workloads import WORKLOADS

Read = Callable[[str], LogFigures]
NO_FIGURES = ("9" * 400, "1e999", "1e308", "nan", "inf", "-0")
inherited = settings(suppress_health_check=[HealthCheck.differing_executors], deadline=None)


def values(log: LogFigures, metric: str, **labels: object) -> list[float]:
    """The figures of a metric that have these labels, in the log's order."""
    return [f.value for f in log.figures if f.metric == metric and labels.items() <= f.labels.items()]


def figures(log: LogFigures) -> Counter[tuple[object, ...]]:
    """Its figures wherever they stand."""
    return Counter(
        (f.metric, f.value, f.unit, repr(sorted(f.labels.items())), repr(sorted(f.at.items())))
        for f in log.figures
    )


def _with_other_figures(log: str) -> str:
    """The log with the last digit of each decimal number changed."""
    return re.sub(r"(\d\.\d*)(\d)(?!\d)", lambda number: f"{number[1]}{(int(number[2]) + 1) % 10}", log)


class ReaderContract:
    """Inherit it, name the tool, and give it logs.

    whole   logs of runs that came to their end: every form that the program prints
    torn    pairs of a log in which one line is torn, and the same without that line
    failed  pairs of a log that is no result, and part of its first problem
    may_be_zero  metrics of which more is better that may be 0 in a sound log
    """

    tool: ClassVar[str]
    whole: ClassVar[Sequence[str]]
    torn: ClassVar[Sequence[tuple[str, str]]] = ()
    failed: ClassVar[Sequence[tuple[str, str]]] = ()
    may_be_zero: ClassVar[Sequence[str]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """A test that takes one of these runs for each."""
        for name, examples in (
            ("log", self.whole),
            ("log_to_import", self.whole),
            ("torn_log", self.torn),
            ("failed_log", self.failed),
        ):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, examples, ids=map(str, range(len(examples))))

    def figures_in(self, file: Path) -> LogFigures:
        """What the reader makes of a file."""
        return read_log(self.tool, file)

    @pytest.fixture
    def read(self, tmp_path: Path) -> Read:
        """What the reader makes of a text."""

        def read_text(text: str) -> LogFigures:
            file = tmp_path / "log"
            file.write_text(text, newline="", errors="replace")
            return self.figures_in(file)

        return read_text

    def test_a_whole_log_has_figures_and_no_problem(self, read: Read, log: str) -> None:
        reading = read(log)
        assert reading.figures
        assert (reading.problems, reading.skipped, reading.cut) == ([], 0, 0)

    def test_every_figure_has_its_line_and_a_unit_that_is_known(self, read: Read, log: str) -> None:
        declared = {metric.name: metric.unit for metric in TOOLS[self.tool].metrics}
        for figure in read(log).figures:
            assert 1 <= figure.line <= log.count("\n") + 1
            if declared:
                assert factor(figure.unit)[1] == factor(declared[figure.metric])[1]

    def test_a_log_is_recognised_by_what_is_in_it_and_by_no_other_tool(
        self, tmp_path: Path, log: str
    ) -> None:
        file = tmp_path / "log.txt"
        file.write_text(log)
        assert [tool.name for tool in tools_of(file)] == [self.tool]

    @pytest.mark.parametrize("dress", UNKNOWN)
    def test_what_nobody_knows_before_each_line_changes_no_figure_or_is_named(
        self, tmp_path: Path, dress: str
    ) -> None:
        plain, dressed = tmp_path / "plain", tmp_path / "dressed"
        for text in self.whole:
            if text.count("\n") < 3:
                continue
            plain.write_text(text)
            dressed.write_bytes(UNKNOWN[dress](text))
            expected, reading = self.figures_in(plain), self.figures_in(dressed)
            if reading.problems:
                assert "its lines begin with `" in reading.problems[0]
                assert "take it off and import the rest: sed -E 's/" in reading.problems[0]
            else:
                assert figures(reading) == figures(expected)
                assert reading.facts == expected.facts

    @pytest.mark.parametrize("dress", [*SURE, *OF_SEVERAL_LINES])
    def test_what_others_put_around_a_log_changes_no_figure_line_or_problem(
        self, tmp_path: Path, dress: str
    ) -> None:
        for text in (*self.whole, *(log for log, _ in self.failed)):
            if text.count("\n") < 3 and dress in OF_SEVERAL_LINES:
                continue
            bare, dressed = tmp_path / "bare.log", tmp_path / "dressed.log"
            bare.write_text(text, newline="")
            dressed.write_bytes({**SURE, **OF_SEVERAL_LINES}[dress](text))
            expected, reading = self.figures_in(bare), self.figures_in(dressed)
            assert reading.figures == expected.figures
            assert (reading.problems, reading.skipped) == (expected.problems, expected.skipped)
            assert tools_of(dressed) == tools_of(bare)
            if dressed.read_bytes() not in (text.encode(), text.encode("utf-8-sig")) and text:
                assert len(reading.notes) > len(expected.notes)

    def test_an_imported_log_is_kept_with_its_figures_in_base_units(
        self, tmp_path: Path, log_to_import: str
    ) -> None:
        file = tmp_path / "one.log"
        file.write_text(log_to_import, newline="")
        [session] = import_(file, name="kept", runs=tmp_path / "runs").sessions
        assert [run.state for run in session.runs] == [RunState.FINISHED]
        assert f"{file}: read as a log of {self.tool}; unknown lines: 0" in session.notes
        [attempt] = session.session.last_attempts().values()
        measured = result(attempt).reading.measurements
        assert measured
        assert {figure.unit for figure in measured} == {factor(figure.unit)[1] for figure in measured}

    def test_a_suite_that_runs_the_program_reads_the_same_figures(
        self, tmp_path: Path, log_to_import: str
    ) -> None:
        file = tmp_path / "rank-0.log"
        file.write_text(log_to_import, newline="")
        units = {figure.metric: figure.unit for figure in self.figures_in(file).figures}
        metrics = {name: {"reader": self.tool, "unit": unit} for name, unit in units.items()}
        command = WORKLOADS["command"]
        reading = command.reader.read({file.name: file}, command.params(argv=["true"], metrics=metrics))
        assert reading.problems == ()
        assert {measured.metric for measured in reading.measurements} == {*units}

    def test_a_torn_line_is_counted_and_never_a_figure(self, read: Read, torn_log: tuple[str, str]) -> None:
        torn, without = map(read, torn_log)
        assert figures(torn) == figures(without)
        assert torn.skipped == without.skipped + 1

    @pytest.mark.parametrize("is_changed", [False, True], ids=["itself", "another run"])
    def test_a_file_of_two_runs_is_an_error_or_has_the_figures_of_both(
        self, tmp_path: Path, log: str, is_changed: bool
    ) -> None:
        end = "" if log.endswith("\n") else "\n"
        once, twice = (
            self.imported(tmp_path, text)
            for text in (log, f"{log}{end}{_with_other_figures(log) if is_changed else log}")
        )
        assert twice.problems or len(twice.measurements) == 2 * len(once.measurements)

    def imported(self, tmp_path: Path, text: str) -> Reading:
        """What an import makes of a text."""
        file = tmp_path / "log"
        file.write_text(text, newline="")
        named = (
            ()
            if TOOLS[self.tool].metrics
            else tuple({figure.metric for figure in self.figures_in(file).figures})
        )
        return TOOL_LOG.read({file.name: file}, ToolLogParams(tool=self.tool, named=named))

    def test_what_failed_or_measured_nothing_is_a_problem_that_says_why(
        self, read: Read, failed_log: tuple[str, str]
    ) -> None:
        log, reason = failed_log
        assert reason in " ".join(read(log).problems)

    @pytest.mark.parametrize("nothing", ["", "\n", "step 1 loss 0.5\n1048576 262144 float 3\n", "\0\x1b[2J"])
    def test_a_log_of_nothing_is_a_problem(self, read: Read, nothing: str) -> None:
        reading = read(nothing)
        assert reading.problems
        assert reading.figures == []

    @inherited
    @given(data=st.data())
    def test_a_log_that_was_cut_anywhere_is_a_problem_or_has_figures_of_the_whole_only(
        self, tmp_path_factory: pytest.TempPathFactory, log: str, data: st.DataObject
    ) -> None:
        end = data.draw(st.integers(0, len(log.rstrip()) - 1))
        file = tmp_path_factory.mktemp("cut") / "log"
        file.write_text(log, newline="")
        whole = self.figures_in(file)
        file.write_text(log[:end], newline="")
        reading = self.figures_in(file)
        assert reading.problems or figures(reading) <= figures(whole)
        assert reading.problems or reading.figures
        if log.startswith("{") and "\n{" not in log:  # a document that is not whole says nothing
            assert reading.problems
            assert reading.figures == []

    def test_a_log_that_was_cut_is_unfinished_or_noted_if_it_lacks_figures(
        self, read: Read, log: str
    ) -> None:
        everything, end = figures(read(log)), len(log.rstrip())
        for cut in {
            *range(1, end, max(1, end // 60)),
            *(m.start() + 1 for m in re.finditer("\n", log[:end])),
        }:
            reading = read(log[:cut])
            assert reading.problems or reading.notes or figures(reading) == everything, cut

    @inherited
    @given(text=st.text(max_size=200), data=st.data())
    def test_whatever_falls_into_a_log_leaves_a_problem_or_figures_that_are_numbers(
        self, tmp_path_factory: pytest.TempPathFactory, log: str, text: str, data: st.DataObject
    ) -> None:
        metrics = TOOLS[self.tool].metrics
        rises = {m.name for m in metrics if m.better == "higher"} - {*self.may_be_zero}
        place = data.draw(st.integers(0, len(log)))
        file = tmp_path_factory.mktemp("fuzz") / "log"
        file.write_text(log[:place] + text + log[place:], newline="", errors="replace")
        reading = self.figures_in(file)
        assert reading.problems or reading.figures
        for figure in reading.figures:
            assert math.isfinite(figure.value)
            assert figure.value > 0 or figure.metric not in rises

    def test_a_number_that_is_none_or_too_large_ends_no_reading_and_is_no_figure(
        self, read: Read, log: str
    ) -> None:
        every = os.environ.get("ASSAY_TEST_EXAMPLES") == "many"
        for index, place in enumerate(re.finditer(r"\d+(?:\.\d+)?", log)):
            for other in NO_FIGURES if every else NO_FIGURES[index % len(NO_FIGURES) :][:1]:
                for figure in read(log[: place.start()] + other + log[place.end() :]).figures:
                    numbers = (figure.value * factor(figure.unit)[0], *figure.at.values())
                    assert all(map(math.isfinite, numbers)), (place, other[:9], figure)
