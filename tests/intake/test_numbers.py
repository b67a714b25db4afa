"""A spreadsheet of anybody's figures is taken in whole or refused with every mistake at its line."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from assay import compare, read, store
from assay.cli import assay
from assay.errors import InputError
from assay.formats.numbers import load, parse
from assay.questions.imported_numbers import import_numbers
from assay.records import NodeCounts, RunState
from assay.records import Result as Result_
from assay.rundir import session as rundir
from conftest import long_but, long_rows_but
from stated_runs import result

HEADER = "system,workload,shape,metric,unit,run,session,value"


def sheet(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def take(path: Path, runs: Path, name: str = "numbers") -> Any:
    return import_numbers(path, runs, name)


def command(*words: str | Path) -> Result:
    return CliRunner().invoke(assay, list(map(str, words)))


def two_systems(path: Path, ratio: float, runs: int = 8) -> Path:
    luck = random.Random(7)
    rows = [
        f"{system},resnet,2x8,throughput,images/s,{run},,{1000 * factor * math.exp(luck.gauss(0, 0.003)):.3f}"
        for system, factor in (("bare metal", 1.0), ("openshift", ratio))
        for run in range(1, runs + 1)
    ]
    return sheet(path, *rows)


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = sheet(
        tmp_path / "n.csv",
        "a,resnet,2*8,throughput,images/s,1,1,100",
        "a,resnet,1x8,throughput,images/s,2,1,fast",
        ",resnet,1x8,throughput,images/s,3,1,100",
        "a,resnet,1x8,throughput,images/s,4,1,nan",
        "a,resnet,1x8,throughput,images/s,5,1",
        "a,resnet,1x8,throughput,images/s,6,1,100",
        "a,resnet,1x8,throughput,images/s,6,1,101",
        "b,resnet,1x8,throughput,imgs/s,1,1,100",
    )
    with pytest.raises(InputError) as refused:
        load(path)
    lines = {p.where: p.what for p in refused.value.problems}
    assert [int(where.rpartition(":")[2]) for where in lines] == [2, 3, 4, 5, 6, 8, 9]
    assert "2x8" in lines[f"{path}:2"]
    assert "'fast' is not a number" in lines[f"{path}:3"]
    assert "system is empty" in lines[f"{path}:4"]
    assert "leave the cell empty" in lines[f"{path}:5"]
    assert "7 cells" in lines[f"{path}:6"]
    assert "in line 7" in lines[f"{path}:8"]
    assert "'imgs/s' here and in 'images/s' in line 7" in lines[f"{path}:9"]


def test_columns_may_come_in_any_order_and_others_are_labels() -> None:
    text = "value,Run,metric,system,batch,driver,note\n1e3,1,throughput,a,32,535.10,\n"
    table, problems = parse(text, "n.csv")
    assert problems == []
    [row] = table.rows
    assert (row.value, row.workload, str(row.shape), row.unit, row.session) == (
        1e3,
        "numbers",
        "1x1",
        "",
        "1",
    )
    assert row.labels == {"batch": 32, "driver": "535.10"}  # 535.1 is another driver


def test_a_column_that_is_nearly_a_known_one_is_asked_about() -> None:
    _, problems = parse("system,metric,run,value,units\na,m,1,2,s\n", "n.csv")
    assert [str(p) for p in problems] == ["n.csv:1: column 'units': did you mean unit? If not, rename it"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_are_read_and_a_decimal_comma_is_refused(separator: str) -> None:
    text = "system,metric,run,value\na,m,1,7.5\n".replace(",", separator)
    assert parse(text, "n")[0].rows[0].value == 7.5
    [problem] = parse(text.replace("7.5", "7,5"), "n")[1]
    assert "with a point, not a comma" in problem.what


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_that_tells_excel_the_separator_is_no_header(
    tmp_path: Path, separator: str, end: str
) -> None:
    text = f"sep={separator}" + "\nsystem,metric,run,value\na,m,1,7.5\na,m,2,x\n".replace(",", separator)
    table, problems = parse(text.replace("\n", end), "n")
    assert [row.value for row in table.rows] == [7.5]
    assert [problem.where for problem in problems] == ["n:4"]


def test_a_quoted_cell_over_two_lines_keeps_the_line_numbers_right() -> None:
    text = 'system,metric,run,value,why\na,m,1,2,"two\nlines"\na,m,2,x,\n'
    table, problems = parse(text, "n")
    assert table.rows[0].text == 'a,m,1,2,"two\nlines"\n'
    assert [p.where for p in problems] == ["n:4"]


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00s", b'system,metric,run,value\n"a,m,1,2\n', b"\n\n"])
def test_what_is_no_table_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"n\.csv"):
        load(path)


@given(st.text())
def test_any_text_gives_rows_or_problems_and_never_a_traceback(text: str) -> None:
    table, problems = parse("system,metric,run,value\n" + text, "n")
    assert table.rows or problems
    assert all(row.value is None or math.isfinite(row.value) for row in table.rows)


def test_each_run_keeps_its_own_rows_and_reads_the_same_from_them(tmp_path: Path) -> None:
    header = HEADER + ",payload_bytes"
    path = sheet(
        tmp_path / "n.csv",
        "a,allreduce,2x8,busbw,GB/s,1,s1,5.5,1024",
        "a,allreduce,2x8,busbw,GB/s,1,s1,9.5,2048",
        "a,allreduce,2x8,busbw,GB/s,2,s1,5.6,1024",
        header=header,
    )
    [imported] = take(path, tmp_path / "runs")
    first, second = (read.result(a) for a in imported.session.attempts())
    assert first.run.id == "numbers/s1/allreduce-2x8-a-r01"
    assert first.run.source == "n.csv:2"
    assert [(m.value, m.unit, m.labels, m.file, m.line) for m in first.reading.measurements] == [
        (5.5, "GB/s", {"payload_bytes": 1024}, "rows.csv", 2),
        (9.5, "GB/s", {"payload_bytes": 2048}, "rows.csv", 3),
    ]
    assert (second.run.trial.block, len(second.reading.measurements)) == (2, 1)
    assert imported.session.plan().primary_metric == {"allreduce": "busbw"}
    assert read.metrics(first.run)["busbw"].better == "higher"


def test_a_run_without_a_value_is_a_failed_run_and_not_a_zero(tmp_path: Path) -> None:
    path = sheet(tmp_path / "n.csv", "a,w,1x1,throughput,x/s,1,1,", "a,w,1x1,throughput,x/s,2,1,3")
    [imported] = take(path, tmp_path / "runs")
    failed, good = (read.result(a) for a in imported.session.attempts())
    assert (failed.run.state, good.run.state) == (RunState.FAILED, RunState.FINISHED)
    assert failed.reading.measurements == ()


def test_sessions_of_the_sheet_are_sessions_here_at_their_dates(tmp_path: Path) -> None:
    rows = [f"a,w,1x1,throughput,x/s,{n},2026-03-0{day},10{n}" for day in (2, 1) for n in (1, 2)]
    imported = take(sheet(tmp_path / "n.csv", *rows), tmp_path / "runs")
    assert [one.session.id for one in imported] == ["numbers/2026-03-02", "numbers/2026-03-01"]
    assert imported[0].runs[0].created_at - imported[1].runs[0].created_at == 86400


def test_the_same_rows_are_kept_once_and_new_sessions_are_added(tmp_path: Path) -> None:
    first = "a,w,1x1,throughput,x/s,1,mon,100"
    path = sheet(tmp_path / "n.csv", first)
    assert [one.added for one in take(path, tmp_path / "runs")] == [True]
    sheet(path, first, "a,w,1x1,throughput,x/s,1,tue,101")
    assert [one.added for one in take(path, tmp_path / "runs")] == [False, True]
    sheet(path, first, "a,w,1x1,throughput,x/s,2,mon,102", "a,w,1x1,throughput,x/s,1,wed,103")
    with pytest.raises(InputError, match="session mon of numbers already exists with other rows"):
        take(path, tmp_path / "runs")
    assert len(list(rundir.sessions(tmp_path / "runs"))) == 2  # nothing of a refused sheet was taken


def test_names_that_would_become_one_are_refused(tmp_path: Path) -> None:
    path = sheet(tmp_path / "n.csv", "a b,w,1x1,m,s,1,1,1", "a/b,w,1x1,m,s,1,1,1", "a b,w,1x1,m,s,01,1,1")
    with pytest.raises(InputError, match=r"n\.csv:3: system 'a/b' and 'a b' would both be called a-b"):
        take(path, tmp_path / "runs")
    sheet(path, "a,w,1x1,m,s,1,1,1", "a,w,1x1,m,s,01,1,1")
    with pytest.raises(InputError, match="runs '1' and '01'"):
        take(path, tmp_path / "runs")


def test_an_import_that_was_killed_half_way_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, add = two_systems(tmp_path / "n.csv", 1.0), rundir.Session.add

    def killed_at_the_second(session: rundir.Session, run: Any, **more: Any) -> Any:
        if run.trial.block == 2:
            raise KeyboardInterrupt
        return add(session, run, **more)

    with monkeypatch.context() as patch:
        patch.setattr(rundir.Session, "add", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            take(path, tmp_path / "runs")
    [imported] = take(path, tmp_path / "runs")
    assert imported.added
    assert len(imported.runs) == 16


@pytest.mark.parametrize(
    ("ratio", "verdict", "code"),
    long_rows_but(1, [(0.9, "slower", 1), (1.1, "faster", 0), (1.0, "equivalent", 0)]),
)
def test_a_spreadsheet_gets_a_verdict(tmp_path: Path, ratio: float, verdict: str, code: int) -> None:
    runs = tmp_path / "runs"
    said = command("import", two_systems(tmp_path / "sheet.csv", ratio), "--runs", runs)
    assert said.exit_code == 0, said.output
    listed = json.loads(command("show", "--runs", runs, "--json").stdout)
    assert [row["reference"] for row in listed["sets"]] == ["sheet/1:bare-metal", "sheet/1:openshift"]
    compared = command("compare", "sheet", "--runs", runs, "--json")
    assert compared.exit_code == code
    [comparison] = json.loads(compared.stdout)["comparisons"]
    assert (comparison["verdict"], comparison["a"], comparison["n"]) == (verdict, "bare-metal", [8, 8])
    page = command("report", "sheet", "--runs", runs, "--format", "markdown", "-o", "-")
    assert verdict in page.stdout
    assert "openshift" in command("show", "sheet", "--runs", runs).stdout


def test_an_unknown_metric_has_no_direction_until_the_sheet_says_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    rows = [f"{s},w,1x1,zork,z,{n},1,{v + n / 100}" for s, v in (("a", 10), ("b", 20)) for n in range(5)]
    said = command("import", sheet(tmp_path / "n.csv", *rows), "--runs", runs)
    assert "zork: unknown which direction is better" in said.stdout
    [open_] = json.loads(command("compare", "n", "--runs", runs, "--json").stdout)["comparisons"]
    assert (open_["better"], open_["verdict"], open_["unit"]) == (None, "undecided", "z")
    told = sheet(tmp_path / "told.csv", *(f"{row},lower" for row in rows), header=HEADER + ",better")
    assert "unknown which direction" not in command("import", told, "--runs", runs).stdout
    [decided] = json.loads(command("compare", "told", "--runs", runs, "--json").stdout)["comparisons"]
    assert (decided["better"], decided["verdict"]) == ("lower", "slower")


def test_a_column_that_leaves_every_run_alone_is_told(tmp_path: Path) -> None:
    rows = [f"a,w,1x1,throughput,x/s,{n},1,100,12:0{n}" for n in range(4)]
    said = command(
        "import", sheet(tmp_path / "n.csv", *rows, header=HEADER + ",at"), "--runs", tmp_path / "r"
    )
    assert "column at differs for every run" in said.stdout


def test_options_that_a_sheet_answers_itself_are_refused(tmp_path: Path) -> None:
    said = command("import", two_systems(tmp_path / "n.csv", 1.0), "--system", "x", "--runs", tmp_path / "r")
    assert said.exit_code != 0
    assert isinstance(said.exception, InputError)


@pytest.mark.long
def test_a_column_of_times_lets_drift_be_seen_and_without_one_it_is_said_to_be_untested(
    tmp_path: Path,
) -> None:
    luck = random.Random(4)
    runs = [
        (system, run, 1000 * (1 - 0.001 * run) * math.exp(luck.gauss(0, 0.003)))
        for system in "AB"
        for run in range(40)
    ]
    untimed = [f"{system},throughput,images/s,{run},{value}" for system, run, value in runs]
    timed = [f"{row},2026-11-22T{10 + i // 60:02}:{i % 60:02}" for i, row in enumerate(untimed)]
    columns = "system,metric,unit,run,value"
    take(sheet(tmp_path / "u.csv", *untimed, header=columns), tmp_path / "runs", "untimed")
    take(sheet(tmp_path / "t.csv", *timed, header=f"{columns},started_at"), tmp_path / "runs", "timed")
    [of_untimed], [of_timed] = (
        compare(f"{name}:A", f"{name}:B", runs=tmp_path / "runs") for name in ("untimed", "timed")
    )
    codes = {doubt.code for doubt in of_untimed.doubts}
    assert {"order-unknown", "drift"} & codes == {"order-unknown"}
    codes = {doubt.code for doubt in of_timed.doubts}
    assert {"order-unknown", "drift"} & codes == {"drift"}


def test_a_run_with_a_time_is_listed_at_that_time_and_not_when_it_was_imported(tmp_path: Path) -> None:
    path = sheet(
        tmp_path / "n.csv",
        "A,throughput,images/s,1,5,2026-03-01T12:00",
        "A,throughput,images/s,2,6,2026-03-01T11:00",
        header="system,metric,unit,run,value,started_at",
    )
    take(path, tmp_path / "runs", "timed")
    [row] = json.loads(command("show", "--runs", tmp_path / "runs", "--json").stdout)["sets"]
    assert row["created_at"] == datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def test_a_time_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    path = sheet(
        tmp_path / "n.csv", "A,throughput,images/s,1,5,noon", header="system,metric,unit,run,value,started_at"
    )
    with pytest.raises(InputError, match=r"n.csv:2: started_at: 'noon' is not a time; write it like 2026"):
        load(path)


def exported(root: Path, results: Sequence[Result_], file: Path) -> Path:
    store.update(root, results)
    done = command("export", results[0].run.suite, "-o", file, "--runs", root)
    assert done.exit_code == 0, done.output
    return file


@pytest.mark.parametrize("looks", long_but(1, [(4, 8), ()]), ids=["looked at twice", "looked at once"])
def test_a_round_trip_through_export_gives_the_same_comparison(
    tmp_path: Path, looks: tuple[int, ...]
) -> None:
    luck = random.Random(3)
    results = [
        result(
            1000 * factor * drift * math.exp(luck.gauss(0, 0.002)), system=system, block=block, looks=looks,
            varied={"size": size}, labels={"way": "in"},
        )
        for block, drift in enumerate([1, 1.1, 1.05, 0.95, 1.02, 0.9, 1.07, 1], 1)
        for size in (8, 16)
        for system, factor in (("a", 1.0), ("b", 1.02))
    ]  # fmt: skip
    count = [NodeCounts(elapsed_s=10.0, cpus=2, busy_cpu_s=20.0, job_cpu_s=1.0, cpu_wait_s=9.9)]
    results = [replace(one, run=replace(one.run, nodes=tuple(count))) for one in results]
    sheet = exported(tmp_path / "before", results, tmp_path / "round.csv")
    done = command("import", sheet, "--name", "back", "--runs", tmp_path / "after", "--json")
    assert done.exit_code == 0, done.output
    [session] = json.loads(done.stdout)["sessions"]
    assert (session["runs"], session["failed"]) == (32, [])
    told = [
        [
            (
                c.point.metric,
                str(c.point.labels["size"]),
                c.ratio,
                c.verdict,
                c.method,
                "busy-neighbours" in [d.code for d in c.doubts],
            )
            for c in compare(f"{suite}:a", f"{suite}:b", runs=tmp_path / where).comparisons
        ]
        for suite, where in (("suite", "before"), ("back", "after"))
    ]
    assert told[0] == told[1]
    assert len(told[0]) == 2


FORMULAS = ["=1+1", "+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "'=1", "''@x", "'plain", "plain"]


def test_no_text_of_an_exported_table_is_a_formula_and_each_comes_back(tmp_path: Path) -> None:
    results = [
        result(-1.5, unit=unit, metric=f"{unit} of it", labels={"way": unit}, block=number)
        for number, unit in enumerate(FORMULAS, 1)
    ]
    sheet = exported(tmp_path / "runs", results, tmp_path / "e.csv")
    with sheet.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["value"] for row in rows} == {"-1.5"}
    texts = {cell for row in rows for name, cell in row.items() if name != "value"}
    assert not [text for text in texts if text[:1] in tuple("=+-@\t\r")]
    assert {"'=1+1", "'-2+3", "'\tx", "''=1", "'plain", "plain"} <= texts
    back = load(sheet).rows
    assert [row.unit for row in back] == FORMULAS
    assert [row.metric for row in back] == [f"{unit} of it" for unit in FORMULAS]
    assert [row.labels["way"] for row in back] == FORMULAS
    for ending in ("json", "parquet"):
        file = exported(tmp_path / "runs", results, tmp_path / f"e.{ending}")
        kept = duckdb.sql(f"SELECT unit FROM '{file}' ORDER BY block").fetchall()
        assert [unit for (unit,) in kept] == FORMULAS


def test_a_run_at_other_labels_lacks_nothing(tmp_path: Path) -> None:
    rows = [
        f"{system},throughput,{run},{size},{100 + run}"
        for system in "ab"
        for run, size in ((1, 8), (2, 8), (3, 16), (4, 16))
    ]
    take(sheet(tmp_path / "n.csv", *rows, header="system,metric,run,batch,value"), tmp_path / "runs")
    done = compare("numbers:a", "numbers:b", runs=tmp_path / "runs")
    assert {doubt.code for one in done.comparisons for doubt in one.doubts} & {
        "failed-runs-left-out"
    } == set()
    rows = [row for row in rows if row != "b,throughput,4,16,104"] + ["b,loss,4,16,0.1"]
    take(sheet(tmp_path / "n.csv", *rows, header="system,metric,run,batch,value"), tmp_path / "lacks")
    done = compare("numbers:a", "numbers:b", runs=tmp_path / "lacks")
    assert "failed-runs-left-out" in {doubt.code for one in done.comparisons for doubt in one.doubts}


def test_a_damaged_export_is_refused_with_its_line(tmp_path: Path) -> None:
    whole = exported(tmp_path / "runs", [result(block=n) for n in (1, 2)], tmp_path / "e.csv").read_text()
    for right, wrong, words in (
        ('""looks"":[]', '""looks"":[{}]', "e.csv:2: conditions: "),
        (",1,100.0,", ",one,100.0,", "e.csv:2: block: "),
        (",{},", ",{,", "e.csv:2: labels: "),
    ):
        assert right in whole
        (tmp_path / "e.csv").write_text(whole.replace(right, wrong, 1))
        with pytest.raises(InputError, match=words):
            load(tmp_path / "e.csv")


@pytest.mark.parametrize("sides", long_but(1, [("a", "b"), ("b", "a")]))
def test_values_too_far_apart_for_a_ratio_are_told_and_never_a_traceback(
    tmp_path: Path, sides: tuple[str, str]
) -> None:
    size = {"a": "e-160", "b": "e160"}
    rows = [f"{system},throughput,{run},1.0{run}{size[system]}" for system in "ab" for run in range(1, 6)]
    take(sheet(tmp_path / "n.csv", *rows, header="system,metric,run,value"), tmp_path / "runs")
    one, other = (f"numbers:{side}" for side in sides)
    for words in (("compare", one, other), ("gate", "--baseline", one, other)):
        said = command(*words, "--runs", tmp_path / "runs")
        assert isinstance(said.exception, InputError)
        assert "too far apart for a ratio; look at the units" in str(said.exception)
    page = command("report", "numbers", "-o", tmp_path / "page.html", "--runs", tmp_path / "runs")
    assert page.exit_code == 0


TOKENS = ("hf_AAAAAbcdefghijklmnopqrstuvwxyzABCD02", "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03")
IN_URLS = ("https://bob:Pw77zzqq@host-a", "https://bob:Pw88zzqq@host-a")


@pytest.mark.parametrize("pair", [TOKENS, IN_URLS, tuple(f"node-{token}-a" for token in TOKENS)])
@pytest.mark.parametrize("column", ["system", "workload", "metric", "session", "run"])
def test_a_secret_in_a_column_of_names_is_refused_by_its_line_before_anything_is_written(
    tmp_path: Path, column: str, pair: tuple[str, str]
) -> None:
    base = {"system": "a", "workload": "w", "metric": "throughput", "run": "1", "session": "1", "value": "5"}
    rows = [",".join({**base, column: name}.values()) for name in pair]
    path = sheet(tmp_path / "n.csv", *rows, header=",".join(base))
    with pytest.raises(InputError) as refused:
        take(path, tmp_path / "runs")
    assert [problem.where for problem in refused.value.problems] == [f"{path}:{n}: {column}" for n in (2, 3)]
    assert "contains a secret" in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("AAAAb", "BBBBb", "Pw77", "Pw88"))
    assert not (tmp_path / "runs").exists()


def test_secrets_in_a_column_of_labels_have_different_marks(tmp_path: Path) -> None:
    rows = [f"a,w,1x1,throughput,,{n},1,{n + 5},{token}" for n, token in enumerate(TOKENS)]
    take(sheet(tmp_path / "n.csv", *rows, header=f"{HEADER},key"), tmp_path / "runs")
    said = command("export", "numbers", "--runs", tmp_path / "runs")
    assert "(redacted-1)" in said.stdout
    assert "(redacted-2)" in said.stdout


@pytest.mark.parametrize("name", ["index.duckdb", "Index.duckdb", TOKENS[0]])
def test_a_set_can_t_have_the_name_of_a_file_of_assay_s_or_a_secret(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"that Assay keeps|contains a secret"):
        take(two_systems(tmp_path / "n.csv", 1.0), tmp_path / "runs", name)
    assert not (tmp_path / "runs").exists()


@pytest.mark.filterwarnings("error")
def test_a_run_beyond_any_meaningful_value_is_a_doubt_without_a_warning_or_a_traceback(
    tmp_path: Path,
) -> None:
    values = {
        "a": ("1.1", "1.2", "1.3", "1e308", "1.5", "1.4"),
        "b": ("1.2", "1.3", "5e-324", "1.1", "1.4", "1.25"),
    }
    rows = [f"{side},throughput,{at},{value}" for side in "ab" for at, value in enumerate(values[side], 1)]
    take(sheet(tmp_path / "n.csv", *rows, header="system,metric,run,value"), tmp_path / "runs")
    said = command("compare", "numbers:a", "numbers:b", "--runs", tmp_path / "runs")
    assert said.exit_code == 3, said.exception
    assert "over 1000000 %" in " ".join(said.stdout.split())
