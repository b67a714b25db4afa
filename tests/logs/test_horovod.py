"""Logs of Horovod's synthetic benchmarks, whole and spoilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.logs.figures import LogFigures
from assay.logs.horovod import horovod

LOG = """Model: resnet50
Batch size: 32
Number of GPUs: 4
Running warmup...
Running benchmark...
Iter #0: 108.5 img/sec per GPU
Iter #1: 107.9 img/sec per GPU
Img/sec per GPU: 108.2 +-1.2
Total img/sec on 4 GPU(s): 432.8 +-4.9
"""
ON_CPUS = LOG.replace("GPU", "CPU").replace("+-", "+- ")


def read(tmp_path: Path, text: str) -> LogFigures:
    log = tmp_path / "log"
    log.write_text(text)
    return horovod(log)


def values(found: LogFigures, metric: str) -> list[float]:
    return [figure.value for figure in found.figures if figure.metric == metric]


@pytest.mark.parametrize("text", [LOG, ON_CPUS, "".join("[1,0]<stdout>:" + x for x in LOG.splitlines(True))])
def test_the_total_is_the_throughput(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert values(found, "throughput") == [432.8]
    assert values(found, "worker_throughput") == [108.2]
    assert values(found, "iteration_throughput") == [108.5, 107.9]
    assert values(found, "spread") == [1.2]
    assert found.facts == {"model": "resnet50", "batch_size": 32, "workers": 4}
    assert (found.problems, found.skipped) == ([], 0)
    assert {figure.unit for figure in found.figures} == {"images/s"}


@pytest.mark.parametrize(
    "torn", ["Total img/sec on 4 GPU(s): 32.8 +-4.9", "Total img/sec on 4 GPU(s): nan +-nan"]
)
def test_a_total_that_is_not_the_workers_together_is_torn(tmp_path: Path, torn: str) -> None:
    found = read(tmp_path, LOG.replace("Total img/sec on 4 GPU(s): 432.8 +-4.9", torn))
    assert values(found, "throughput") == []
    assert found.skipped == 1
    assert "did not come to its end" in found.problems[0]


def test_an_iteration_that_is_torn_is_counted(tmp_path: Path) -> None:
    found = read(tmp_path, LOG.replace("107.9 img", "1img"))
    assert (values(found, "iteration_throughput"), found.skipped) == ([108.5], 1)


def test_a_run_that_broke_is_a_problem(tmp_path: Path) -> None:
    assert "traceback" in read(tmp_path, LOG + "Traceback (most recent call last):\n").problems[0]


@given(text=st.text(max_size=100), where=st.integers(0, len(LOG)))
def test_whatever_falls_into_a_log_leaves_the_total_or_none(
    tmp_path_factory: pytest.TempPathFactory, text: str, where: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(LOG[:where] + text + LOG[where:], errors="replace")
    found = horovod(log)
    assert all(value > 0 for value in values(found, "throughput"))
    assert found.problems or values(found, "throughput")
