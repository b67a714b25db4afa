"""Workloads nvbandwidth and gpu-burn: the program on each node, here one that prints what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_gpu_burn import LOG
from test_nvbandwidth import V0_8

from assay.cli import assay
from assay.payload_files import lay_out
from assay.records import Shape
from assay.workloads.micro import GPU_BURN, NVBANDWIDTH, GpuBurnParams, NvbandwidthParams
from payload_processes import end, start


def stand_in(directory: Path, name: str, recorded: str, exit_code: int = 0) -> str:
    """A program that prints what the real one printed elsewhere, how it was called, and where."""
    place = directory / "bin"
    place.mkdir()
    program = place / name
    program.write_text(f"#!/bin/sh\necho called: $* in $PWD\ncat <<'END'\n{recorded}END\nexit {exit_code}\n")
    program.chmod(0o755)
    return str(program)


def assay_run(directory: Path, workload: str, shape: str = "1x2", **params: Any) -> tuple[Result, Any]:
    """One trial by `assay run`, and what `assay show --json` has of it."""
    suite = {"suite": "gpus", "workload": workload, "params": params, "shapes": [shape]}
    (directory / "suite.yaml").write_text(json.dumps({**suite, "systems": ["local"], "repeats": 1}))
    runs = ["--runs", str(directory / "runs")]
    done = CliRunner().invoke(assay, ["run", str(directory / "suite.yaml"), *runs])
    shown = CliRunner().invoke(assay, ["show", "gpus", "--json", *runs])
    assert shown.exit_code == 0, done.output + shown.output
    (found,) = json.loads(shown.stdout)["runs"]
    return done, found


def log_of(directory: Path) -> str:
    (log,) = directory.glob("runs/gpus/*/*/attempt-1/logs/rank-0.log")
    return log.read_text()


def test_nvbandwidth_runs_once_a_node_and_its_matrices_are_figures(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "nvbandwidth", V0_8)
    tests = ["device_to_device_memcpy_read_ce"]
    done, found = assay_run(tmp_path, "nvbandwidth", program=program, tests=tests, samples=5, buffer_mib=64)
    assert done.exit_code == 0, done.output
    figures = {
        (m["metric"], m["labels"].get("row"), m["labels"].get("column")): m for m in found["measurements"]
    }
    assert figures["bandwidth", 0, 1]["value"] == pytest.approx(26.34e9)
    assert figures["bandwidth_sum", None, None]["value"] == pytest.approx(52.69e9)
    assert figures["latency", 1, 0]["value"] == pytest.approx(651e-9)
    line = figures["bandwidth", 0, 1]["line"]
    assert "26.34" in log_of(tmp_path).splitlines()[line - 1]
    assert "called: -t device_to_device_memcpy_read_ce -i 5 -b 64 in" in log_of(tmp_path)
    assert found["facts"]["nvbandwidth_version"] == "0.8"


def test_gpu_burn_runs_where_it_lies_and_its_medians_are_figures(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "gpu_burn", LOG)
    given = {"seconds": 7, "precision": "double", "tensor_cores": True, "memory_percent": 50}
    done, found = assay_run(tmp_path, "gpu-burn", program=program, **given)
    assert done.exit_code == 0, done.output
    figures = {(m["metric"], m["labels"].get("gpu")): m["value"] for m in found["measurements"]}
    assert figures["flop_rate", 0] == pytest.approx(4819e9)
    assert figures["temperature", 1] == 60
    assert f"called: -d -tc -m 50% 7 in {tmp_path}/bin" in log_of(tmp_path)


def test_a_faulty_gpu_is_no_result(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "gpu_burn", LOG.replace("GPU 1: OK", "GPU 1: FAULTY"))
    done, found = assay_run(tmp_path, "gpu-burn", program=program)
    assert done.exit_code == 1
    assert found["measurements"] == []
    assert "GPU 1 is faulty" in found["cause"]


def test_a_program_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "nvbandwidth", "CUDA_ERROR_NO_DEVICE: no GPU here\n", exit_code=3)
    _, found = assay_run(tmp_path, "nvbandwidth", program=program)
    assert "nvbandwidth exited 3: CUDA_ERROR_NO_DEVICE" in found["cause"]


@pytest.mark.parametrize(("workload", "name"), [("nvbandwidth", "nvbandwidth"), ("gpu-burn", "gpu_burn")])
def test_a_program_that_is_not_there_is_named(tmp_path: Path, workload: str, name: str) -> None:
    suite = {"suite": "gpus", "workload": workload, "params": {"program": f"/no/such/{name}"}}
    (tmp_path / "suite.yaml").write_text(json.dumps({**suite, "systems": ["local"]}))
    refused = CliRunner().invoke(
        assay, ["run", str(tmp_path / "suite.yaml"), "--runs", str(tmp_path / "runs")]
    )
    assert f"found /no/such/{name}; this program does not exist on this machine" in str(refused.exception)


def test_each_nodes_figures_are_told_from_the_others(tmp_path: Path) -> None:
    params = NvbandwidthParams(program=stand_in(tmp_path, "nvbandwidth", V0_8))
    task = NVBANDWIDTH.task(params, Shape(2, 1, 2), 1)
    lay_out(tmp_path, {file.name: file.data for file in task.files})
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    logs = {}
    for rank in range(2):
        logs[f"rank-{rank}.log"] = log = tmp_path / f"rank-{rank}.log"
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "GROUP_RANK": str(rank)}
        assert end(start(list(task.argv), tmp_path, {**meeting, **place}, log)) == (0, "")
    reading = NVBANDWIDTH.reader.read(logs, params)
    assert reading.problems == ()
    assert {(m.labels["node"], m.file) for m in reading.measurements} == {
        (0, "rank-0.log"),
        (1, "rank-1.log"),
    }


def test_without_a_report_there_is_no_result(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text(LOG)
    reading = GPU_BURN.reader.read({"rank-0.log": log}, GpuBurnParams())
    assert reading.measurements == ()
    assert reading.problems
