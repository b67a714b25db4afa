"""What is shown while a suite runs is true, short and safe to print."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from test_rundir import header, plan, trial

from assay.cli.progress import ProgressLines, ProgressScreen
from assay.records import (
    Measurement,
    NodeCounts,
    Output,
    RankExit,
    Reading,
    RenderedJob,
    Result,
    Run,
    RunState,
    Shape,
)
from assay.run.concurrency import ConcurrentProgress
from assay.run.execute import cpu_use
from assay.run.progress import LastFigure, figure_of, last_line, last_lines, own_cause
from assay.rundir import session as rundir
from assay.rundir.pace import Pace
from assay.workloads import PLACES

MLLOG = ':::MLLOG {{"time_ms": 1, "key": "{key}", "value": {value}, "metadata": {metadata}}}\n'


def run_of(name: str, seconds: float, shape: str = "1x1", benchmark: str = "digits") -> Run:
    tried = replace(trial(name), shape=Shape.parse(shape), benchmark=benchmark)
    return Run(
        schema=1,
        assay_version="0",
        id=f"demo/s/{name}",
        suite="demo",
        suite_digest="s1",
        plan_digest="p1",
        session="s",
        interleaved=False,
        trial=tried,
        attempt=1,
        token="t",
        state=RunState.FINISHED,
        created_at=0.0,
        started_at=100.0,
        ended_at=100.0 + seconds,
    )


def test_time_left_is_the_mean_of_the_kind_and_of_all_where_the_kind_is_new() -> None:
    runs = [run_of("a1", 10), run_of("a2", 20), run_of("b1", 60, "2x1"), run_of("a3", 0)]
    new = run_of("c1", 0, benchmark="other")
    pace = Pace(plan(*(r.trial for r in (*runs, new))), [])
    assert pace.left_s(0) is None
    for run in runs[:3]:
        pace.settled(run)
    assert (pace.done, pace.total) == (3, 5)
    assert pace.left_s(0) == pytest.approx(15 + 30)  # a3 like a1 and a2; the new kind like all three
    assert pace.left_s(12) == pytest.approx(33)
    assert pace.left_s(1000) == 0


def test_a_run_until_decided_takes_at_most_so_long_and_so_long_to_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, "command", "script_workload:SCRIPT")
    runs = [run_of(f"a{block}", 10) for block in range(1, 6)]
    trials = [replace(r.trial, block=at, params={"code": "x"}) for at, r in enumerate(runs, start=1)]
    decided = replace(plan(*trials), looks=(3, 5))
    said = io.StringIO()
    for done, look, left in ((1, 3, 40), (3, 5, 20)):
        session = rundir.create(tmp_path / str(done), header(), decided, {})
        screen = ProgressScreen(session, decided, runs[:done], stream=said)
        screen.trial_began(trials[done], 1, adopted=False)
        line = screen._running_line().plain
        screen.close()
        assert line.startswith(f"[{done + 1}/≤5] block {done + 1} ")
        times = re.search(
            rf"about 0:(\d\d) to the look after block {look}, at most about 0:(\d\d) left", line
        )
        assert times is not None
        assert 10 < int(times[1]) <= 20
        assert left - 10 < int(times[2]) <= left
    assert "5 trials at most, checked after 3, 5 blocks" in said.getvalue()


def test_a_job_that_prints_no_figure_is_starting_until_anything_of_it_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, "command", "script_workload:SCRIPT")
    planned = plan(*(replace(run_of(name, 10).trial, params={"code": "x"}) for name in ("a", "b")))
    session = rundir.create(tmp_path, header(), planned, {})
    shown = ProgressLines(session, planned, [], stream=io.StringIO())
    shown.trial_began(planned.trials[0], 1, adopted=False)
    assert "  starting  " in shown._running_line().plain
    shown.printed(Output("probe-0", b"{}"))
    shown.waited("")
    assert "  running, no figure yet  " in shown._running_line().plain
    shown.trial_began(planned.trials[1], 1, adopted=False)
    assert "and 1 more  running  " in shown._running_line().plain


def test_the_last_figure_is_found_however_the_stream_is_cut() -> None:
    line = MLLOG.format(key="throughput", value=812.34, metadata='{"unit": "images/s", "rank": 0}')
    for size in (1, 7, 1000):
        figure = LastFigure("throughput", "images/s")
        for at in range(0, len(line), size):
            figure.feed(Output("rank-0", line[at : at + size].encode()))
        assert figure.text == "812.3 images/s"


def test_the_last_figure_ignores_other_ranks_other_metrics_and_damaged_lines() -> None:
    figure = LastFigure("throughput", "images/s")
    unit = '{"unit": "images/s"}'
    for stream, text in [
        ("rank-1", MLLOG.format(key="throughput", value=1, metadata=unit)),
        ("rank-0", MLLOG.format(key="loss", value=1, metadata=unit)),
        ("rank-0", MLLOG.format(key="tracked_stats", value='{"loss": "low"}', metadata="{}")),
        ("rank-0", MLLOG.format(key="tracked_stats", value="3", metadata="[]")),
        ("rank-0", ":::MLLOG {\n:::MLLOG []\nthroughput 5\n"),
        ("rank-0", "x" * 200_000),
    ]:
        figure.feed(Output(stream, text.encode()))
    assert figure.text == ""
    stats = MLLOG.format(key="tracked_stats", value='{"throughput": 7.5}', metadata='{"step": 1}')
    figure.feed(Output("rank-0", ("\n" + stats).encode()))
    assert figure.text == "7.5 images/s"
    stats = MLLOG.format(
        key="tracked_stats", value='{"accuracy": 0.98765, "\\u001b[2Jloss": 2}', metadata="{}"
    )
    figure.feed(Output("rank-0", stats.encode()))
    assert figure.text == "accuracy 0.9877, [2Jloss 2"


def test_a_runs_figure_is_the_mean_of_its_windows_at_the_last_labels() -> None:
    def measured(value: float, **labels: int) -> Measurement:
        return Measurement("busbw", value, "B/s", labels, "rank-0.log", 1)

    run = run_of("a", 1)
    reading = Reading((measured(1e9, size=8), measured(2e9, size=16), measured(8e9, size=16)))
    assert figure_of(Result(run, reading), "busbw") == "4 GB/s at size=16"
    assert figure_of(Result(run, reading), "other") == ""


def attempt_with(root: Path, log: bytes) -> rundir.Attempt:
    session = rundir.create(root, header(), plan(), {})
    attempt, _ = session.begin(trial(), "t", RenderedJob("", {}, {}))
    attempt.append("rank-0", b"rank 0\n")
    attempt.append("rank-1", log)
    return attempt


def test_the_last_lines_are_those_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    attempt = attempt_with(tmp_path, b"".join(b"line %d\n\n" % i for i in range(20_000)))
    exits = (RankExit(0, None, "TERM"), RankExit(1, 7, first=True))
    shown = last_lines(attempt, exits)
    assert shown == [f"line {i}" for i in range(19_990, 20_000)]
    assert last_lines(attempt, ()) == ["rank 0"]


def test_what_our_own_program_said_last_is_the_cause_and_its_figures_are_no_part_of_it(
    tmp_path: Path,
) -> None:
    figures = b':::MLLOG {"key": "loss"}\n' * 20
    failed = (RankExit(1, 1, first=True),)
    attempt = attempt_with(
        tmp_path / "own", b"warned\n" + figures[:50] + b"a.py: rank 1: disk is full\n" + b"\n"
    )
    assert last_lines(attempt, failed) == ["warned", "a.py: rank 1: disk is full"]
    assert own_cause(last_line(attempt, failed)) == "disk is full"
    assert own_cause(last_line(attempt, ())) == "", "rank 0 said nothing of the kind"
    attempt = attempt_with(tmp_path / "only figures", figures)
    assert len(last_lines(attempt, failed)) == 1, "how far it came"
    assert own_cause(last_line(attempt, failed)) == ""


def test_a_program_that_came_to_its_end_has_no_last_words(tmp_path: Path) -> None:
    attempt, _ = rundir.create(tmp_path, header(), plan(), {}).begin(trial(), "t", RenderedJob("", {}, {}))
    attempt.append("rank-0", b':::MLLOG {"key": "result_validity", "value": "INVALID"}\n')
    assert last_lines(attempt, (RankExit(0, 0),)) == []
    assert len(last_lines(attempt, ())) == 1, "lost: how far it came"


def test_what_a_program_printed_can_not_steer_the_terminal(tmp_path: Path) -> None:
    attempt = attempt_with(tmp_path, b"\x1b[2J\x1b]0;owned\x07 \xff[red]x[/red]\t.\n" + b"y" * 10_000)
    shown = last_lines(attempt, (RankExit(1, 1, first=True),))
    assert "\x1b" not in "".join(shown)
    assert "\x07" not in "".join(shown)
    assert all(len(line) <= 200 for line in shown)


@pytest.mark.parametrize("kind", [ProgressLines, ProgressScreen])
def test_each_trial_is_one_line_and_a_failure_shows_its_end(
    tmp_path: Path, kind: type[ProgressLines], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setitem(PLACES, "command", "script_workload:SCRIPT")
    session = rundir.create(tmp_path, header(), plan(), {})
    attempt, run = session.begin(trial(), "t", RenderedJob("", {}, {}))
    attempt.append("rank-0", b"[bold]it broke\n")
    said = io.StringIO()
    progress = kind(session, plan(), [], stream=said)
    progress.trial_began(replace(trial(), params={"code": "x"}), 1, adopted=True)
    progress.printed(Output("rank-0", b"x"))
    progress.waited("")
    for _ in range(2):
        progress.waited("no node can run it")
    failed = replace(run, state=RunState.FAILED, cause="rank 0 exited 7", started_at=0.0, ended_at=1.5)
    progress.trial_ended(Result(failed, Reading()), attempt, settled=False)
    done = replace(failed, state=RunState.FINISHED)
    measured = Measurement("time_to_train", 90.0, "s", {}, "rank-0.log", 1)
    progress.trial_ended(Result(done, Reading((measured,))), attempt, settled=True)
    progress.close()
    lines = [line.rstrip() for line in said.getvalue().splitlines() if line.strip()]
    for expected in (
        f"{session.id}: 1 trial",
        "[1/1] digits-1x1-r01: taken over from a stopped Assay process",
        "[1/1] waiting: no node can run it",
        "[1/1] digits-1x1-r01  FAILED: rank 0 exited 7; it will be retried",
        "        | [bold]it broke",
        "[1/1] digits-1x1-r01  90 s  (took 1.5 s)",
    ):
        assert lines.count(expected) == 1


def test_off_a_terminal_a_line_now_and_then_says_what_runs_and_the_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, "command", "script_workload:SCRIPT")
    runs = [run_of(f"a{number}", 100) for number in range(1, 4)]
    trials = [replace(one.trial, params={"code": "x"}) for one in runs]
    session = rundir.create(tmp_path, header(), plan(*trials), {})
    said, now = io.StringIO(), 1000.0
    monkeypatch.setattr("assay.cli.progress.time.monotonic", lambda: now)
    progress = ProgressLines(session, plan(*trials), runs[:1], stream=said)
    for_all = ConcurrentProgress(progress)
    for_all.trial_began(trials[1], 1, adopted=False)
    for seconds in (0, 11, 30, 75):
        now = 1000.0 + seconds
        for_all.waited("")
    lines = said.getvalue().splitlines()[1:]
    assert [line.partition("  starting  ") for line in lines] == [
        ("[2/3] block 1 a2", "  starting  ", "0:11, 0:11 in all, about 3:09 left"),
        ("[2/3] block 1 a2", "  starting  ", "1:15, 1:15 in all, about 2:05 left"),
    ]


def test_at_its_time_limit_a_trial_says_how_much_of_the_cpus_it_had() -> None:
    alone = NodeCounts(elapsed_s=10.0, cpus=4, job_cpu_s=39.0)
    crowded = NodeCounts(elapsed_s=10.0, cpus=4, job_cpu_s=4.0, busy_cpu_s=40.0)
    assert cpu_use([alone]) == "it used 98 % of the time of its 4 CPUs"
    words = "it used 10 % of the time of its 4 CPUs on the node where it used least, others 90 %"
    assert cpu_use([alone, crowded]) == words
    assert cpu_use([NodeCounts(elapsed_s=10.0, cpus=4)]) == "", "not counted there"
    paused = NodeCounts(elapsed_s=30.0, cpus=4, job_cpu_s=39.0, busy_cpu_s=120.0, suspended_s=20.0)
    assert cpu_use([paused]) == "it used 98 % of the time of its 4 CPUs"
