"""Playbooks of others' own scripts: their suites run for real, with programs that print recorded lines."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

from assay.cli import assay
from assay.formats.recognize import formats_of_file
from assay.formats.tf_cnn_benchmarks import cnn_run
from assay.records import Reading, from_json, to_json
from assay.testing.formats import values
from assay.workloads import WORKLOADS
from assay.workloads.command_metrics import CNN
from conftest import ROOT, SUPPORT, long_rows_but

EXAMPLES = ROOT / "examples"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_AND_TIME = """#!/bin/bash
# Stands for a submission's: sources its configuration, times, prints a recorded log. As many as there are.
set -e
. "config_$DGXSYSTEM.sh"
start_fmt=$(date +%Y-%m-%d\\ %r); echo "STARTING TIMING RUN AT $start_fmt"
for recorded in "$RECORDED"/result_*.txt; do
  if mkdir "taken-$(basename "$recorded")" 2>/dev/null; then cat "$recorded"; break; fi
done
echo "RESULT,RESNET,$SEED,$BATCHSIZE,nvidia,$start_fmt"
"""


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository's top as the commands see it."""
    for playbook in ("tf-cnn-benchmarks", "mlperf-run-and-time"):
        shutil.copytree(EXAMPLES / playbook, tmp_path / "examples" / playbook)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def place(playbook: str, system: str = "here", **env: str) -> None:
    """Write into the copy of systems.yaml where things lie."""
    path = Path("examples", playbook, "systems.yaml")
    path.write_text(json.dumps({system: {"launcher": "local", "env": env}}))


def play(playbook: str) -> dict[str, tuple[int, str]]:
    """Every command of a page as a person would type it: exit code and output by its first two words."""
    [block] = _BLOCK.findall((EXAMPLES / playbook / "README.md").read_text())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = {}
    for line in block.splitlines():
        ran = subprocess.run(
            ["bash", "-c", line],
            env={**os.environ, "PATH": path, "COLUMNS": "120"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        done[" ".join(line.split()[:2])] = (ran.returncode, ran.stdout + ran.stderr)
    return done


def stand_in(**env: str) -> dict[str, str]:
    folder = Path("opt").absolute()
    folder.mkdir(exist_ok=True)
    shutil.copyfile(SUPPORT / "tf_cnn_program.py", folder / "tf_cnn_benchmarks.py")
    return {"TF_CNN_BENCHMARKS": str(folder), "STAND_IN_RATE": "325.0", **env}


@pytest.mark.long
@pytest.mark.usefixtures("ground")
def test_tf_cnn_benchmarks_is_run_five_times_and_its_total_is_the_throughput() -> None:
    place("tf-cnn-benchmarks", **stand_in())
    done = play("tf-cnn-benchmarks")
    assert [code for code, _ in done.values()] == [0, 0, 0], done
    assert "images/s" in done["assay show"][1]
    readings = [json.loads(path.read_text())["reading"] for path in Path("runs").rglob("reading.json")]
    assert len(readings) == 5
    for reading in readings:
        values = {m["metric"]: m["value"] for m in reading["measurements"]}
        assert values["throughput"] == pytest.approx(325, rel=0.02)
        assert values["loss"] == 8.05, "of the last step"
        assert reading["facts"]["model"] == "resnet50"
        assert reading["facts"]["global_batch_size"] == 32
        assert {series["name"] for series in reading["series"]} == {"jitter", "loss"}


@pytest.mark.long
@pytest.mark.usefixtures("ground")
def test_with_horovod_the_total_of_all_workers_scales_and_not_a_workers_own_lines() -> None:
    place("tf-cnn-benchmarks", "openshift", **stand_in(STAND_IN_RATE="900"))
    suite = Path("examples/tf-cnn-benchmarks/horovod.yaml")
    text = suite.read_text().replace("repeats: 5", "repeats: 2")
    suite.write_text(re.sub(r"shapes: .*", "shapes: [1x1, 1x4]", text))
    ran = CliRunner().invoke(assay, ["run", str(suite)])
    assert ran.exit_code == 0, ran.output
    rows = json.loads(CliRunner().invoke(assay, ["export", "horovod", "--json"]).stdout)
    found = {(row["shape"], row["metric"], row["block"]): row["value"] for row in rows}
    for block in (1, 2):
        assert found["1x4", "worker_throughput", block] == pytest.approx(
            found["1x1", "throughput", block], rel=0.01
        )
        efficiency = found["1x4", "throughput", block] / 4 / found["1x1", "throughput", block]
        assert efficiency == pytest.approx(0.97, rel=0.001)


@pytest.mark.long
@pytest.mark.parametrize(("shape", "pods", "gpus"), long_rows_but(1, [("2x8", 2, 8), ("16x1x2", 16, 1)]))
def test_horovod_is_sent_as_an_mpijob_of_as_many_pods_and_gpus_as_its_shape_says(
    shape: str, pods: int, gpus: int
) -> None:
    suite = EXAMPLES / "tf-cnn-benchmarks" / "horovod.yaml"
    ran = CliRunner().invoke(assay, ["plan", str(suite), "--show", f"resnet50-{shape}-r01"])
    assert ran.exit_code == 0, ran.output
    [job] = [d for d in YAML(typ="safe").load_all(ran.output) if d["kind"] == "MPIJob"]
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]
    [container] = worker["template"]["spec"]["containers"]
    assert worker["replicas"] == pods
    assert str(container["resources"]["limits"]["nvidia.com/gpu"]) == str(gpus)
    assert "TF_CNN_BENCHMARKS" in ran.output


@pytest.mark.parametrize(
    ("breaks", "cause"),
    long_rows_but(
        1, [("end", "did not finish; the last step is 100"), ("loss", "the loss of step 20 is nan")]
    ),
)
@pytest.mark.usefixtures("ground")
def test_a_run_of_tf_cnn_benchmarks_that_broke_is_no_number(breaks: str, cause: str) -> None:
    place("tf-cnn-benchmarks", **stand_in(STAND_IN_BREAKS=breaks))
    ran = CliRunner().invoke(assay, ["run", "examples/tf-cnn-benchmarks/suite.yaml", "--json"])
    assert ran.exit_code == 1
    failures = json.loads(ran.stdout)["failures"]
    assert len(failures) == 5
    assert all(cause in failure["cause"] for failure in failures)


RECORDED = """\
INFO|2019-02-13T23:06:30|/opt/launcher.py|27| Batch size:  512 global
INFO|2019-02-13T23:06:30|/opt/launcher.py|27|              64 per device
INFO|2019-02-13T23:06:30|/opt/launcher.py|27| Step\tImg/sec\tloss
INFO|2019-02-13T23:06:31|/opt/launcher.py|27| 1\timages/sec: 217.5 +/- 0.0 (jitter = 0.0)\t10.611
[1,0]<stdout>:10   images/sec: 215.8 +/- 3.1 (jitter = 2.6)    8.493   0.012   0.043
[1,0]<stdout>:total images/sec: 1740.61
[1,1]<stdout>:total images/sec: 1740.58
"""


def test_lines_are_found_behind_what_launchers_put_before_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(RECORDED)
    run = cnn_run(log)
    assert values(run, "worker_throughput") == [217.5, 215.8]
    assert [dict(f.at) for f in run.figures if f.metric == "loss"] == [{"step": 1}, {"step": 10}]
    assert (values(run, "loss"), values(run, "top_1_accuracy")) == ([10.611, 8.493], [0.012])
    assert [(f.value, f.line) for f in run.figures if f.metric == "throughput"] == [
        (1740.61, 6),
        (1740.58, 7),
    ]
    assert run.facts == {"global_batch_size": 512, "batch_size": 64}
    assert (run.problems, run.skipped) == ([], 0)


@pytest.mark.parametrize("rate", ["215.8", "115.8"])
def test_two_runs_in_one_log_are_no_result(tmp_path: Path, rate: str) -> None:
    log = tmp_path / "log"
    log.write_text(RECORDED + RECORDED.replace("215.8", rate))
    [problem] = cnn_run(log).problems
    assert problem == (
        "line 11: step 1 after the total in line 6: the file holds several runs; put each run in its own file"
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("total images/sec: 0.00", "line 1: its total is not a rate"),
        ("total images/sec: nan", "line 1: its total is not a rate"),
        ("total images/sec: fast", "line 1: its total is not a rate"),
        ("Done warm up", "no line `total images/sec`: the run did not finish"),
    ],
)
def test_a_total_that_is_no_rate_is_a_problem(tmp_path: Path, line: str, problem: str) -> None:
    log = tmp_path / "log"
    log.write_text(line)
    assert cnn_run(log).problems == [problem]


@pytest.mark.parametrize(
    ("whole", "total", "problem"),
    [
        (64, "324.92", ""),
        (64, "300.10", ""),
        (64, "900.00", "line 5: its total of 900 images/s contradicts its steps, 325 images/s per process "
         "in line 4 and 1 device in all; is it from one run?"),
        (64, "32.49", "line 5: its total of 32.49 images/s contradicts"),
        (512, "2570.2", ""),
        (512, "325.20", ""),
        (512, "975.20", "line 5: its total of 975.2 images/s contradicts"),
        (None, "900.00", ""),
    ],
)  # fmt: skip
def test_a_total_that_no_number_of_processes_makes_of_the_steps_is_a_problem(
    tmp_path: Path, whole: int | None, total: str, problem: str
) -> None:
    log = tmp_path / "log"
    batches = "\n" if whole is None else f"Batch size:  {whole} global\n             64 per device"
    steps = [
        f"{step}\timages/sec: {rate} +/- 0.4 (jitter = 0.5)\t8.1" for step, rate in ((1, 310.2), (20, 325.0))
    ]
    log.write_text("\n".join([batches, *steps, f"total images/sec: {total}"]))
    assert [text.startswith(problem) for text in cnn_run(log).problems] == [True] * bool(problem)


_PIECES = st.sampled_from(
    [*RECORDED.splitlines(), "total images/sec: ", "images/sec: 1 +/- ", "nan", "\n", "\t"]
)


@given(st.lists(_PIECES | st.text(max_size=20), max_size=12))
def test_no_log_makes_the_reader_raise_or_give_a_figure_that_is_none(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str]
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "rank-0.log"
    log.write_text("".join(pieces), errors="replace")
    names = {name: {"reader": "tf_cnn_benchmarks", "unit": unit} for name, unit in CNN.items()}
    params = WORKLOADS["command"].params(argv=["true"], metrics=names)
    reading = WORKLOADS["command"].reader.read({"rank-0.log": log}, params)
    assert from_json(Reading, to_json(reading)) == reading
    assert all(math.isfinite(figure.value) for figure in reading.measurements)


def test_the_reader_gives_its_own_metrics_in_units_that_measure_the_same() -> None:
    metric = {"reader": "tf_cnn_benchmarks", "unit": "images/s"}
    params = WORKLOADS["command"].params
    with pytest.raises(ValidationError, match="reports throughput, worker_throughput"):
        params(argv=["true"], metrics={"speed": metric})
    with pytest.raises(
        ValidationError, match="found unit 's'; the reader tf_cnn_benchmarks reports images/s"
    ):
        params(argv=["true"], metrics={"throughput": metric | {"unit": "s"}})


def recorded(total: float) -> str:
    return RECORDED.replace("1740.61", f"{total:.2f}").replace("1740.58", f"{total - 0.03:.2f}")


@pytest.mark.usefixtures("ground")
def test_logs_that_others_made_are_imported_and_compared() -> None:
    for system, total in (("bare-metal", 1740.0), ("pods", 1480.0)):
        logs = [Path(f"{system}-{n}.log") for n in range(3)]
        for n, log in enumerate(logs):
            log.write_text(recorded(total + n))
        words = [
            "import",
            *map(str, logs),
            "--name",
            "published",
            "--system",
            system,
            "--benchmark",
            "resnet50",
        ]
        done = CliRunner().invoke(assay, [*words, "--json"])
        assert done.exit_code == 0, done.output
        [session] = json.loads(done.stdout)["sessions"]
        assert (session["runs"], session["failed"], session["added"]) == (3, [], True)
        [again] = json.loads(CliRunner().invoke(assay, [*words, "--json"]).stdout)["sessions"]
        assert again["added"] is False
    told = CliRunner().invoke(assay, ["compare", "published:bare-metal", "published:pods", "--json"])
    [claim] = [c for c in json.loads(told.stdout)["comparisons"] if c["metric"] == "throughput"]
    assert claim["verdict"] == "slower"
    rows = json.loads(CliRunner().invoke(assay, ["export", "published", "--json"]).stdout)
    assert {row["shape"] for row in rows} == {"1x8"}, "512 images of 64 a device"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (RECORDED.replace("1740.58", "1200.00"), "are from several runs; put each run in its own file"),
        (RECORDED.partition("[1,0]<stdout>:total")[0], "did not finish; the last step is 10"),
    ],
)
@pytest.mark.usefixtures("ground")
def test_an_imported_log_that_is_no_result_is_kept_and_says_why(log: str, cause: str) -> None:
    Path("one.log").write_text(log)
    done = CliRunner().invoke(assay, ["import", "one.log", "--name", "published", "--json"])
    [session] = json.loads(done.stdout)["sessions"]
    [failure] = session["failed"]
    assert cause in failure["cause"]


def test_a_log_that_follows_mlperfs_rules_is_read_by_those(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text(RECORDED)
    assert formats_of_file(log) == ["tf-cnn-benchmarks"]
    log.write_text(RECORDED + ":::MLPv0.5.0 resnet 1541710832.187 (train.py:371) run_start")
    assert formats_of_file(log) == ["mlperf"]


@pytest.fixture
def submission(ground: Path, mlperf_logs: Path) -> Path:
    """A submission of ResNet whose script prints the logs that were published of it, one a run."""
    folder = ground / "workspace" / "image_classification"
    folder.mkdir(parents=True)
    (folder / "config_DGXH100.sh").write_text("export BATCHSIZE=400\n")
    (folder / "run_and_time.sh").write_text(RUN_AND_TIME)
    (folder / "run_and_time.sh").chmod(0o755)
    recorded = mlperf_logs / "v3.1" / "Supermicro-RedHat" / "AS-4125GS-TNRT-RedHat-OpenShift" / "resnet"
    workspace = {"BENCHMARKS": str(ground / "workspace"), "DGXSYSTEM": "DGXH100", "RECORDED": str(recorded)}
    place("mlperf-run-and-time", **workspace)
    return folder


@pytest.mark.mlperf_logs
@pytest.mark.usefixtures("submission")
@pytest.mark.long
def test_run_and_time_is_run_five_times_and_scored_as_it_was_published() -> None:
    done = play("mlperf-run-and-time")
    codes = {words: code for words, (code, _) in done.items()}
    assert codes.pop("assay score") == 1, "a rule is broken: the logs show that dropping caches failed"
    assert set(codes.values()) == {0}, done
    score = done["assay score"][1]
    assert "20.93" in score
    assert re.search(r"fail.*caches cleared|caches cleared.*fail", score)
    rows = json.loads(CliRunner().invoke(assay, ["export", "run-and-time", "--json"]).stdout)
    assert len({row["run"] for row in rows}) == 5
    assert {row["metric"] for row in rows} == {
        "time_per_epoch",
        "time_to_train",
        "epochs_to_target",
        "throughput",
    }


@pytest.mark.long
@pytest.mark.mlperf_logs
def test_a_script_that_is_killed_half_way_has_no_score(submission: Path) -> None:
    script = submission / "run_and_time.sh"
    script.write_text(RUN_AND_TIME.replace('cat "$recorded"', 'head -n 300 "$recorded"'))
    ran = CliRunner().invoke(assay, ["run", "examples/mlperf-run-and-time/suite.yaml", "--json"])
    assert ran.exit_code == 1
    assert all("unfinished" in failure["cause"] for failure in json.loads(ran.stdout)["failures"])
