"""Workload nccl-tests: how it is started, what is read and doubted. The program itself needs GPUs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_doubts_machine import raised as doubts_of
from test_doubts_machine import runs
from test_nccl_tests import V2_13

from assay.errors import InputError
from assay.payload_files import lay_out
from assay.records import Shape
from assay.workloads.exchange import NCCL_TESTS, NcclTestsParams
from assay_payloads.exchange.nccl_tests import gpus_here

SOCKETS = "node-a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n"
RDMA = SOCKETS.replace("NET/Socket/0", "NET/IB/0/GDRDMA")


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": "0"}, 8),
        ({"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": "3"}, 0),
        (
            {
                "RANK": "0",
                "WORLD_SIZE": "16",
                "LOCAL_WORLD_SIZE": "8",
                "LOCAL_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "16",
            },
            1,
        ),
        ({"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": "0", "PMIX_RANK": "1"}, 8),
        ({"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": "1", "PMIX_RANK": "1"}, 0),
    ],
    ids=["one process for a node", "another rank of it", "mpirun", "srun", "another rank below srun"],
)
def test_a_process_takes_the_gpus_that_no_other_takes(environment: Mapping[str, str], gpus: int) -> None:
    assert gpus_here(environment) == gpus


def test_workers_without_mpi_are_refused_with_what_to_do() -> None:
    with pytest.raises(SystemExit, match="kind: mpijob"):
        gpus_here({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"})


def test_one_rank_has_nobody_to_exchange_with() -> None:
    with pytest.raises(InputError, match="at least 2 GPUs"):
        NCCL_TESTS.task(NcclTestsParams(), Shape(1, 1), 1)


def stand_in(directory: Path, text: str) -> Path:
    """A program that prints what the real one printed elsewhere, and how it was called."""
    path = directory / "all_reduce_perf"
    path.write_text(f"#!/bin/sh\necho called: $*\ncat <<'END'\n{text}END\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def start(directory: Path, params: NcclTestsParams) -> subprocess.CompletedProcess[str]:
    task = NCCL_TESTS.task(params, Shape(1, 2), 1)
    lay_out(directory, {file.name: file.data for file in task.files})
    argv = [sys.executable if word == "{python}" else word for word in task.argv]
    ranks = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0", "RANK": "0"}
    env = {**os.environ, **task.env, **ranks}
    return subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, check=False)


def test_it_is_started_with_its_sizes_and_all_gpus_and_its_table_is_read(tmp_path: Path) -> None:
    params = NcclTestsParams(
        program=str(stand_in(tmp_path, RDMA + V2_13)), mode="gpudirect", max_bytes=1 << 25
    )
    done = start(tmp_path, params)
    assert done.returncode == 0, done.stderr
    assert "called: -b 8 -e 33554432 -f 2 -d float -n 20 -w 5 -c 1 -g 2" in done.stdout
    (tmp_path / "rank-0.log").write_text(done.stdout)
    reading = NCCL_TESTS.reader.read({"rank-0.log": tmp_path / "rank-0.log"}, params)
    assert reading.problems == ()
    figures = {(m.metric, m.labels["buffers"]): m.value for m in reading.measurements}
    assert figures["busbw", "out-of-place"] == pytest.approx(300.51e9, rel=1e-3)
    assert figures["latency", "in-place"] == pytest.approx(195.40e-6)
    assert reading.facts["nccl_links.GPUDirect RDMA"] == 1
    assert reading.facts["nccl_mode"] == "gpudirect"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = start(tmp_path, NcclTestsParams(program="/no/such/all_reduce_perf"))
    assert done.returncode == 1
    assert "/no/such/all_reduce_perf can't be started" in done.stderr


def test_wrong_values_are_a_failure_and_no_figure(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text(V2_13.replace("values : 0 OK", "values : 4 FAILED"))
    reading = NCCL_TESTS.reader.read({"rank-0.log": log}, NcclTestsParams())
    assert reading.measurements == ()
    assert "4 values out of bounds" in reading.problems[0]


@pytest.mark.parametrize(
    ("mode", "facts", "raised"),
    [
        ("gpudirect", {"nccl_links.sockets": 16, "nccl_links.P2P": 14}, True),
        ("gpudirect", {"nccl_links.InfiniBand": 16}, True),
        ("gpudirect", {"nccl_links.GPUDirect RDMA": 16, "nccl_links.P2P": 14}, False),
        ("tcp", {"nccl_links.sockets": 16}, False),
        ("auto", {"nccl_links.sockets": 16}, False),
        ("gpudirect", {}, False),
    ],
)
def test_another_transport_than_was_asked_for_is_doubted(
    mode: str, facts: Mapping[str, int], raised: bool
) -> None:
    found = runs(nodes=({},), facts={"nccl_mode": mode, **facts}, shape="2x8")
    doubt = doubts_of(found).get("other-transport")
    assert (doubt is not None) is raised
    if doubt is not None:
        assert f"requested {mode}" in doubt.evidence
