"""Modes of workload collectives: what each backend can be told, and what NCCL's lines say it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import InputError
from assay.records import Shape
from assay.workloads.exchange import COLLECTIVES, NCCL_TESTS, CollectivesParams, NcclTestsParams

PAIR = Shape(2, 1)


def env(**params: str) -> dict[str, str]:
    return dict(COLLECTIVES.task(CollectivesParams.model_validate(params), PAIR, 1).env)


def test_a_mode_is_an_environment_and_no_option_of_the_program() -> None:
    task = COLLECTIVES.task(CollectivesParams(backend="mpi", mode="tcp"), PAIR, 1)
    assert task.env["OMPI_MCA_btl"] == "self,tcp"
    assert "--mode" not in task.argv
    assert env(backend="mpi", mode="shared-memory")["OMPI_MCA_btl"] == "self,vader"
    assert env() == {}


def test_nccl_is_told_as_nccl_tests_tell_it_and_asked_to_say_what_it_does() -> None:
    there = dict(NCCL_TESTS.task(NcclTestsParams(mode="gpudirect"), PAIR, 1).env)
    assert env(backend="nccl", mode="gpudirect") == there
    assert there["NCCL_DEBUG"] == "INFO"


@pytest.mark.parametrize(
    ("backend", "mode", "instead"),
    [("auto", "tcp", "nccl or mpi"), ("gloo", "gpudirect", "nccl"), ("nccl", "shared-memory", "mpi")],
)
def test_a_mode_that_the_backend_can_not_be_told_is_refused(backend: str, mode: str, instead: str) -> None:
    with pytest.raises(InputError, match=f"backend {backend} has no mode {mode}; set backend: {instead}"):
        env(backend=backend, mode=mode)


def test_what_nccl_did_is_read_beside_the_figures(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text("node-a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n")
    params = CollectivesParams(backend="nccl", mode="infiniband")
    facts = COLLECTIVES.reader.read({"rank-0.log": log}, params).facts
    assert (facts["nccl_mode"], facts["nccl_links.sockets"]) == ("infiniband", 1)
    assert "nccl_mode" not in COLLECTIVES.reader.read({"rank-0.log": log}, CollectivesParams()).facts


@pytest.mark.parametrize(
    ("operation", "factor"),
    [("all_reduce", "2(n−1)/n"), ("alltoall", "(n−1)/n"), ("broadcast", "× 1"), ("sendrecv", "× 1")],
)
def test_the_words_of_bus_bandwidth_are_those_of_the_operation(operation: str, factor: str) -> None:
    for workload in (COLLECTIVES, NCCL_TESTS):
        params = workload.params.model_validate({"operation": operation})
        assert factor in workload.reader.metrics(params)[0].about
