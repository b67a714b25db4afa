"""Whole published rounds: each score is the official one, each throughput the log's own, or has its reason.

The rounds are outside of the repository; `mlperf_rounds_apart.csv` lists what differs, each with its reason.
"""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from statistics import median
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest

from assay.analyse.mlperf.score import ScoredSet
from assay.questions.score import scored_sets
from conftest import ROOT

APART = ROOT / "tests" / "mlperf_rounds_apart.csv"
ROUNDS = ("v1.1", "v2.0", "v3.0", "v4.0")
PART = 12  # of so many sets of a round one is scored each time, all of them by `make test-all`
SCORE_MINUTES = 0.00011  # the expected ones have four digits
THROUGHPUT = 0.02


def apart(what: str) -> dict[str, str]:
    """The sets that differ, with the figure that they have."""
    with APART.open(newline="") as file:
        return {row["set"]: row["figure"] for row in csv.DictReader(file) if row["what"] == what}


def of_part(name: str, part: int) -> bool:
    """Whether the set of this name is in the part that is scored."""
    return crc32(name.encode()) % part == 0


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((ROUNDS[-1], PART), id=f"a part of {ROUNDS[-1]}"),
        *(pytest.param((name, PART), id=f"a part of {name}", marks=pytest.mark.long) for name in ROUNDS[:-1]),
        *(pytest.param((name, 1), id=name, marks=pytest.mark.long) for name in ROUNDS),
    ],
)
def round_and_part(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A round, and one of how many of its sets are scored."""
    found: tuple[str, int] = request.param
    return found


@pytest.fixture(scope="module")
def scored(round_and_part: tuple[str, int], mlperf_rounds: Path) -> Iterator[Mapping[str, ScoredSet]]:
    """The sets of a round, by their folders."""
    name, part = round_and_part
    with TemporaryDirectory() as folder:
        with tarfile.open(mlperf_rounds / f"training_{name}.tar.xz") as round_:
            for member in round_:
                path = PurePosixPath(member.name)
                if not path.name.startswith("result_") or of_part(str(path.parent), part):
                    round_.extract(member, folder, filter="data")
        yield {found.name: found for found in scored_sets([Path(folder)])}


@pytest.fixture
def expected(round_and_part: tuple[str, int], mlperf_rounds: Path) -> dict[str, dict[str, str]]:
    """What others worked out for the sets of this round."""
    name, part = round_and_part
    with (mlperf_rounds / "expected.csv").open(newline="") as file:
        rows = {row["set"]: row for row in csv.DictReader(file)}
    return {
        at: row
        for at, row in rows.items()
        if at.startswith(f"training_results_{name}/") and of_part(at, part)
    }


@pytest.mark.slow
def test_every_set_has_the_official_score_or_is_in_the_list(
    scored: Mapping[str, ScoredSet],
    expected: Mapping[str, Mapping[str, str]],
    round_and_part: tuple[str, int],
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
    assert len(expected) > 100 // round_and_part[1]
    assert not wrong


@pytest.mark.slow
def test_throughput_in_training_is_the_log_s_own_or_stands_in_the_list(
    scored: Mapping[str, ScoredSet], round_and_part: tuple[str, int]
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
    assert compared > 50 // round_and_part[1]  # parts are not of one size
    assert not wrong


@pytest.mark.slow
def test_no_set_of_a_round_calls_what_it_took_a_data_set(scored: Mapping[str, ScoredSet]) -> None:
    for name, found in scored.items():
        assert len({run.data_set_samples for run in found.runs if run.data_set_samples}) <= 1, name
        assert found.benchmark != "bert" or all(run.epochs is None for run in found.runs), name
