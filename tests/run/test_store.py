"""The index: whole whatever happens to its writers, found again by what people type, quick to list."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from assay import store
from assay.cli import assay as command_line
from assay.cli.question_command import command_of
from assay.errors import HostError, InputError
from assay.questions.show import Show
from assay.records import ConfusionMatrix, Measurement, Provenance, Result, RunState, Series, to_compact_json
from assay.store.layout import reading
from assay.view import runs as run_view
from conftest import long_but
from made_results import quickstart
from stated_runs import result, side

FACTS = {"os": "Debian 12", "python.torch": "2.8.0"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A runs directory."""
    return tmp_path / "runs"


def ids(results: Sequence[Result]) -> list[str]:
    """Ids of the runs, in order."""
    return [r.run.id for r in results]


def in_other_process(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python of its own that can import what this one can."""
    path = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_was_put_in_comes_out_the_same(root: Path) -> None:
    _, results = quickstart()
    store.update(root, results)
    found = {r.run.id: r for r in store.find(root, "quickstart")}
    assert found == {r.run.id: r for r in results}


def test_known_gives_back_the_stamps(root: Path) -> None:
    results = side([1.0, 2.0])
    assert store.known(root) == {}
    store.update(root, results, stamps={results[0].run.id: "1-2-3"})
    assert store.known(root) == {results[0].run.id: "1-2-3", results[1].run.id: ""}


def test_a_changed_run_replaces_what_was_there(root: Path) -> None:
    store.update(root, side([1.0, 2.0]))
    assert store.update(root, [result(9.0, block=2)]) == store.Update(1, 0, "")
    assert [r.reading.measurements[0].value for r in store.find(root, "suite")] == [1.0, 9.0]
    with reading(root) as index:
        assert index.execute("SELECT count(*) FROM measurements").fetchall() == [(2,)]


def test_a_run_whose_directory_is_gone_vanishes_with_its_measurements_and_provenance(root: Path) -> None:
    results = [result(1.0, facts=FACTS), result(2.0, block=2, facts=FACTS | {"os": "RHEL 9"})]
    store.update(root, results)
    assert store.update(root, [], gone=[results[1].run.id]).removed == 1
    assert ids(store.find(root, "suite")) == [results[0].run.id]
    with reading(root) as index:
        assert index.execute("SELECT count(*) FROM measurements").fetchall() == [(1,)]
        assert index.execute("SELECT count(*) FROM provenances").fetchall() == [(1,)]


def test_equal_provenance_is_kept_once(root: Path) -> None:
    store.update(root, side([1.0, 2.0, 3.0], facts=FACTS))
    with reading(root) as index:
        assert index.execute("SELECT count(*) FROM provenances").fetchall() == [(1,)]
    assert all(r.provenance is not None and r.provenance.nodes == (FACTS,) for r in store.find(root, "suite"))


def test_provenance_that_differs_a_little_takes_little_space(root: Path) -> None:
    packages = {f"package.name-{i}": f"1.{i}.0" for i in range(350)}
    tables = [Provenance(({**packages, "memory.available_bytes": 2**34 - 4096 * n},)) for n in range(600)]
    runs = side([1.0] * len(tables))
    store.update(root, [replace(run, provenance=table) for run, table in zip(runs, tables, strict=True)])
    written = sum(len(to_compact_json(table)) for table in tables)
    assert store.index_path(root).stat().st_size < written / 3
    assert [run.provenance for run in store.find(root, "suite")] == tables


def test_results_are_read_one_after_the_other_and_their_stamps_after_them(root: Path) -> None:
    stamps: dict[str, str] = {}

    def made() -> object:
        for found in side([1.0] * 2500):
            stamps[found.run.id] = "late"
            yield found

    assert store.update(root, made(), stamps=stamps).written == 2500  # type: ignore[arg-type]
    assert set(store.known(root).values()) == {"late"}


def test_nothing_new_leaves_the_file_untouched(root: Path) -> None:
    store.update(root, side([1.0]))
    before = store.index_path(root).stat()
    assert store.update(root, []) == store.Update(0, 0, "")
    assert store.index_path(root).stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"", b"junk" * 5000, b"\0" * 20000])
def test_a_damaged_index_is_made_anew_and_that_is_said(root: Path, content: bytes) -> None:
    store.update(root, side([1.0]))
    store.index_path(root).write_bytes(content)
    assert store.trouble(root)
    assert store.known(root) == {}
    assert "can't be read" in store.update(root, side([1.0, 2.0])).rebuilt
    assert store.trouble(root) is None
    assert len(store.find(root, "suite")) == 2


@pytest.mark.long
def test_an_index_with_free_blocks_at_its_end_is_whole(root: Path) -> None:
    for number in range(6):  # each update frees the blocks of the one before; some are cut from the file
        store.update(root, side([1.0 + number, 2.0]))
        assert store.trouble(root) is None


def test_an_index_of_another_schema_is_made_anew(root: Path) -> None:
    store.update(root, side([1.0]))
    with duckdb.connect(store.index_path(root)) as index:
        index.execute("UPDATE about SET schema = 0")
    assert "another version of Assay" in (store.trouble(root) or "")
    assert "another version of Assay" in store.update(root, side([2.0])).rebuilt


def test_rebuilding_forgets_what_is_not_given_again(root: Path) -> None:
    store.update(root, side([1.0, 2.0, 3.0]))
    store.update(root, side([1.0]), rebuild=True)
    assert len(store.known(root)) == 1


def test_a_disk_that_takes_no_more_is_a_clear_error_and_the_old_index_stays(root: Path) -> None:
    store.update(root, side([1.0]))
    code = """if True:
        import resource, sys
        from pathlib import Path
        from assay import store
        from assay.errors import HostError
        from stated_runs import side
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        try:
            store.update(Path(sys.argv[1]), side([float(i) for i in range(20_000)], system="b"))
        except HostError as error:
            print(error)
    """
    out, err = in_other_process(code, str(root)).communicate(timeout=60)
    assert "the old one is kept" in out or "Nothing that was stored is lost" in out, (out, err)
    assert store.trouble(root) is None
    assert len(store.known(root)) == 1


def test_a_directory_that_can_not_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((HostError, NotADirectoryError)):
        store.update(tmp_path / "file" / "runs", side([1.0]))


def test_a_reader_keeps_what_it_opened_and_the_next_one_sees_the_new(root: Path) -> None:
    store.update(root, side([1.0]))
    count = "SELECT count(*) FROM runs"
    with reading(root) as old:
        assert old.execute(count).fetchall() == [(1,)]
        store.update(root, side([1.0, 2.0, 3.0]))
        with reading(root) as new:
            assert new.execute(count).fetchall() == [(3,)]
        assert old.execute(count).fetchall() == [(1,)]


WRITER = """if True:
    import sys
    from pathlib import Path
    from assay import store
    from stated_runs import side
    system = sys.argv[2]
    for block in range(1, 9):
        store.update(Path(sys.argv[1]), side([1.0] * block, system=system))
"""


@pytest.mark.long
def test_two_writers_do_not_lose_each_others_runs(root: Path) -> None:
    writers = [in_other_process(WRITER, str(root), system) for system in "ab"]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert writer.returncode == 0, err
    assert len(store.find(root, "suite:a")) == len(store.find(root, "suite:b")) == 8


@pytest.mark.long
def test_readers_are_never_blocked_and_never_see_half_while_one_writes(root: Path) -> None:
    """Each write holds one run more for both systems: a reader must never see a difference."""
    store.update(root, side([1.0]) + side([1.0], system="b"))
    code = """if True:
        import sys
        from pathlib import Path
        from assay import store
        from stated_runs import side
        for n in range(2, 14):
            store.update(Path(sys.argv[1]), side([1.0] * n) + side([1.0] * n, system="b"))
    """
    writer = in_other_process(code, str(root))
    seen, slowest = [], 0.0
    while writer.poll() is None or not seen:
        began = time.perf_counter()
        with reading(root) as index:
            by_system = index.execute("SELECT system, count(*) FROM runs GROUP BY system").fetchall()
        slowest = max(slowest, time.perf_counter() - began)
        counts = [count for _, count in by_system]
        assert len(counts) == 2
        assert counts[0] == counts[1]
        seen.append(counts[0])
    _, err = writer.communicate()
    assert writer.returncode == 0, err
    assert seen == sorted(seen)
    assert len(set(seen)) > 2, "the writer was done before it was looked at"
    assert slowest < 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_but(1, range(12)))
def test_a_writer_killed_at_any_moment_leaves_a_whole_index(root: Path, seed: int) -> None:
    store.update(root, side([1.0]))
    code = """if True:
        import sys
        from pathlib import Path
        from assay import store
        from stated_runs import side
        runs = side([float(i) for i in range(4000)], system="b")
        print("ready", flush=True)
        store.update(Path(sys.argv[1]), runs)
    """
    writer = in_other_process(code, str(root))
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    time.sleep(0.06 * seed)
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=30)
    assert store.trouble(root) is None
    assert len(store.known(root)) in (1, 4001)
    assert store.update(root, [result(2.0, block=2)]).rebuilt == ""
    assert len(store.known(root)) in (2, 4002)


OLD, NEW = "2026-03-01T100000Z", "2026-03-02T100000Z"


@pytest.fixture
def sessions(root: Path) -> Path:
    """Two sessions under one digest after one under another, two systems, and an imported set."""
    store.update(
        root,
        [
            *side([1.0], session="2026-02-01T100000Z", suite_digest="before"),
            *side([2.0], session=OLD),
            *side([3.0], session=OLD, system="b"),
            *side([4.0], session=NEW),
            result(None, session=NEW, block=2, state=RunState.FAILED, cause="rank 0 exited 1"),
            *side([5.0], suite="v3.1-openshift", session=NEW),
        ],
    )
    return root


@pytest.mark.parametrize(
    ("reference", "values"),
    [
        ("suite", [4.0]),
        (f"suite/{OLD}", [2.0, 3.0]),
        (f"suite/{OLD}:b", [3.0]),
        ("suite:a", [2.0, 4.0]),
        ("suite:b", [3.0]),
        ("v3.1-openshift", [5.0]),
        (f"suite/{OLD}/train-1x1-a-r01", [2.0]),
    ],
)
def test_references_name_what_the_documentation_says(
    sessions: Path, reference: str, values: list[float]
) -> None:
    found = store.find(sessions, reference)
    assert sorted(m.value for r in found for m in r.reading.measurements) == values


def test_failed_runs_come_along_so_that_they_can_be_counted(sessions: Path) -> None:
    assert [r.run.state for r in store.find(sessions, "suite")] == [RunState.FINISHED, RunState.FAILED]


def test_an_imported_sets_name_is_all_that_was_imported_under_it(root: Path) -> None:
    parts = [("s1", "1x8", "four"), ("s2", "2x8", "eight")]
    store.update(
        root,
        [
            result(1.0, suite="hpe", session=s, shape=shape, suite_digest=digest, source="logs")
            for s, shape, digest in parts
        ],
    )
    assert len(store.find(root, "hpe")) == len(store.find(root, "hpe:a")) == 2
    assert len(store.find(root, "hpe/s1")) == 1


def test_a_path_to_a_directory_is_a_reference(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = sessions / "suite" / OLD / "train-1x1-a-r01" / "attempt-1"
    trial.mkdir(parents=True)
    assert len(store.find(sessions, str(trial.parents[1]))) == 2
    assert len(store.find(sessions, str(trial))) == 1
    monkeypatch.chdir(sessions.parent)
    assert len(store.find(sessions, f"runs/suite/{OLD}/")) == 2


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("siute", "did you mean suite"),
        ("suite:c", "did you mean suite:"),
        ("v3.0-openshift", "did you mean v3.1-openshift"),
        ("suite/2026-03-09T100000Z", "did you mean suite/2026-03-0"),
        ("", "assay show"),
        ("a/b/c/d/e", "assay show"),
        ("'; DROP TABLE runs; --", "assay show"),
    ],
)
def test_an_unknown_reference_names_the_nearest(sessions: Path, reference: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        store.find(sessions, reference)
    assert said in str(error.value)
    assert len(store.known(sessions)) == 6


def test_a_directory_elsewhere_is_refused_with_what_to_do(sessions: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="assay import"):
        store.find(sessions, str(tmp_path))


def test_a_name_of_no_runs_is_unknown_even_if_a_directory_here_has_it(
    sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suit").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        store.find(sessions.resolve(), "suit")
    assert str(error.value).startswith("suit: no runs with this name; did you mean suite")
    with pytest.raises(InputError, match="not below the runs directory"):
        store.find(sessions.resolve(), "./suit")


def test_reading_without_an_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="assay index"):
        store.find(tmp_path, "suite")


def test_list_shows_what_compare_takes(sessions: Path) -> None:
    ran = CliRunner().invoke(command_of(Show), ["--json", "--runs", str(sessions)])
    rows = json.loads(ran.stdout)["sets"]
    assert {row["reference"]: (row["finished"], row["failed"]) for row in rows} == {
        "suite/2026-02-01T100000Z:a": (1, 0),
        f"suite/{OLD}:a": (1, 0),
        f"suite/{OLD}:b": (1, 0),
        f"suite/{NEW}:a": (1, 1),
        f"v3.1-openshift/{NEW}:a": (1, 0),
    }
    for row in rows:
        assert store.find(sessions, row["reference"])


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 6),
        (["--suite", "suite"], 5),
        (["--system", "b"], 1),
        (["--benchmark", "train"], 6),
        (["--benchmark", "other"], 0),
        (["--workload", "train"], 6),
        (["--state", "failed"], 1),
        (["--limit", "2"], 2),
        (["--since", "2026-01-01"], 6),
        (["--since", "2099-01-01"], 0),
        (["--since", "7d"], 0),
        (["--suite", "suite", "--system", "a"], 4),
    ],
)
def test_list_filters_runs(sessions: Path, options: list[str], count: int) -> None:
    ran = CliRunner().invoke(command_of(Show), ["--trials", "--json", *options, "--runs", str(sessions)])
    assert len(json.loads(ran.stdout)["runs"]) == count


def test_list_shows_the_newest_first(root: Path) -> None:
    store.update(root, [result(1.0, block=b, created_at=1e9 + 1000 * b) for b in (2, 3, 1)])
    ran = CliRunner().invoke(command_of(Show), ["--trials", "--runs", str(root)])
    assert [line.split()[0][-3:] for line in ran.stdout.splitlines()[1:]] == ["r03", "r02", "r01"]


@pytest.mark.parametrize("since", ["yesterday", "7", "2026-13-01"])
def test_a_date_that_is_none_is_refused(sessions: Path, since: str) -> None:
    ran = CliRunner().invoke(command_of(Show), ["--since", since, "--runs", str(sessions)])
    assert ran.exit_code == 2
    assert "2026-03-01" in ran.stderr


def test_list_where_there_are_no_runs_says_how_to_make_some(tmp_path: Path) -> None:
    ran = CliRunner().invoke(command_of(Show), ["--runs", str(tmp_path / "none")])
    assert isinstance(ran.exception, InputError)
    assert "assay run" in str(ran.exception)


def test_list_imports_nothing_heavy(sessions: Path) -> None:
    code = """if True:
        import sys
        from contextlib import suppress
        from assay.cli import assay
        with suppress(SystemExit):
            assay(["show", "--runs", sys.argv[1]], standalone_mode=False)
        print([m for m in ("pydantic", "numpy", "scipy", "rich", "pandas") if m in sys.modules])
    """
    out, err = in_other_process(code, str(sessions)).communicate(timeout=60)
    assert out.splitlines()[-1] == "[]", err


def test_export_writes_one_row_a_measurement_in_every_format(sessions: Path, tmp_path: Path) -> None:
    files = {form: tmp_path / f"m.{form}" for form in ("csv", "json", "parquet")}
    for file in files.values():
        ran = CliRunner().invoke(
            command_line, ["export", "suite:a", "suite:b", "-o", str(file), "--runs", str(sessions)]
        )
        assert ran.exit_code == 0, ran.output
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert sorted(float(row["value"]) for row in rows) == [2.0, 3.0, 4.0]
    assert rows[0].keys() == {
        "system", "benchmark", "workload", "shape", "metric", "unit", "run", "suite", "session", "block",
        "value", "labels", "file", "line", "better", "started_at", "conditions",
    }  # fmt: skip
    assert sorted(row["value"] for row in json.loads(files["json"].read_text())) == [2.0, 3.0, 4.0]
    parquet = duckdb.sql(f"SELECT value, line FROM '{files['parquet']}' ORDER BY value").fetchall()
    assert parquet == [(2.0, 7), (3.0, 7), (4.0, 7)]


def test_exported_labels_hold_the_swept_parameters(root: Path) -> None:
    store.update(root, [result(1.0, labels={"size": 8}, varied={"dtype": "fp32"})])
    ran = CliRunner().invoke(command_line, ["export", "suite", "--json", "--runs", str(root)])
    assert json.loads(ran.stdout)[0]["labels"] == {"size": 8, "dtype": "fp32"}


def test_export_has_no_row_for_a_run_that_is_no_result(root: Path) -> None:
    store.update(root, [result(1.0), result(2.0, block=2, problems=["loss became nan"])])
    ran = CliRunner().invoke(command_line, ["export", "suite", "--format", "csv", "--runs", str(root)])
    assert len(ran.stdout.splitlines()) == 2


def test_show_tells_numbers_series_failures_doubts_and_machine(root: Path) -> None:
    _, results = quickstart(blocks=3)
    failed = result(None, suite="quickstart", session=results[0].run.session, block=9, state=RunState.FAILED,
                    cause="rank 1 exited 137", system="here")  # fmt: skip
    store.update(root, [*results, failed])
    ran = CliRunner().invoke(command_line, ["show", "quickstart", "--runs", str(root)])
    assert ran.exit_code == 0, ran.exception
    for said in ("36 runs, 1 failed", "matmul throughput, 2x1 size 512", "loss", "rank 1 exited 137",
                 "AMD EPYC 7763"):  # fmt: skip
        assert said in ran.stdout, said


def test_show_tells_what_was_taken_for_what_and_no_name_steers_the_terminal(root: Path) -> None:
    _, [first, *_] = quickstart()
    matrix = ConfusionMatrix(("\x1b[2Jsky", "[red]car"), ((3, 1), (0, 4)))
    store.update(root, [replace(first, reading=replace(first.reading, confusion=matrix))])
    ran = CliRunner().invoke(command_line, ["show", "quickstart", "--runs", str(root)])
    assert "most confused: 25 % of �[2Jsky predicted as [red]car" in ran.stdout


def test_show_of_one_trial_names_file_and_line_of_each_figure(sessions: Path) -> None:
    ran = CliRunner().invoke(command_line, ["show", f"suite/{OLD}/train-1x1-a-r01", "--runs", str(sessions)])
    assert "rank-0.log:7  throughput = 2 images/s" in ran.stdout


def test_show_as_json_has_each_runs_values_and_the_estimate(sessions: Path) -> None:
    ran = CliRunner().invoke(command_line, ["show", "suite:a", "--json", "--runs", str(sessions)])
    document = json.loads(ran.stdout)
    [point] = document["points"]
    assert point["values"] == [2.0, 4.0]
    assert point["estimate"]["n"] == 2
    assert [run["counts"] for run in document["runs"]] == [True, True, False]


def test_a_spark_line_shows_first_shape_and_last() -> None:
    line = run_view.spark(Series("loss", "", "step", (1.0, 2.0, 3.0), (8.0, 1.0, 4.5)))
    assert line == "8 █▁▅ 4.5  (step 1 to 3)"
    flat = run_view.spark(Series("loss", "", "step", (1.0, 2.0), (3.0, 3.0)))
    assert "▁▁" in flat
    assert run_view.spark(Series("accuracy", "", "epoch", (2.0,), (0.5,))) == "0.5  (epoch 2)"
    assert len(run_view.thinned(range(1000))) == 32


def test_index_takes_in_what_is_new_and_drops_what_is_gone(root: Path) -> None:
    store.update(root, side([1.0, 2.0]))  # directories that do not exist
    ran = CliRunner().invoke(command_line, ["index", "--json", "--runs", str(root)])
    assert ran.exit_code == 0, ran.exception
    document = json.loads(ran.stdout)
    assert (document["runs"], document["gone"], document["made_anew"]) == (0, 2, None)


def test_a_command_makes_a_damaged_index_again_and_says_so(root: Path) -> None:
    store.update(root, side([1.0]))
    store.index_path(root).write_bytes(b"junk" * 4000)
    ran = CliRunner().invoke(command_line, ["show", "--runs", str(root)])
    assert "can't be read" in ran.stderr
    assert "No runs" in ran.stdout
    assert store.trouble(root) is None


def test_measurements_keep_their_file_and_line(root: Path) -> None:
    more = [Measurement("loss", 0.5, "", {"at": "end"}, "rank-1.log", 42)]
    store.update(root, [result(1.0, more=more)])
    [found] = store.find(root, "suite")
    assert found.reading.measurements[1] == more[0]
