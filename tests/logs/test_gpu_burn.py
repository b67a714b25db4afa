"""Logs of gpu-burn, whole and spoilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.logs.figures import LogFigures
from assay.logs.gpu_burn import gpu_burn

BEGIN = "0.5%  proc'd: 0 (0 Gflop/s) - 0 (0 Gflop/s)   errors: 0 - 0   temps: -- - -- \r"
FIRST = "50.0%  proc'd: 1800 (4801 Gflop/s) - 1790 (4790 Gflop/s)   errors: 0 - 0   temps: 58 C - 57 C \r"
LAST = "100.0%  proc'd: 3760 (4837 Gflop/s) - 3750 (4800 Gflop/s)   errors: 0 - 0   temps: 62 C - 60 C \n"
END = "Killing processes.. done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
LOG = "Burning for 60 seconds.\n" + BEGIN + FIRST + LAST + END
POWERED = (
    "\r90.0%  proc'd: 63679 (3518 Gflop/s)   errors: 0   temps: 74 C   power: 250 W \n"
    "done\n\nTested 1 GPUs:\n\tGPU 0: OK\n"
)


def read(tmp_path: Path, text: str) -> LogFigures:
    log = tmp_path / "log"
    log.write_bytes(text.encode())
    return gpu_burn(log)


def values(found: LogFigures, metric: str, gpu: int = 0) -> list[float]:
    return [f.value for f in found.figures if f.metric == metric and f.labels["gpu"] == gpu]


def test_each_gpu_has_its_rates_and_temperatures(tmp_path: Path) -> None:
    found = read(tmp_path, LOG)
    assert values(found, "flop_rate") == [4801, 4837]
    assert values(found, "flop_rate", 1) == [4790, 4800]
    assert values(found, "temperature", 1) == [57, 60]
    assert {figure.line for figure in found.figures} == {2}
    assert (found.problems, found.skipped, found.facts) == ([], 0, {"gpus": 2})


def test_power_is_read_where_the_version_prints_it(tmp_path: Path) -> None:
    found = read(tmp_path, POWERED)
    assert values(found, "power") == [250]
    assert values(found, "temperature") == [74]
    assert found.problems == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOG.replace("GPU 1: OK", "GPU 1: FAULTY"), "GPU 1 is faulty"),
        (
            LOG.replace("errors: 0 - 0   temps: 58", "errors: 0 - 7  (WARNING!)   temps: 58"),
            "GPU 1 is faulty",
        ),
        (
            LOG.replace("3750 (4800", "-1 (4800").replace("0 - 0   temps: 62", "0 - -1  (DIED!)   temps: 62"),
            "",
        ),
        (
            LOG.replace("- 3750", "- -1").replace("0 - 0   temps: 62", "0 - 0  (DIED!)   temps: 62"),
            "GPU 1 is",
        ),
        (LOG.replace("\tGPU 1: OK\n", ""), "1 verdicts of 2 GPUs"),
        (BEGIN + FIRST + LAST, "did not come to its end"),
        (BEGIN + "\n\nNo clients are alive!  Aborting\n", "No clients are alive"),
        (BEGIN + END, "no line of progress has a rate"),
    ],
)
def test_a_faulty_gpu_or_an_unfinished_run_is_a_problem(tmp_path: Path, text: str, words: str) -> None:
    found = read(tmp_path, text)
    assert words in found.problems[0] if words else found.problems or found.skipped


@pytest.mark.parametrize(
    "torn",
    [
        LAST.replace("temps: 62 C - 60 C", "temps: 62 C"),
        LAST.replace("(4800 Gflop/s)", "(48"),
        LAST.replace("4837", "N/A"),
        LAST[:70] + "\n",
    ],
)
def test_a_torn_line_is_counted_and_never_a_number(tmp_path: Path, torn: str) -> None:
    found = read(tmp_path, FIRST + torn + END)
    assert values(found, "flop_rate") == [4801]
    assert found.skipped == 1


@given(text=st.text(max_size=100), where=st.integers(0, len(LOG)))
def test_whatever_falls_into_a_log_leaves_positive_figures_or_none(
    tmp_path_factory: pytest.TempPathFactory, text: str, where: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(LOG[:where] + text + LOG[where:], errors="replace")
    assert all(figure.value > 0 for figure in gpu_burn(log).figures)
