"""Whole published rounds: each score is the official one, each throughput the log's own, or has its reason.

The rounds are outside of the repository; `mlperf_rounds_apart.csv` lists what differs, each with its reason.
"""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest

from assay.analyse.mlperf.score import ScoredSet
from assay.api.scores import scored_sets
from conftest import ROOT

APART = ROOT / "tests" / "mlperf_rounds_apart.csv"
ROUNDS = ("v1.1", "v2.0", "v3.0", "v4.0")
SCORE_MINUTES = 0.00011  # the expected ones have four digits
THROUGHPUT = 0.02


def apart(what: str) -> dict[str, str]:
    """The sets that differ, with the figure that they have."""
    with APART.open(newline="") as file:
        return {row["set"]: row["figure"] for row in csv.DictReader(file) if row["what"] == what}


@pytest.fixture(scope="module", params=ROUNDS)
def scored(request: pytest.FixtureRequest, mlperf_rounds: Path) -> Iterator[Mapping[str, ScoredSet]]:
    """The sets of a round, by their folders."""
    with (
        TemporaryDirectory() as folder,
        tarfile.open(mlperf_rounds / f"training_{request.param}.tar.xz") as round_,
    ):
        round_.extractall(folder, filter="data")
        yield {found.name: found for found in scored_sets([Path(folder)])}


@pytest.fixture
def expected(mlperf_rounds: Path, scored: Mapping[str, ScoredSet]) -> dict[str, dict[str, str]]:
    """What others worked out for the sets of this round."""
    root = next(iter(scored)).split("/")[0]
    with (mlperf_rounds / "expected.csv").open(newline="") as file:
        return {row["set"]: row for row in csv.DictReader(file) if row["set"].split("/")[0] == root}


@pytest.mark.slow
def test_every_set_has_the_official_score_or_is_in_the_list(
    scored: Mapping[str, ScoredSet], expected: Mapping[str, Mapping[str, str]]
) -> None:
    listed, wrong = apart("score"), []
    for name, row in expected.items():
        score = scored[name].score
        if (score.runs, score.converged) != (int(row["runs"]), int(row["successful"])):
            wrong.append(f"{name}: {score.converged} of {score.runs} runs")
        official = float(row["official_minutes"]) if row["official_minutes"] else None
        if name in listed:
            assert score.minutes is None
            assert score.official == pytest.approx(float(listed[name]), abs=SCORE_MINUTES)
        minutes = score.official if name in listed else score.minutes
        if minutes != (None if official is None else pytest.approx(official, abs=SCORE_MINUTES)):
            wrong.append(f"{name}: {minutes} min, {official} expected")
    assert len(expected) > 100
    assert not wrong


@pytest.mark.slow
def test_throughput_in_training_is_the_log_s_own_or_stands_in_the_list(
    scored: Mapping[str, ScoredSet],
) -> None:
    listed, wrong, compared = apart("throughput"), [], 0
    for name, found in scored.items():
        ratios = [
            run.training_samples_per_s / run.tracked_samples_per_s
            for run in found.runs
            if run.training_samples_per_s and run.tracked_samples_per_s
        ]
        compared += bool(ratios)
        if ratios and name in listed and f"{median(ratios):.3f}" != listed[name]:
            wrong.append(f"{name}: {median(ratios):.3f}, but the list says {listed[name]}")
        if ratios and name not in listed and abs(median(ratios) - 1) > THROUGHPUT:
            wrong.append(f"{name}: {median(ratios):.3f} of the log's own")
        doubts = [doubt.code for run in found.runs for doubt in run.doubts]
        wrong += [f"{name}: {code}" for code in {"throughput-contradicts", "events-out-of-order"} & {*doubts}]
    assert compared > 100
    assert not wrong


@pytest.mark.slow
def test_no_set_of_a_round_calls_what_it_took_a_data_set(scored: Mapping[str, ScoredSet]) -> None:
    for name, found in scored.items():
        assert len({run.data_set_samples for run in found.runs if run.data_set_samples}) <= 1, name
        assert found.benchmark != "bert" or all(run.epochs is None for run in found.runs), name
