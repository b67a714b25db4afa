"""Logs of timm's train.py and benchmark.py, whole and spoilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.logs.figures import LogFigures
from assay.logs.timm import timm

OLD = (
    "Train: 9 [1250/1299 ( 96%)]  Loss: 3.821 (3.89)  Time: 0.161s, 6350.47/s  "
    "(0.245s, 4182.58/s)  LR: 1.000e-01  Data: 0.006 (0.011)\n"
)
NEW = (
    "Train: 0 [   0/312 (  0%)]  Loss:  6.957210 (6.9572)  Time: 3.161s,   80.99/s  "
    "(3.161s,   80.99/s)  LR: 1.0e-05  Data: 1.006 (1.006)\n"
)
TEST = (
    "Test: [  48/48]  Time: 0.107 (0.204)  Loss:  0.9104 (1.2117)  Acc@1: 80.1125 ( 77.1290)  "
    "Acc@5: 94.5755 ( 93.1040)\n"
)
BENCHMARK = """Running train benchmark on resnet50 for 40 steps w/ batch size 256.
Train [8/40]. 455.00 samples/sec. 562.637 ms/step.
Train [40/40]. 456.90 samples/sec. 560.297 ms/step.
Train benchmark of resnet50 done. 456.78 samples/sec, 561.10 ms/sample
--result
"""


def read(tmp_path: Path, text: str) -> LogFigures:
    log = tmp_path / "log"
    log.write_text(text)
    return timm(log)


def values(found: LogFigures, metric: str) -> list[float]:
    return [figure.value for figure in found.figures if figure.metric == metric]


def test_lines_of_training_have_the_epochs_rate_and_the_intervals(tmp_path: Path) -> None:
    found = read(tmp_path, NEW + OLD + TEST)
    assert values(found, "throughput") == [80.99, 4182.58]
    assert values(found, "interval_throughput") == [80.99, 6350.47]
    assert values(found, "loss") == [6.9572, 3.89]
    assert values(found, "top_1_accuracy") == [77.129]
    assert [dict(f.at) for f in found.figures if f.metric == "loss"][1] == {
        "step": 9 * 1299 + 1250,
        "epoch": 9,
    }
    assert (found.problems, found.skipped) == ([], 0)


def test_the_benchmarks_last_line_has_rate_and_step_time(tmp_path: Path) -> None:
    found = read(tmp_path, BENCHMARK)
    assert {f.metric: (f.value, f.unit) for f in found.figures} == {
        "throughput": (456.78, "samples/s"),
        "step_time": (561.10, "ms"),
    }
    assert found.figures[0].labels == {"phase": "train", "model": "resnet50"}


@pytest.mark.parametrize(
    "torn",
    [
        OLD[:70] + "\n",
        OLD.replace("4182.58", "N/A"),
        OLD.replace("6350.47", "nan"),
        OLD.replace("0.245s", "0.0s"),
    ],
)
def test_a_torn_line_is_counted_and_never_a_number(tmp_path: Path, torn: str) -> None:
    found = read(tmp_path, NEW + torn)
    assert values(found, "throughput") == [80.99]
    assert found.skipped == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OLD.replace("3.821 (3.89)", "nan (nan)"), "no training"),
        (BENCHMARK.partition("Train benchmark")[0], "did not come to its end"),
        (BENCHMARK.partition("Train [")[0] + '    "error": "CUDA out of memory."\n', "CUDA out of memory"),
        (OLD + "Traceback (most recent call last):\n", "traceback"),
        ("", "no line has a figure"),
    ],
)
def test_what_failed_or_measured_nothing_is_a_problem(tmp_path: Path, text: str, words: str) -> None:
    assert words in read(tmp_path, text).problems[0]


@given(text=st.text(max_size=100), where=st.integers(0, len(OLD + TEST)))
def test_whatever_falls_into_a_log_leaves_positive_rates_or_none(
    tmp_path_factory: pytest.TempPathFactory, text: str, where: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text((OLD + TEST)[:where] + text + (OLD + TEST)[where:], errors="replace")
    assert all(value > 0 for value in values(timm(log), "throughput"))
