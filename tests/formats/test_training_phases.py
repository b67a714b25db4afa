"""Where a training's time went: every moment in one phase, overlap counted once, whatever a log marks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.formats.mllog import Event
from assay.formats.mlperf import training_run, training_runs
from assay.formats.result_sets import find_sets
from assay.formats.training_length import TrainingLength
from assay.formats.training_phases import Timeline, training_phases
from assay.records import TrainingPhases, TrainingRun, from_json, to_json

BEGAN_MS = 1_700_000_000_000
Mark = tuple[str, float] | tuple[str, float, int]


def phases(marks: Iterable[Mark], *, ended_s: float = 100) -> TrainingPhases:
    """Of a run of 100 s; a mark is (key, second, label)."""
    events = [
        Event(BEGAN_MS + mark[1] * 1000, mark[0], metadata={"epoch_num": mark[2]} if len(mark) > 2 else {})
        for mark in marks
    ]
    return training_phases(Timeline.of(events), BEGAN_MS, BEGAN_MS + ended_s * 1000, TrainingLength())


def seconds(found: TrainingPhases) -> tuple[float, ...]:
    parts = (found.start_minutes, found.training_minutes, found.evaluation_minutes, found.rest_minutes)
    return tuple(round(60 * part, 6) for part in parts)


PLAIN: list[Mark] = [
    *(("epoch_start", 10, 1), ("epoch_stop", 40, 1), ("eval_start", 41, 1), ("eval_stop", 46, 1)),
    *(("epoch_start", 47, 2), ("epoch_stop", 80, 2), ("eval_start", 82, 2), ("eval_stop", 90, 2)),
]


def test_a_plain_run_is_start_training_evaluation_and_rest() -> None:
    found = phases(PLAIN)
    assert seconds(found) == (10, 63, 13, 14)
    assert (found.evaluations, found.overlap_minutes, found.notes) == (2, 0, ())


def test_lines_that_every_rank_repeats_change_nothing() -> None:
    assert seconds(phases([mark for mark in PLAIN for _ in range(8)])) == seconds(phases(PLAIN))


def test_a_rank_that_ends_an_epoch_when_the_next_has_begun_does_not_end_that_one() -> None:
    late: list[Mark] = [
        *(("epoch_start", 0, 1), ("epoch_stop", 40, 1), ("epoch_start", 41, 2)),
        *(("epoch_stop", 42, 1), ("epoch_stop", 100, 2)),
    ]
    assert seconds(phases(late)) == (0, 100, 0, 0)


def test_evaluation_beside_the_next_epoch_is_counted_once_as_training() -> None:
    found = phases(
        [
            *(("epoch_start", 0, 1), ("epoch_stop", 40, 1), ("eval_start", 40, 1), ("epoch_start", 50, 2)),
            *(("eval_stop", 60, 1), ("epoch_stop", 90, 2), ("eval_start", 90, 2), ("eval_stop", 100, 2)),
        ]
    )
    assert seconds(found) == (0, 80, 20, 0)
    assert found.overlap_minutes == pytest.approx(10 / 60)
    assert found.notes == ("evaluation ran concurrently with training: counted once, as training",)


def test_an_epoch_waits_for_an_evaluation_of_itself() -> None:
    found = phases(
        [("epoch_start", 0, 7), ("eval_start", 60, 7), ("eval_stop", 70, 7), ("epoch_stop", 100, 7)]
    )
    assert seconds(found) == (0, 90, 10, 0)
    assert found.notes == ()


def test_blocks_tell_what_is_evaluation_inside_one_epoch_around_everything() -> None:
    around: list[Mark] = [
        *(("epoch_start", 0, 0), ("block_start", 0, 0), ("block_stop", 40, 1), ("eval_start", 40, 1)),
        *(("eval_stop", 50, 1), ("block_start", 50, 1), ("block_stop", 90, 2), ("epoch_stop", 100, 2)),
    ]
    assert seconds(phases(around)) == (0, 80, 10, 10)


def test_an_epoch_begun_beside_the_last_evaluation_is_not_training_for_the_target() -> None:
    found = phases(
        [("epoch_start", 0, 1), ("epoch_stop", 60, 1), ("eval_start", 60, 1), ("epoch_start", 70, 2),
         ("eval_stop", 90, 1)]
    )  # fmt: skip
    assert seconds(found) == (0, 60, 30, 10)
    assert found.after_minutes == pytest.approx(10 / 60)


def test_a_log_that_marks_no_epochs_says_so() -> None:
    found = phases(
        [("train_loop", 5), ("eval_start", 50), ("eval_stop", 60), ("eval_start", 80), ("eval_stop", 95)]
    )
    assert seconds(found) == (5, 65, 25, 5)
    assert "no epochs or blocks are marked" in found.notes[0]


KEYS = [f"{what}_{edge}" for what in ("epoch", "block", "eval") for edge in ("start", "stop")]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*KEYS, "train_loop", "eval_accuracy"]), st.integers(-9, 109), st.integers(0, 3)
        ),
        max_size=40,
    )
)
def test_whatever_a_log_marks_the_phases_add_up_and_none_is_negative(marks: list[Mark]) -> None:
    found = phases(marks)
    assert min(seconds(found)) >= 0
    assert found.minutes * 60_000 == pytest.approx(100_000, abs=1e-3)
    assert found.overlap_minutes * 60 <= 100


def aborted(tmp_path: Path) -> TrainingRun:
    lines: list[tuple[str, float, Any, dict[str, Any]]] = [
        *(("run_start", 0, None, {}), ("epoch_start", 1, None, {"epoch_num": 1})),
        *(("epoch_stop", 50, None, {"epoch_num": 1}), ("eval_start", 50, None, {"epoch_num": 1})),
        *(("eval_accuracy", 60, 0.3, {"epoch_num": 1}), ("eval_stop", 60, None, {"epoch_num": 1})),
        ("run_stop", 61, None, {"status": "aborted"}),
    ]
    path = tmp_path / "result_0.txt"
    entries = (
        {"time_ms": BEGAN_MS + 1000 * at, "key": key, "value": value, "metadata": beside}
        for key, at, value, beside in lines
    )
    path.write_text("".join(f":::MLLOG {json.dumps(entry)}\n" for entry in entries))
    return training_run(path)


def test_a_run_that_did_not_converge_has_phases_and_what_it_trained_but_no_minutes(tmp_path: Path) -> None:
    run = aborted(tmp_path)
    assert (run.minutes, run.epochs) == (None, None)
    assert run.phases is not None
    assert (run.phases.epochs, run.phases.evaluations) == (1.0, 1)
    assert seconds(run.phases) == (1, 49, 10, 1)
    assert from_json(TrainingRun, to_json(run)) == run


@pytest.mark.parametrize("behind", ["", " and text behind it"])
def test_a_number_of_hundreds_of_digits_is_no_label_and_ends_no_reading(tmp_path: Path, behind: str) -> None:
    huge = {"value": 10**400, "metadata": {"epoch_num": 10**400}}
    entries: list[dict[str, Any]] = [
        {"key": "run_start"},
        *({"key": key, **huge} for key in ("epoch_start", "eval_start", "eval_accuracy")),
        {"key": "run_stop", "metadata": {"status": "success"}},
    ]
    lines = (
        f":::MLLOG {json.dumps({'time_ms': BEGAN_MS + 1000 * at, **entry})}{behind}\n"
        for at, entry in enumerate(entries)
    )
    path = tmp_path / "result_0.txt"
    path.write_text("".join(lines))
    run = training_run(path)
    assert run.status == "success"
    assert run.phases is not None
    assert run.phases.minutes == run.minutes


@pytest.fixture(scope="module")
def real(mlperf_logs: Path) -> dict[str, list[TrainingRun]]:
    return {found.name: list(training_runs(found)) for found in find_sets([mlperf_logs])}


def test_in_every_real_log_the_phases_add_up_to_the_millisecond(real: dict[str, list[TrainingRun]]) -> None:
    runs = [run for of_set in real.values() for run in of_set]
    converged = [run for run in runs if run.minutes is not None]
    assert len(converged) >= 50
    for run in runs:
        assert run.phases is not None, run.file
        assert run.phases.training_minutes > 0.8 * run.phases.minutes or run.benchmark == "unet3d", run.file
    for run in converged:
        assert run.phases is not None
        assert run.minutes is not None
        assert abs(run.phases.minutes - run.minutes) * 60_000 < 1e-3, run.file


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("HPE-ProLiant-XL675d-Gen10-Plus_A100-SXM-80GB_2N_pytorch/ssd", 0.65),
        ("dgx1_ngc19.05_pytorch/maskrcnn", 5.9),
        ("MI355X_EPYC_9575F_pytorch/llama31_8b", 2.3),
        ("dgx1_ngc19.05_mxnet/resnet", 0.0),
    ],
)
def test_evaluation_inside_open_epochs_is_what_others_found_in_these_logs(
    real: dict[str, list[TrainingRun]], name: str, minutes: float
) -> None:
    [of_set] = [runs for key, runs in real.items() if key.endswith(name)]
    overlaps = [run.phases.overlap_minutes for run in of_set if run.phases]
    assert fmean(overlaps) == pytest.approx(minutes, abs=0.05)
