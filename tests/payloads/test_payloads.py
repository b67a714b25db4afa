"""The programs that trials run, started as they are: alone, and as two ranks that meet."""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from assay import payload_files
from assay.records import Reading, Shape
from assay.workloads import WORKLOADS
from conftest import require
from payload_processes import Forks, end, free_port, run_workload, torchrun

SMALL: Mapping[str, dict[str, Any]] = {
    "resnet50": {"batch_size": 2, "image_size": 32, "steps": 3, "warmup": 1, "window": 2},
    "digits": {"target": 0.9},
    "matmul": {"sizes": [64, 96], "dtypes": ["fp32", "bf16"], "min_time_s": 0.02},
    "membw": {"min_time_s": 0.05},
    "allreduce": {"payload_bytes": [8, 4096], "min_time_s": 0.02},
}

Run = Callable[..., Reading]
Fail = Callable[..., tuple[int, str, str]]


def program_of(name: str) -> str:
    """The module that a workload runs."""
    _python, _m, program, *_ = WORKLOADS[name].task(WORKLOADS[name].params(), Shape(1, 2), 1).argv
    return program


@pytest.fixture
def load() -> Callable[[str], Any]:
    """Loader of a program as a module."""
    require("torch", find_spec("torchvision") is not None, "the payloads import torch and torchvision")
    return import_module


@pytest.fixture
def run(tmp_path: Path, forks: Forks) -> Run:
    """Runs a workload in its small form; the job must end well."""

    def run(name: str, ranks: int = 1, seed: int = 1, **params: Any) -> Reading:
        asked = SMALL[name] | {"device": "cpu"} | params
        return run_workload(tmp_path, name, ranks, seed, asked, forks.start)

    return run


@pytest.fixture
def fail(tmp_path: Path, forks: Forks) -> Fail:
    """Runs a program that is expected not to end well: exit code, standard output and standard error."""

    def fail(name: str, *options: str) -> tuple[int, str, str]:
        log = tmp_path / "out.log"
        code, errors = end(forks.start(["{python}", "-m", program_of(name), *options], tmp_path, {}, log))
        return code, log.read_text(), errors

    return fail


@pytest.mark.parametrize("name", SMALL)
def test_a_program_imports_the_standard_library_torch_and_what_travels_beside_it(name: str) -> None:
    path = payload_files.path_of(program_of(name))
    assert "assay_payloads/measuring/rank.py" in payload_files.travelling(program_of(name))
    torch = ["torch", *(["torchvision"] if name == "resnet50" else [])]
    allowed = {*sys.stdlib_module_names, *torch, "assay_payloads"}
    tree = ast.parse(payload_files.source(path))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} <= allowed


def test_the_digits_are_the_file_that_their_note_describes() -> None:
    data = payload_files.source("assay_payloads/datasets/digits.csv.gz")
    assert (
        hashlib.sha256(data).hexdigest() in payload_files.source("assay_payloads/datasets/digits.md").decode()
    )
    rows = [[int(field) for field in row] for row in csv.reader(gzip.decompress(data).decode().splitlines())]
    assert len(rows) == 1797
    assert all(len(row) == 65 and 0 <= row[64] <= 9 and max(row[:64]) <= 16 for row in rows)


RANKS = [(name, ranks) for name in SMALL for ranks in (1, 2) if (name, ranks) != ("allreduce", 1)]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        pytest.param(*of, marks=[pytest.mark.long] if of[1] == 1 or of[0] in ("resnet50", "membw") else [])
        for of in RANKS
    ],
)
def test_a_program_runs_on_one_and_two_ranks_and_its_log_is_a_whole_result(
    run: Run, name: str, ranks: int
) -> None:
    reading = run(name, ranks)
    assert reading.problems == ()
    assert reading.skipped_lines == 0
    workload = WORKLOADS[name]
    assert {m.metric for m in reading.measurements} == {
        metric.name for metric in workload.reader.metrics(workload.params(**SMALL[name]))
    }
    assert all(m.value > 0 for m in reading.measurements)
    stated = {"world_size": ranks, "device": "cpu", "backend": "gloo" if ranks > 1 else "none", "threads": 1}
    assert stated.items() <= reading.facts.items()
    assert {"torch_version", "device_name"} <= reading.facts.keys()


@pytest.mark.torch
def test_output_is_log_lines_alone_and_each_size_and_format_of_matmul_is_a_point(
    run: Run, tmp_path: Path
) -> None:
    reading = run("matmul")
    points = [(m.labels["size"], m.labels["dtype"]) for m in reading.measurements if m.metric == "flop_rate"]
    assert points == [(64, "fp32"), (96, "fp32"), (64, "bf16"), (96, "bf16")]
    lines = (tmp_path / "rank-0.log").read_text().splitlines()
    entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    assert [entry["metadata"]["seq"] for entry in entries] == list(range(len(lines)))
    files = {entry["key"]: entry["metadata"]["file"] for entry in entries}
    assert (files["flop_rate"], files["device"]) == ("matmul.py", "rank.py")


@pytest.mark.torch
def test_bandwidths_of_an_allreduce_follow_from_its_time(run: Run) -> None:
    reading = run("allreduce", 2)
    found = {(m.metric, m.labels["payload_bytes"]): m.value for m in reading.measurements}
    for size in (8, 4096):
        assert found["algbw", size] == pytest.approx(size / found["latency", size])
        assert found["busbw", size] == pytest.approx(found["algbw", size])  # 2(n-1)/n is 1 for two ranks


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.long
def test_resnet50_states_what_it_trained_and_each_window(run: Run) -> None:
    reading = run("resnet50", 2, precision="bf16")
    stated = {"global_batch_size": 4, "batch_size": 2, "image_size": 32, "precision": "bf16", "seed": 1}
    assert stated.items() <= reading.facts.items()
    assert {
        "torchvision_version",
        "channels_last",
        "deterministic",
        "throughput_spread",
    } <= reading.facts.keys()
    assert reading.facts["gradient_bytes"] == 4 * 25_557_032, "ResNet-50's weights in fp32, whatever autocast"
    series = {series.name: series for series in reading.series}
    assert series["throughput"].x == (2.0, 3.0)  # the last window is what is left
    measured = {m.metric: m.value for m in reading.measurements}
    assert measured["throughput"] == pytest.approx(4 / measured["step_time"])


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.long
def test_half_precision_trains_too(run: Run) -> None:
    assert run("resnet50", precision="fp16").problems == ()


def accuracies(reading: Reading) -> tuple[float, ...]:
    return next(series.y for series in reading.series if series.name == "accuracy")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.long
def test_the_seed_decides_the_course_of_the_training_and_not_the_number_of_ranks(
    run: Run,
) -> None:
    one, two, other = (run("digits", ranks, seed) for ranks, seed in ((1, 3), (2, 3), (1, 4)))
    assert accuracies(one)[:3] == pytest.approx(accuracies(two)[:3], abs=0.01)
    assert accuracies(one) != accuracies(other)
    assert accuracies(run("digits", 1, 3)) == accuracies(one)


@pytest.mark.torch
def test_a_training_logs_what_mlperfs_rules_ask_for(run: Run, tmp_path: Path) -> None:
    reading = run("digits")
    assert reading.training is not None
    assert reading.training.status == "success"
    assert reading.training.benchmark == "digits"
    measured = {m.metric: m.value for m in reading.measurements}
    assert reading.training.epochs == measured["epochs_to_target"]
    assert reading.training.minutes == pytest.approx(measured["time_to_train"] / 60, abs=0.002 / 60)
    lines = (tmp_path / "rank-0.log").read_text().splitlines()
    keys = [json.loads(line.removeprefix(":::MLLOG "))["key"] for line in lines]
    once = {"submission_org", "submission_platform", "submission_division", "submission_status"}
    once |= {"submission_benchmark", "init_start", "init_stop", "run_start", "run_stop", "train_samples"}
    once |= {"eval_samples", "gradient_accumulation_steps", "global_batch_size", "seed", "opt_name"}
    assert all(keys.count(key) == 1 for key in once)
    for key in (
        "epoch_start",
        "epoch_stop",
        "block_start",
        "block_stop",
        "eval_start",
        "eval_accuracy",
        "eval_stop",
    ):
        assert keys.count(key) == measured["epochs_to_target"]
    assert "cache_clear" not in keys  # no cache is cleared, so none is claimed


@pytest.mark.torch
def test_a_training_that_gives_up_ends_well_and_is_no_result(run: Run) -> None:
    reading = run("digits", target=1.0, max_epochs=1)
    assert reading.problems[0].startswith("target accuracy 1 was not reached: aborted")
    assert {m.metric for m in reading.measurements} == {"time_per_epoch", "throughput"}


@pytest.mark.torch
def test_a_training_that_diverges_fails_and_gives_no_figure(
    fail: Fail,
) -> None:
    options = ["--batch-size=2", "--image-size=32", "--steps=3", "--warmup=0", "--window=3", "--device=cpu"]
    code, out, errors = fail("resnet50", *options, "--learning-rate=1e30")
    assert code == 1
    assert "not finite" in errors
    assert '"unit"' not in out


@pytest.mark.torch
def test_arrays_that_the_cache_holds_are_refused(fail: Fail) -> None:
    require(
        "last-level-cache",
        any(Path("/sys/devices/system/cpu").glob("cpu0/cache/index*")),
        "the system doesn't say how large its caches are",
    )
    code, out, errors = fail("membw", "--array-bytes", "4096", "--device=cpu")
    assert code == 1
    assert "would measure the cache; set --array-bytes" in errors
    assert '"unit"' not in out


@pytest.mark.torch
def test_arrays_that_memory_does_not_hold_are_refused_before_they_are_made(
    fail: Fail,
) -> None:
    code, out, errors = fail("membw", "--array-bytes", str(10**15), "--device=cpu")
    assert (code, "bandwidth" in out) == (1, False)
    assert "take 3000000536870912 bytes, but the job may use" in errors
    assert "give it more memory" in errors


SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1"}
OPEN_MPI = {f"OMPI_COMM_WORLD_{n}": v for n, v in {"RANK": "1", "SIZE": "2", "LOCAL_RANK": "1"}.items()}
TORCHRUN = torchrun(1, 2, 29500)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        (SLURM, "rank 1: 2 ranks need MASTER_ADDR and MASTER_PORT; found '' and ''"),
        (OPEN_MPI | {"MASTER_ADDR": "127.0.0.1"}, "rank 1: 2 ranks need MASTER_ADDR and MASTER_PORT"),
        (TORCHRUN | {"MASTER_PORT": "many"}, "MASTER_PORT=many is not a port"),
        (TORCHRUN | {"MASTER_PORT": "99999999"}, "is not a port"),
        (TORCHRUN | {"MASTER_ADDR": "no such.host"}, "MASTER_ADDR=no such.host can't be resolved"),
        (TORCHRUN | {"RANK": "2"}, "rank 2 \\(local 1\\) of 2 ranks can't be"),
        (TORCHRUN | {"WORLD_SIZE": ""}, "RANK=1, WORLD_SIZE=, LOCAL_RANK=1"),
        ({"RANK": "0"}, "WORLD_SIZE=\\(not set\\)"),
    ],
)
def test_ranks_that_can_not_meet_say_why(
    load: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    env: dict[str, str],
    complaint: str,
) -> None:
    rank = load("assay_payloads.measuring.rank")
    for name in {name for names in rank.VARIABLES for name in names} | {"MASTER_ADDR", "MASTER_PORT"}:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=complaint):
        rank.Rank()
    assert capsys.readouterr().out == ""


@pytest.mark.torch
def test_an_allreduce_of_one_rank_fails_with_a_message(fail: Fail) -> None:
    code, out, errors = fail("collectives", "--device=cpu")
    assert code == 1
    assert errors == (
        "collectives.py: rank 0: an exchange needs at least 2 ranks: start it with torchrun, srun, or "
        "mpirun\n"
    )
    assert '"unit"' not in out


@pytest.mark.torch
def test_wrong_options_are_usage_errors(fail: Fail) -> None:
    for name, option in [("collectives", "--payload-bytes=6"), ("digits", "--global-batch-size=60")]:
        code, out, errors = fail(name, option)
        assert (code, out) == (2, "")
        assert "multiples of 4" in errors or "must divide" in errors


@pytest.mark.torch
@pytest.mark.parametrize("names", [tuple(SLURM), tuple(OPEN_MPI)])
def test_ranks_started_by_slurm_or_open_mpi_meet_as_well(
    tmp_path: Path, forks: Forks, names: tuple[str, str, str]
) -> None:
    argv = [
        "{python}",
        "-m",
        program_of("collectives"),
        "--payload-bytes=8",
        "--min-time-s=0.01",
        "--device=cpu",
    ]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    logs = {f"rank-{rank}.log": tmp_path / f"rank-{rank}.log" for rank in (0, 1)}
    started = [
        forks.start(argv, tmp_path, meeting | dict(zip(names, (str(rank), "2", str(rank)), strict=True)), log)
        for rank, log in enumerate(logs.values())
    ]
    assert [end(process)[0] for process in started] == [0, 0]
    params = WORKLOADS["allreduce"].params(payload_bytes=[8])
    assert WORKLOADS["allreduce"].reader.read(logs, params).problems == ()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_a_product_that_lost_a_part_of_its_sum_is_found_and_a_right_one_passes(load: Any, dtype: str) -> None:
    matmul = load("assay_payloads.micro.matmul")
    torch = matmul.torch
    torch.manual_seed(1)
    kind, tolerance = matmul.DTYPES[dtype]
    a, b = (torch.randn(512, 512).to(kind) for _ in range(2))
    assert matmul.largest_error(a, b, a @ b) <= tolerance
    assert matmul.largest_error(a, b, a[:, :508] @ b[:508]) > tolerance
    assert not matmul.largest_error(a, b, torch.full_like(a, float("nan"))) <= tolerance


@pytest.mark.torch
@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "alltoall", "sendrecv"])
def test_an_exchange_that_loses_one_element_is_found(
    load: Any, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    collectives = load("assay_payloads.exchange.collectives")
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    rank = collectives.Rank()
    rank.device = collectives.torch.device("cpu")
    lost = 0

    def alone(send: Any, receive: Any, _rank: Any) -> None:  # what one rank exchanges with itself
        receive.copy_(send)
        receive[7] += lost

    changed = collectives.OPERATIONS[operation]._replace(exchange=alone)
    collectives.CollectiveExchange(rank, operation, changed, 4000).check()
    lost = 1
    with pytest.raises(
        SystemExit, match=f"1 of 1000 elements differ from the expected result of {operation}"
    ):
        collectives.CollectiveExchange(rank, operation, changed, 4000).check()


EVERY_OPERATION = """
from assay_payloads.exchange import collectives
rank = collectives.Rank()
rank.join("cpu")
for name in collectives.OPERATIONS:
    collectives.CollectiveExchange(rank, name, collectives.OPERATIONS[name], 4096).measure(0.01)
rank.leave()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_every_exchange_between_three_ranks_is_right_and_counted_as_nccl_tests_do(
    tmp_path: Path, forks: Forks
) -> None:
    payload_files.lay_out(tmp_path, payload_files.files(program_of("collectives")))
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    started = [
        forks.start(
            ["{python}", "-c", EVERY_OPERATION],
            tmp_path,
            meeting | {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank)},
            tmp_path / f"rank-{rank}.log",
        )
        for rank in range(3)
    ]
    assert [end(process)[0] for process in started] == [0, 0, 0]
    lines = [line.partition(" ")[2] for line in (tmp_path / "rank-0.log").read_text().splitlines()]
    told = [json.loads(line) for line in lines if '"unit"' in line]
    figures = [(line["value"], line["metadata"]["labels"]["payload_bytes"]) for line in told]
    found = [
        (busbw / algbw, size, algbw * latency)
        for (busbw, size), (algbw, _), (latency, _) in zip(*[iter(figures)] * 3, strict=True)
    ]
    expected = {"all_reduce": (4 / 3, 4096), "all_gather": (2 / 3, 4092), "reduce_scatter": (2 / 3, 4092)}
    expected |= {"alltoall": (2 / 3, 4092), "broadcast": (1.0, 4096), "sendrecv": (1.0, 4096)}
    assert len(found) == len(expected)
    for (bus, size, moved), (factor, whole) in zip(found, expected.values(), strict=True):
        assert (bus, moved) == (pytest.approx(factor), pytest.approx(whole))
        assert size == whole
