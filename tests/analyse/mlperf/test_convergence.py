"""Convergence against references: fast and slow are found, equal ones are left alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from assay.analyse.mlperf.convergence import Convergence, against_references
from assay.records import Result
from conftest import long_rows_but
from trained_results import imported, trained


def side(lengths: list[float], **options: object) -> list[Result]:
    return trained(lengths, [1.0] * len(lengths), **options)  # type: ignore[arg-type]


def only(results: list[Result], references: list[Result]) -> Convergence:
    [found] = against_references("set", results, references)
    return found


REFERENCES = [39.0, 40.0, 41.0, 40.5, 39.5]


@pytest.mark.parametrize(
    ("lengths", "speed"),
    [
        ([40.0, 40.5, 39.0], "as the references"),
        ([30.0, 31.0, 30.5], "suspiciously fast"),
        ([52.0, 51.0, 50.5], "slow"),
    ],
)
def test_a_sets_length_is_held_against_the_references_at_its_batch_size(
    lengths: list[float], speed: str
) -> None:
    assert only(side(lengths), side(REFERENCES)).speed == speed


def test_between_two_batch_sizes_the_reference_is_interpolated_and_beyond_them_there_is_none() -> None:
    references = [*side(REFERENCES, batch=100), *side([49, 50, 51], batch=200)]
    found = only(side([45, 46, 44], batch=150), references)
    assert found.expected is not None
    assert (found.expected.value, found.at, found.speed) == (45, (100, 200), "as the references")
    beyond = only(side([45, 46, 44], batch=400), references)
    assert (beyond.speed, beyond.expected) == ("unknown", None)
    assert "400 (available: 100, 200)" in beyond.reason


def test_runs_that_differ_by_less_than_the_grid_are_no_alarm() -> None:
    found = only(side([36, 36, 36], grid=4), side([40, 40, 40, 40, 40], grid=4))
    assert found.speed == "as the references"
    assert only(side([20, 20, 20], grid=4), side([40, 40, 40, 40, 40], grid=4)).speed == "suspiciously fast"


def test_what_did_not_converge_or_has_no_reference_is_unknown_and_says_why() -> None:
    assert "did not converge" in only(side([40, 60], converged=[True, False]), side(REFERENCES)).reason
    assert only(side([40, 41]), side(REFERENCES, benchmark="ssd")).reason == "no reference trained resnet"
    assert "none with three converged runs" in only(side([40, 41]), side([40, 41])).reason


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("runs", "references"), long_rows_but(1, [(3, 5), (5, 5), (5, 20)]))
def test_sets_like_their_references_are_called_fast_or_slow_in_one_of_twenty_cases(
    runs: int, references: int
) -> None:
    dice = random.Random(runs + references)
    alarms = 0
    for _ in range(800):
        known, own = ([dice.gauss(40, 2) for _ in range(n)] for n in (references, runs))
        alarms += only(side(own, grid=0.01), side(known, grid=0.01)).speed != "as the references"
    assert 0.03 <= alarms / 800 <= 0.07


def test_openshifts_batch_converges_as_ubuntus(mlperf_logs: Path, tmp_path: Path) -> None:
    openshift = mlperf_logs / "v3.1" / "Supermicro-RedHat" / "AS-4125GS-TNRT-RedHat-OpenShift" / "resnet"
    ubuntu = imported(tmp_path, "ubuntu", mlperf_logs / "v3.0")
    assert only(imported(tmp_path, "openshift", openshift), ubuntu).speed == "unknown"  # 3520 is beyond 3200
    assert only(ubuntu, ubuntu).speed == "as the references"
