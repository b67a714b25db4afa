"""Logs and runs that others made are taken in once, whole, and without trust."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_rundir import header, plan, trial

from assay import read, store
from assay.cli import assay
from assay.errors import InputError
from assay.formats.mlperf import training_run
from assay.formats.tools import format_names, known_formats
from assay.questions.import_ import grouped_notes
from assay.questions.import_ import import_ as import_paths
from assay.records import JobState, RenderedJob, RunState, Shape, TrainingRun
from assay.run.index import update_index
from assay.rundir import session as rundir
from assay.rundir.files import Header
from assay.rundir.merging import LARGEST_FILE_BYTES, LARGEST_RECORD_BYTES, merge
from assay.workloads import WORKLOADS
from trained_results import imported


def line(key: str, time_ms: int, value: Any = None, **metadata: Any) -> str:
    event = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key}
    return ":::MLLOG " + json.dumps({**event, "value": value, "metadata": metadata}) + "\n"


def log(minutes: float = 10, epochs: int = 4, status: str = "success", seed: int = 1) -> str:
    stop = int(minutes * 60_000)
    return (
        line("submission_benchmark", 0, "resnet")
        + line("train_samples", 0, 1000)
        + line("global_batch_size", 0, 32)
        + line("seed", 0, seed)
        + line("run_start", 0)
        + line("eval_accuracy", stop, 0.76, epoch_num=epochs)
        + line("run_stop", stop, status=status)
    )


def test_nodes_of_dgx_that_a_log_states_are_a_shape(foreign_logs: Path, tmp_path: Path) -> None:
    real = foreign_logs / "failing" / "mlperf-bert-128-nodes.txt"
    done = CliRunner().invoke(assay, ["import", str(real), "--name", "x", "--runs", str(tmp_path), "--json"])
    [session] = json.loads(done.stdout)["sessions"]
    assert not any("states the number of nodes" in note for note in session["notes"])
    rows = json.loads(CliRunner().invoke(assay, ["export", "x", "--runs", str(tmp_path), "--json"]).stdout)
    assert {row["shape"] for row in rows} == {"128x8"}
    assert round(next(row["value"] for row in rows if row["metric"] == "time_to_train") / 60, 3) == 0.394


def test_nodes_without_their_accelerators_are_named(tmp_path: Path) -> None:
    lines = (line("submission_platform", 0, "8xBIGBOX"), log())
    (tmp_path / "result_0.txt").write_text("\n".join(lines))
    done = CliRunner().invoke(
        assay,
        ["import", str(tmp_path / "result_0.txt"), "--name", "x", "--runs", str(tmp_path / "r"), "--json"],
    )
    [session] = json.loads(done.stdout)["sessions"]
    stated = "its logs state 8 nodes of BIGBOX, but not how many accelerators each has; stored as 1x1"
    assert any(stated in note for note in session["notes"])


def result_set(folder: Path, *logs: str, nodes: int | None = 2) -> Path:
    """`folder/machine/resnet/result_N.txt`, and what the machine is where `nodes` is known."""
    directory = folder / "machine" / "resnet"
    directory.mkdir(parents=True)
    for number, text in enumerate(logs):
        (directory / f"result_{number}.txt").write_text(text)
    if nodes is not None:
        about = {"system_name": "m", "number_of_nodes": str(nodes), "accelerators_per_node": "8", "empty": ""}
        (directory.parent / "system.json").write_text(json.dumps(about))
    return folder


def take(folder: Path, runs: Path, name: str = "theirs", **said: Any) -> Any:
    [imported] = import_paths(folder, name=name, runs=runs, **said).sessions
    return imported


def command(*words: str | Path) -> Result:
    return CliRunner().invoke(assay, ["import", *map(str, words)])


def test_each_result_file_becomes_a_run_with_its_log_copied_and_read(tmp_path: Path) -> None:
    text = log(10, 4, seed=7)
    folder = result_set(tmp_path / "logs", text, log(12, 5))
    imported = take(folder, tmp_path / "runs")
    first, second = (read.result(a) for a in imported.session.attempts())
    assert first.run.trial.id == "resnet-2x8-machine-r01"
    assert first.run.source == "machine/resnet/result_0.txt"
    assert first.run.started_at is None  # these logs count from 0, which is no date
    assert (first.run.trial.shape, first.run.trial.seed, first.run.trial.block) == (Shape(2, 8), 7, 1)
    assert first.run.state is RunState.FINISHED
    log_kept = next(imported.session.attempts()).logs()["result_0.txt"]
    assert log_kept.read_text() == text
    figures = {m.metric: (m.value, m.unit, m.file, m.line) for m in first.reading.measurements}
    assert figures == {
        "time_per_epoch": (150.0, "s", "result_0.txt", 7),
        "time_to_train": (600.0, "s", "result_0.txt", 7),
        "epochs_to_target": (4.0, "epochs", "result_0.txt", 6),
        "throughput": (pytest.approx(4000 / 600), "samples/s", "result_0.txt", 7),
    }
    [series] = first.reading.series
    assert (series.name, series.x_name, series.x, series.y) == ("eval_accuracy", "epoch", (4.0,), (0.76,))
    assert first.reading.facts["global_batch_size"] == 32
    assert isinstance(first.reading.training, TrainingRun)
    assert first.provenance is not None
    assert first.provenance.nodes[0]["mlperf.number_of_nodes"] == "2"
    assert "mlperf.empty" not in first.provenance.nodes[0]
    assert second.run.trial.block == 2
    assert imported.session.plan().primary_metric == {"resnet": "time_per_epoch"}
    assert next(iter(read.metrics(first.run))) == "time_per_epoch"


STACK = {"nccl_version": "2.30.4", "cuda_driver_version": "595.58.03", "trt_version": "", "deep": {"x": 1}}
DESCRIBED = {
    "submitter": "UNKNOWN_MLPERF_SUBMITTER",
    "number_of_nodes": "1",
    "accelerators_per_node": "8",
    "framework": "PyTorch \u001b[31m26.04",
    "other_software_stack": STACK,
}


def launched(text: str, described: object = DESCRIBED, commit: str = "0c33a56e1d") -> str:
    """A log as NVIDIA's scripts begin it; `set -x` prints the commands, too."""
    system = described if isinstance(described, str) else json.dumps(described)
    return (
        f"+ echo ':::SYSJSON {system}'\n:::SYSJSON {system}\n"
        "+ srun -n1 bash -c 'echo \":::GITCOMMITID ${GIT_COMMIT_ID}\"'\n"
        f":::GITCOMMITID {commit} \n{text}"
    )


def test_what_a_log_states_of_its_system_is_kept_and_counts_against_the_system_s_json(tmp_path: Path) -> None:
    folder = result_set(tmp_path / "logs", launched(log()))
    system = tmp_path / "logs" / "machine" / "system.json"
    system.write_text(json.dumps({**DESCRIBED, "other_software_stack": {**STACK, "nccl_version": "2.27"}}))
    imported = take(folder, tmp_path / "runs")
    [result] = [read.result(a) for a in imported.session.attempts()]
    assert result.provenance is not None
    assert result.provenance.nodes[0] == {
        "mlperf.number_of_nodes": "1",
        "mlperf.accelerators_per_node": "8",
        "mlperf.framework": "PyTorch  [31m26.04",
        "mlperf.software.nccl_version": "2.30.4",
        "mlperf.software.cuda_driver_version": "595.58.03",
        "mlperf.git_commit": "0c33a56e1d",
    }
    assert any(
        "software.nccl_version is 2.27 in the system's JSON, but 2.30.4 in the logs; the logs count" in note
        for note in imported.notes
    )


def test_the_shape_is_the_log_s_where_there_is_no_system_json(tmp_path: Path) -> None:
    folder = result_set(tmp_path / "logs", launched(log()))
    (tmp_path / "logs" / "machine" / "system.json").unlink()
    imported = take(folder, tmp_path / "runs")
    assert imported.runs[0].trial.shape == Shape(1, 8)
    assert not any("--shape" in note for note in imported.notes)


@pytest.mark.parametrize(
    "described", ["{cut", "[1]", "null", "[" * 5000, '{"a": 1e999, "b": ' + "9" * 400 + "}"]
)
def test_a_system_that_can_t_be_read_is_noted_and_no_reason_to_refuse_the_log(
    tmp_path: Path, described: str
) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(launched(log(), described))
    run = training_run(path)
    assert run.status == "success"
    assert run.system == {"git_commit": "0c33a56e1d"}
    noted = [note for note in run.notes if "SYSJSON" in note]
    expected = (
        []
        if described.endswith("}")
        else ["the :::SYSJSON in line 2 is not a JSON object: the software is unknown"]
    )
    assert noted == expected


def test_diff_and_compare_name_the_driver_and_nccl_of_two_published_sets(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, nccl, driver in (("ours", "2.30.4", "595.58.03"), ("theirs", "2.27", "580.126.09")):
        stack = {"nccl_version": nccl, "cuda_driver_version": driver}
        described = {**DESCRIBED, "other_software_stack": stack}
        texts = [launched(log(10 + n / 7, 4, seed=n), described) for n in range(3)]
        folder = result_set(tmp_path / name, *texts)
        (folder / "machine" / "system.json").unlink(missing_ok=True)
        take(folder, runs, name, system=name)
    differing = CliRunner().invoke(assay, ["diff", "ours", "theirs", "--runs", str(runs), "--json"])
    assert differing.exit_code == 1
    facts = {fact["name"]: (fact["a"], fact["b"]) for fact in json.loads(differing.stdout)["facts"]}
    assert facts == {
        "mlperf.software.cuda_driver_version": (["595.58.03"], ["580.126.09"]),
        "mlperf.software.nccl_version": (["2.30.4"], ["2.27"]),
    }
    compared = CliRunner().invoke(assay, ["compare", "ours", "theirs", "--runs", str(runs), "--json"])
    assert (
        "mlperf.software.cuda_driver_version 595.58.03 and 580.126.09, "
        "mlperf.software.nccl_version 2.30.4 and 2.27"
    ) in json.dumps(json.loads(compared.stdout))


def test_runs_know_when_they_started_where_their_logs_say_it(tmp_path: Path) -> None:
    dated = log().replace('"time_ms": 0', '"time_ms": 1600000000000').replace("600000,", "1600000600000,")
    imported = take(result_set(tmp_path / "logs", dated), tmp_path / "runs")
    assert imported.runs[0].started_at == 1_600_000_000.0


def test_a_log_that_is_no_result_is_a_failed_run_with_its_reason_and_no_figure(tmp_path: Path) -> None:
    folder = result_set(tmp_path / "logs", log(), log(status="aborted"), "", log()[:-200])
    imported = take(folder, tmp_path / "runs")
    results = [read.result(a) for a in imported.session.attempts()]
    assert [r.run.state for r in results] == [RunState.FINISHED, *[RunState.FAILED] * 3]
    for result in results[1:]:
        assert result.reading.measurements == ()
        assert result.run.cause == "; ".join(result.reading.problems) != ""


def test_the_same_bytes_under_the_same_name_are_kept_once_wherever_they_lie(tmp_path: Path) -> None:
    first = take(result_set(tmp_path / "a", log()), tmp_path / "runs")
    shutil.move(tmp_path / "a", tmp_path / "b")
    again = take(tmp_path / "b", tmp_path / "runs")
    assert (first.added, again.added) == (True, False)
    assert first.session.id == again.session.id
    assert [r.id for r in again.runs] == [r.id for r in first.runs]
    other = take(tmp_path / "b", tmp_path / "runs", system="another")
    assert other.added
    assert other.runs[0].suite_digest == first.runs[0].suite_digest  # sides of one name


def test_an_import_that_was_killed_half_way_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, runs = result_set(tmp_path / "logs", log(), log(11)), tmp_path / "runs"
    add = rundir.Session.add

    def killed_at_the_second(session: rundir.Session, run: Any, **more: Any) -> Any:
        if run.trial.block == 2:
            raise KeyboardInterrupt
        return add(session, run, **more)

    with monkeypatch.context() as patch:
        patch.setattr(rundir.Session, "add", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            take(folder, runs)
    imported = take(folder, runs)
    assert imported.added
    assert [r.trial.block for r in imported.runs] == [1, 2]
    assert len(list(rundir.sessions(runs))) == 1


def test_a_shape_that_nothing_says_is_told_as_such(tmp_path: Path) -> None:
    folder = result_set(tmp_path / "logs", log(), nodes=None)
    imported = take(folder, tmp_path / "runs")
    assert imported.runs[0].trial.shape == Shape(1, 1)
    assert any("--shape" in note for note in imported.notes)
    said = take(folder, tmp_path / "runs", shape=Shape(4, 8))
    assert said.runs[0].trial.shape == Shape(4, 8)
    assert not any("--shape" in note for note in said.notes)


def test_two_sets_that_would_become_one_are_named_after_their_folders_unless_the_user_says_so(
    tmp_path: Path,
) -> None:
    result_set(tmp_path / "logs" / "v3.0", log())
    result_set(tmp_path / "logs" / "v3.1", log(11))
    apart = take(tmp_path / "logs", tmp_path / "apart")
    assert [r.trial.id for r in apart.runs] == ["resnet-2x8-machine-v3.0-r01", "resnet-2x8-machine-v3.1-r01"]
    assert any("machine: 2 folders have its results of the same benchmark" in note for note in apart.notes)
    pooled = take(tmp_path / "logs", tmp_path / "runs", system="m")
    assert [r.trial.id for r in pooled.runs] == ["resnet-2x8-m-r01", "resnet-2x8-m-r02"]


def test_logs_do_not_mix_with_the_runs_of_a_suite(tmp_path: Path) -> None:
    rundir.create(tmp_path / "runs", header(), plan(), {})
    with pytest.raises(InputError, match="choose another name"):
        take(result_set(tmp_path / "logs", log()), tmp_path / "runs", name="demo")


def test_a_suite_can_not_ask_for_imported_logs() -> None:
    assert "mlperf" not in WORKLOADS


def test_the_real_logs_are_taken_in_with_every_figure(tmp_path: Path, mlperf_logs: Path) -> None:
    imported = take(mlperf_logs, tmp_path)
    results = [read.result(a) for a in imported.session.last_attempts().values()]
    assert len(results) == 60
    failed = [r for r in results if r.run.state is RunState.FAILED]
    assert ["SYS-681E-TR" in r.run.id for r in failed] == [True]
    for result in results:
        metrics = {m.metric for m in result.reading.measurements}
        assert ("time_to_train" in metrics) == (result not in failed)
    update_index(tmp_path)
    assert len(store.known(tmp_path)) == 60


def test_the_command_says_what_became_of_each_file(tmp_path: Path) -> None:
    folder, runs = result_set(tmp_path / "logs", log(), log(status="aborted")), tmp_path / "runs"
    said = command(folder, "--name", "theirs", "--runs", runs)
    assert said.exit_code == 0, said.output
    assert ": 2 runs\n" in said.output
    assert "resnet-2x8-machine-r02 has no result: run_stop says aborted" in said.output
    again = command(folder, "--name", "theirs", "--runs", runs, "--json")
    [done] = json.loads(again.output)["sessions"]
    assert (done["added"], done["runs"], len(done["failed"])) == (False, 2, 1)


def test_runs_with_a_name_are_refused(tmp_path: Path) -> None:
    runs, session = tmp_path / "runs", finished_session(tmp_path / "elsewhere")
    assert "keeps its own names" in str(command(session.path, "--name", "x", "--runs", runs).exception)


def finished_session(root: Path, state: RunState = RunState.FINISHED, **changes: Any) -> rundir.Session:
    session = rundir.create(root, header(**changes), plan(), {"suite.yaml": "suite: demo\n"})
    attempt, run = session.begin(trial(), "t0k3n", RenderedJob("train", {}, {}))
    attempt.append("rank-0", b"value 5\n")
    for name in ("about.json", "node.parquet", "gpu.parquet"):
        (attempt.path / "telemetry").mkdir(exist_ok=True)
        (attempt.path / "telemetry" / name).write_bytes(b"sampled")
    attempt.settle(replace(run, state=state, job=JobState.SUCCEEDED))
    return session


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_session_made_elsewhere_is_taken_in_whole_below_its_suite(tmp_path: Path, above: int) -> None:
    session = finished_session(tmp_path / "there")
    source = (session.path, session.path.parent, session.path.parent.parent)[above]
    [merged] = merge(source, tmp_path / "here")
    assert merged.added
    assert merged.session.path == tmp_path / "here" / "demo" / session.name
    theirs, ours = tree(session.path), tree(merged.session.path)
    assert ours.pop("session.json") != theirs.pop("session.json")  # marked as taken in
    assert ours == theirs
    run = next(merged.session.attempts()).run()
    assert (run.suite_digest, run.token) == ("s1", "t0k3n")
    [again] = merge(source, tmp_path / "here")
    assert not again.added


def test_a_session_that_differs_from_the_one_here_is_refused(tmp_path: Path) -> None:
    session = finished_session(tmp_path / "there")
    merge(session.path, tmp_path / "here")
    next(session.attempts()).append("rank-0", b"value 6\n")
    with pytest.raises(InputError, match="other content"):
        merge(session.path, tmp_path / "here")


def test_a_session_that_still_runs_elsewhere_is_refused(tmp_path: Path) -> None:
    session = finished_session(tmp_path / "there", RunState.RUNNING)
    with pytest.raises(InputError, match="import it when"):
        merge(session.path, tmp_path / "here")


def test_what_another_machine_left_unfinished_is_not_gone_on_with_here(tmp_path: Path) -> None:
    session = finished_session(tmp_path / "there")
    assert session.header.finished_at is None
    [merged] = merge(session.path, tmp_path / "here")
    assert merged.session.header.content


def test_a_cached_reading_is_not_believed(tmp_path: Path) -> None:
    session = finished_session(tmp_path / "there")
    (next(session.attempts()).path / "reading.json").write_text('{"key": "k", "reading": {}}')
    [merged] = merge(session.path, tmp_path / "here")
    assert "reading.json" not in {Path(name).name for name in tree(merged.session.path)}


def test_files_that_are_not_of_a_run_directory_stay_where_they_are(tmp_path: Path) -> None:
    session = finished_session(tmp_path / "there")
    (session.path / "evil.sh").write_text("x")
    (session.path / "jobs" / "t").mkdir(parents=True)
    (session.path / "jobs" / "t" / "spec.json").write_text("{}")
    [merged] = merge(session.path, tmp_path / "here")
    assert merged.ignored == ("evil.sh",)
    assert not {"evil.sh", "jobs/t/spec.json"} & tree(merged.session.path).keys()


@pytest.mark.parametrize("kind", ["file", "directory", "fifo"])
def test_links_and_special_files_are_refused_and_nothing_is_written(tmp_path: Path, kind: str) -> None:
    session = finished_session(tmp_path / "there")
    secret = tmp_path / "secret"
    place = next(session.attempts()).path / "logs" / "rank-1.log"
    if kind == "file":
        secret.write_text("x")
        place.symlink_to(secret)
    elif kind == "directory":
        secret.mkdir()
        place.symlink_to(secret)
    else:
        os.mkfifo(place)
    with pytest.raises(InputError, match=r"rank-1\.log: a link or special file"):
        merge(session.path, tmp_path / "here")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("name", "size"), [("logs/rank-1.log", LARGEST_FILE_BYTES + 1), ("run.json", LARGEST_RECORD_BYTES + 1)]
)
def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path, name: str, size: int) -> None:
    session = finished_session(tmp_path / "there")
    with (next(session.attempts()).path / name).open("wb") as file:
        file.truncate(size)
    with pytest.raises(InputError, match="larger than"):
        merge(session.path, tmp_path / "here")


@pytest.mark.parametrize("suite", ["../outside", "/tmp/outside", ".hidden", ""])
def test_a_suite_name_that_would_lead_outside_is_refused(tmp_path: Path, suite: str) -> None:
    session = finished_session(tmp_path / "there")
    plain = json.loads((session.path / "session.json").read_text())
    (session.path / "session.json").write_text(json.dumps({**plain, "suite": suite}))
    with pytest.raises(InputError, match="can't be a file name"):
        merge(session.path, tmp_path / "here")


def test_damaged_records_are_named_before_anything_is_written(tmp_path: Path) -> None:
    good = finished_session(tmp_path / "there")
    bad = finished_session(tmp_path / "there", suite_digest="s2")
    (next(bad.attempts()).path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json:1: not JSON") as refused:
        merge(good.path.parent, tmp_path / "here")
    assert f"import the other sessions by their directories (1 of them), such as {good.path}" in str(
        refused.value
    )
    assert not (tmp_path / "here").exists()


OUT_OF_RANGE = (
    ("run.json", "created_at", 1e300),
    ("run.json", "started_at", -1e18),
    ("run.json", "attempt", 2**40),
    ("run.json", "trial.block", 10**22),
    ("run.json", "trial.shape.workers", 2**40),
    ("run.json", "trial.shape.workers", 2**21),
    ("run.json", "trial.shape.workers", 0),
    ("plan.json", "trial.block", 10**22),
    ("provenance.json", "nodes", [["cpu"]]),
    ("../../session.json", "created_at", 1e300),
    ("../../session.json", "finished_at", 1e300),
    ("../../session.json", "step_of", {"name": "x", "confidence": 2}),
    ("../../plan.json", "repeats", 2**40),
    ("../../plan.json", "margin", 1e300),
    ("../../plan.json", "margin", 1),
    ("../../plan.json", "margin", 0),
    ("../../plan.json", "margin", -1),
    ("../../plan.json", "looks", [-1]),
    ("../../plan.json", "prices", {"here": {"amount": -1, "currency": "EUR", "per": "node"}}),
    ("../../plan.json", "trials", [{"shape": {"workers": 0, "accelerators": 1}}]),
)


@pytest.mark.parametrize(("file", "key", "value"), OUT_OF_RANGE)
def test_a_session_with_a_number_out_of_range_is_refused_before_anything_is_written(
    tmp_path: Path, file: str, key: str, value: object
) -> None:
    session = finished_session(tmp_path / "there")
    place = next(session.attempts()).path / file
    plain = json.loads(place.read_text()) if place.exists() else {}
    *parents, last = key.split(".")
    inner = plain
    for name in parents:
        inner = inner[name]
    inner[last] = value
    place.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=rf"{place.name}: not a file that Assay wrote"):
        merge(session.path, tmp_path / "here")
    assert not (tmp_path / "here").exists()


TOKEN = "hf_AAAAAbcdefghijklmnopqrstuvwxyzABCD02"


@pytest.mark.parametrize(("file", "key"), [("session", "suite"), ("plan", "systems"), ("plan", "trials")])
def test_a_session_with_a_secret_in_a_name_is_refused(tmp_path: Path, file: str, key: str) -> None:
    session = finished_session(tmp_path / "there")
    trial_of_token = json.loads((next(session.attempts()).path / "run.json").read_text())["trial"]
    changed = {"suite": TOKEN, "systems": [TOKEN], "trials": [{**trial_of_token, "benchmark": TOKEN}]}
    place = session.path / f"{file}.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), key: changed[key]}))
    session.__dict__.clear()
    with pytest.raises(InputError, match="contains a secret"):
        merge(place.parent, tmp_path / "here")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("suite", ["index.duckdb", "INDEX.duckdb.wal"])
def test_a_suite_with_the_name_of_the_index_is_refused(tmp_path: Path, suite: str) -> None:
    session = finished_session(tmp_path / "there")
    plain = json.loads((session.path / "session.json").read_text())
    (session.path / "session.json").write_text(json.dumps({**plain, "suite": suite}))
    with pytest.raises(InputError, match="a file that Assay keeps"):
        merge(session.path, tmp_path / "here")


@pytest.mark.parametrize("option", ["name", "system", "benchmark"])
def test_a_secret_as_a_name_of_imported_logs_is_refused(tmp_path: Path, option: str) -> None:
    place = tmp_path / "result_0.txt"
    place.write_text(log().replace('"resnet"', f'"{TOKEN}"') if option == "benchmark" else log())
    said = CliRunner().invoke(
        assay, ["import", str(place), "--runs", str(tmp_path / "runs"), "--name", "set", f"--{option}", TOKEN]
    )
    assert "contains a secret" in str(said.exception)
    assert not [path for path in tmp_path.rglob("*") if "hf_" in path.name]


def test_a_header_keeps_who_took_it_in_apart_from_what_it_says(tmp_path: Path) -> None:
    session = finished_session(tmp_path / "there")
    [merged] = merge(session.path, tmp_path / "here")
    known: Header = merged.session.header
    assert (known.host, known.command_line) == (session.header.host, session.header.command_line)


def test_a_log_that_counts_no_epochs_is_judged_by_its_throughput(tmp_path: Path) -> None:
    leaf = tmp_path / "v2.0" / "sys" / "bert"
    leaf.mkdir(parents=True)
    lines = [
        line("submission_benchmark", 0, "bert"),
        line("run_start", 1),
        line("eval_accuracy", 60_000, 0.73, epoch_num=1),
        line("train_samples", 60_000, 6000),
        line("run_stop", 60_001, status="success"),
    ]
    (leaf / "result_0.txt").write_text("".join(lines))
    [result] = imported(tmp_path / "runs", "set", tmp_path / "v2.0")
    assert [m.metric for m in result.reading.measurements] == ["throughput", "time_to_train"]
    assert "train_samples" not in result.reading.facts
    plan_made = json.loads(next((tmp_path / "runs").rglob("plan.json")).read_text())
    assert plan_made["primary_metric"] == {"bert": "throughput"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  8388608  float  sum  39.95  78.79\n# Avg bus bandwidth    : 72.9\n",
         "closest to nccl-tests: it has 'avg bus bandwidth', but lacks the line `size count type … time "
         "algbw busbw`; known formats: mlperf, "),
        ("iperf 3.9\n[  5]  0.00-1.00  sec  10 MBytes  9.4 Gbits/sec  0\n",
         "is what iperf3 prints for people, which Assay does not read: run iperf3 with --json"),
        ("iperf 3.9\nReached 9.4 Gbits/sec\n",
         "closest to iperf3: it has 'iperf', 'gbits/sec', but lacks the line"),
        ("all-reduce busbw 72.9\n", "is not a log in a known format; known formats: mlperf"),
        ("throughput: 3\n", "figures of another program can be imported as a CSV file"),
        ("epoch 1\n", "is not a log in a known format; known formats: mlperf, tf-cnn-benchmarks, nccl-tests"),
        ("", "is empty: the program printed nothing, or the copy failed"),
        ("\n \n", "is empty"),
    ],
)  # fmt: skip
def test_a_file_that_nothing_recognises_is_refused_with_what_it_came_closest_to(
    tmp_path: Path, text: str, words: str
) -> None:
    log = tmp_path / "pasted.txt"
    log.write_text(text)
    done = CliRunner().invoke(assay, ["import", str(log), "--name", "x", "--runs", str(tmp_path / "runs")])
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith(str(log))
    assert words in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_every_file_that_is_no_log_is_named_and_how_to_import_the_others(tmp_path: Path) -> None:
    names = ("a.log", "good.log", "b.log")
    for name in names:
        (tmp_path / name).write_text(_TAILS["horovod"] if name == "good.log" else f"{name}\n")
    done = command(*(tmp_path / name for name in names), "--name", "x", "--runs", tmp_path / "runs")
    assert isinstance(done.exception, InputError)
    a, b, hint = str(done.exception).split("\n")
    assert a.startswith(f"{tmp_path}/a.log: is not a log")
    assert b.startswith(f"{tmp_path}/b.log: is not a log")
    assert hint == "nothing was imported; leave out those above to import the rest, 1 path"
    assert not (tmp_path / "runs").exists()


def test_a_folder_of_logs_is_imported_each_format_as_a_session_and_the_rest_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "node-a").mkdir(parents=True)
    (folder / "node-a" / "one.log").write_text(_TAILS["horovod"])
    (folder / "two.log").write_text(_TAILS["tf-cnn"])
    (folder / "notes.txt").write_text("node-a was slow\n")
    (folder / "packed.log.gz").write_bytes(b"\x1f\x8b damaged")
    cnn, horovod = import_paths(folder, name="x", runs=tmp_path / "runs").sessions
    assert [run.source for run in cnn.runs] == [str(folder / "two.log")]
    assert [run.source for run in horovod.runs] == [str(folder / "node-a" / "one.log")]
    assert f"left out, in no known format: {folder}/notes.txt" in cnn.notes
    assert any("packed.log.gz" in note and note.endswith("; left out") for note in cnn.notes)


def test_logs_of_one_format_are_chosen_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(_TAILS["horovod"])
    (tmp_path / "two.log").write_text(_TAILS["tf-cnn"])
    [session] = import_paths(tmp_path, name="x", format="horovod", runs=tmp_path / "runs").sessions
    assert [run.source for run in session.runs] == [str(tmp_path / "one.log")]


def test_every_format_that_can_be_imported_can_be_come_close_to() -> None:
    assert tuple(known.name for known in known_formats()) == format_names()


def test_notes_that_differ_in_their_file_and_figures_are_said_once() -> None:
    notes = [
        "a/result_0.txt: the throughput, 12.5 samples/s, is of one accelerator",
        "b/result_1.txt: the throughput, 1,234 samples/s, is of one accelerator",
        "epoch_num counts epochs: ssd, by its rules",
        "samples_count counts images: ssd, by its rules",
    ]
    assert list(grouped_notes(notes)) == [
        f"{notes[0]} (and 1 note like it; --json lists all)",
        notes[2],
        notes[3],
    ]


_TAILS = {
    "perftest": (
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
        " 65536      5000             11030.78            11030.45             0.176487\n" + "-" * 87 + "\n"
    ),
    "horovod": "Img/sec per GPU: 108.2 +-1.2\nTotal img/sec on 4 GPU(s): 432.8 +-4.9\n",
    "timm": (
        "Train: 9 [1250/1299 ( 96%)]  Loss: 3.821 (3.89)  "
        "Time: 0.161s, 6350.47/s  (0.245s, 4182.58/s)  LR: 1.0e-05\n*** Best metric: 1\n"
    ),
    "loadgen": (
        "================================================\nMLPerf Results Summary\n"
        "================================================\nSUT name : mine\nScenario : Offline\n"
        "Mode     : PerformanceOnly\nSamples per second: 1434.8\nResult is : VALID\n"
        "  Min duration satisfied : Yes\n  Min queries satisfied : Yes\n  Early stopping satisfied: Yes\n"
    ),
    "tf-cnn": "10\timages/sec: 71.3 +/- 4.2 (jitter = 12.9)\t7.812\ntotal images/sec: 71.12\n",
}


@pytest.mark.parametrize("tool", _TAILS)
def test_logs_that_do_not_say_what_they_measured_are_not_compared(tmp_path: Path, tool: str) -> None:
    def compared(*words: str) -> str:
        sides = [f"{side}{len(words)}" for side in "ab"]
        for side, digit in zip(sides, "56", strict=True):
            log = tmp_path / f"{side}.log"
            log.write_text(_TAILS[tool].replace("Train: 9", f"Train: {digit}"))
            command(log, "--name", side, "--runs", tmp_path / "runs", *words)
        return CliRunner().invoke(assay, ["compare", *sides, "--runs", str(tmp_path / "runs")]).output

    assert "unknown-operation" in compared()
    assert "unknown-operation" not in compared("--benchmark", "mine")
