"""Training logs: how a run ended, how long it took, and never a number for one that did not succeed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.formats.benchmarks import counted
from assay.formats.mlperf import training_run, training_runs
from assay.formats.result_sets import find_sets
from assay.formats.training_length import FEWEST_SAMPLES, MOST_EPOCHS
from assay.records import TrainingRun

START_MS = 1_700_000_000_000
REACHED = 0.95  # the target of every benchmark below, whether more or lower is better


def line(key: str, at_s: float = 0, value: Any = None, **metadata: Any) -> str:
    kind = (
        "INTERVAL_START"
        if key.endswith("_start")
        else "INTERVAL_END"
        if key.endswith("_stop")
        else "POINT_IN_TIME"
    )
    entry = {"namespace": "", "time_ms": START_MS + int(at_s * 1000), "event_type": kind, "key": key,
             "value": value, "metadata": metadata}  # fmt: skip
    return f":::MLLOG {json.dumps(entry)}\n"


def whole_run(
    epochs: int = 3, samples: int = 1000, status: str = "success", start: float = 0, **facts: Any
) -> list[str]:
    """A run of 60 s an epoch that starts at a time, in seconds."""
    named = facts.get("benchmark", "resnet")
    lines = [line("submission_benchmark", start - 20, named), line("init_start", start - 12)]
    lines += [line("seed", start - 11, facts.get("seed", 7)), line("global_batch_size", start - 10, 50)]
    lines += [line("run_start", start), line("train_samples", start, samples)]
    for epoch in range(1, epochs + 1):
        lines.append(line("eval_accuracy", start + 60 * epoch, 0.1 * epoch, epoch_num=epoch))
    return [*lines, line("run_stop", start + 60 * epochs, status=status)]


def interleaved(*logs: list[str]) -> list[str]:
    return [text for texts in zip(*logs, strict=True) for text in texts]


def read(tmp_path: Path, lines: list[str] | bytes, name: str = "result_0.txt") -> TrainingRun:
    path = tmp_path / name
    path.write_bytes(lines if isinstance(lines, bytes) else "".join(lines).encode())
    return training_run(path)


def test_a_whole_run_gives_minutes_epochs_and_throughput(tmp_path: Path) -> None:
    run = read(tmp_path, whole_run())
    assert (run.status, run.problem, run.benchmark, run.round) == ("success", "", "resnet", None)
    assert run.minutes == 3.0
    assert run.init_minutes == pytest.approx(0.2)
    assert (run.epochs, run.samples, run.global_batch_size, run.train_samples) == (3.0, 3000.0, 50, 1000)
    assert run.minutes_per_epoch == 1.0
    assert run.samples_per_s == pytest.approx(3000 / 180)
    assert run.evaluations == ((1.0, 0.1), (2.0, 0.2), (3.0, pytest.approx(0.3)))
    assert run.hyperparameters["seed"] == 7
    assert run.doubts == ()
    unchecked, how = run.notes
    assert unchecked == (
        "can't check whether the target was reached: no target is known for resnet in an unknown round"
    )
    assert run.target_reached is None
    assert how.startswith("epoch_num counts epochs: resnet in an unknown round, according to ")


def cut(text: list[str]) -> bytes:
    return "".join(text).encode()[:-30]


@pytest.mark.parametrize(
    ("make", "status", "problem"),
    [
        (lambda: b"", "invalid", "the file is empty"),
        (lambda: b"epoch 1\nepoch 2\n", "invalid", "no MLPerf log line"),
        (lambda: b"x\n:::MLLOG {cut\n", "invalid", "none of its 1 token lines can be parsed"),
        (lambda: whole_run()[:-1], "unfinished",
         "no run_stop: the last event is eval_accuracy at line 9, 3.00 minutes after run_start"),
        (lambda: cut(whole_run()), "unfinished", "the last line is truncated"),
        (lambda: whole_run()[:3], "unfinished",
         "no run_start: the run never started; the last event is seed"),
        (lambda: whole_run()[5:], "invalid", "run_stop without run_start"),
        (lambda: whole_run(status="aborted"), "aborted", "aborted: the target was not reached in 3.00"),
        (lambda: [*whole_run()[:-1], line("run_stop", 180)], "invalid", "run_stop states no status"),
        (lambda: [*whole_run()[:-1], line("run_stop", -5, status="success")], "invalid",
         "run_stop is 5.0 s before run_start"),
        (lambda: [*whole_run()[:-1], line("run_stop", 48e6 * 60, status="success")], "invalid",
         "run_stop is 48,000,000 minutes after run_start: one of these times is wrong"),
        (lambda: [*whole_run(), line("run_stop", 180, status="aborted")], "invalid",
         "run_stop lines disagree: aborted (line 11), success (line 10)"),
        (lambda: whole_run() * 2, "invalid", "contains more than one run: run_start again at line 15"),
        (lambda: [*whole_run()[:-1], "Traceback (most recent call last):\n", *whole_run(start=250)],
         "invalid",
         "more than one run: run_start again at line 15, 4.17 minutes apart from line 5"),
        (lambda: interleaved(whole_run(), whole_run(start=250)), "invalid",
         "more than one run: run_start again at line 10, 4.17 minutes apart from line 9"),
        (lambda: [*whole_run()[:6], *whole_run(start=30)], "invalid",  # before the first epoch ended
         "run_start again at line 11, after init_start (line 8); put each run in its own file"),
        (lambda: [*whole_run()[:7], line("run_start", 61), *whole_run()[7:]], "invalid",
         "run_start again at line 8, 1.02 minutes apart from line 5"),
        (lambda: [*whole_run(), line("run_stop", 300, status="success")], "invalid",
         "run_stop again at line 11, 2.00 minutes apart from line 10"),
        (lambda: [*whole_run()[:5], line("epoch_start", -3), *whole_run()[5:]], "invalid",
         "epoch_start (line 6) is 3.0 s before run_start: one of these times is wrong"),
        (lambda: [*whole_run(), line("run_start", 300)], "invalid", "contains more than one run: run_start"),
        (lambda: [line("run_start"), line("run_stop", 0, status="success")], "invalid", "0.0 s before"),
        (lambda: [*whole_run()[:7], line("epoch_start", 90), line("epoch_stop", 30), *whole_run()[7:]],
         "invalid", "epoch_stop (line 9) is 60.0 s before its epoch_start"),
        (lambda: gzip.compress("".join(whole_run(epochs=5000)).encode())[:-500], "invalid", "truncated"),
        (lambda: [line("loadgen_version", 0, "5.0"), line("result_validity", 1, "VALID")], "invalid",
         "a LoadGen inference log"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_log_is_named_and_never_a_number(
    tmp_path: Path, make: Callable[[], Any], status: str, problem: str
) -> None:
    run = read(tmp_path, make())
    assert run.status == status
    assert problem in run.problem
    assert (run.minutes, run.epochs, run.samples, run.minutes_per_epoch, run.samples_per_s) == (None,) * 5


def test_a_file_that_is_not_there_is_an_invalid_run(tmp_path: Path) -> None:
    run = training_run(tmp_path / "absent.txt")
    assert (run.status, run.problem) == ("invalid", "can't be read: No such file or directory")


def test_ranks_that_repeat_each_other_change_nothing_but_a_note(tmp_path: Path) -> None:
    alone = read(tmp_path, whole_run())
    many = read(tmp_path, [f"{rank}: {text}" for text in whole_run() for rank in range(8)])
    assert (many.status, many.minutes, many.epochs, many.evaluations) == (
        alone.status,
        alone.minutes,
        alone.epochs,
        alone.evaluations,
    )
    assert many.hyperparameters == alone.hyperparameters
    assert many.notes == ("8 run_start and 8 run_stop lines: the first and the last are used", *alone.notes)


def test_ranks_that_start_and_stop_some_seconds_apart_are_one_run(tmp_path: Path) -> None:
    ranks = [whole_run(start=delay) for delay in (0, 0.5, 20)]
    run = read(tmp_path, interleaved(*ranks))
    assert (run.status, run.minutes) == ("success", pytest.approx(3 + 20 / 60))


def test_two_runs_in_a_file_are_not_taken_for_ranks(tmp_path: Path) -> None:
    run = read(tmp_path, [*whole_run(seed=1)[:-1], *whole_run(seed=2, start=250)])
    assert not any("seeds, one per rank" in note or "first and the last" in note for note in run.notes)


def stopped_early(benchmark: str) -> list[str]:
    """The second of two evaluations reaches any target of a share, one minute after run_stop by its time."""
    return [
        line("submission_benchmark", -20, benchmark),
        line("run_start"),
        line("epoch_start", 0, epoch_num=1),
        line("eval_accuracy", 60, 0.01, epoch_num=1),
        line("epoch_stop", 190, epoch_num=1),
        line("eval_accuracy", 190, REACHED, epoch_num=2),
        line("run_stop", 120, status="success"),
    ]


def test_an_evaluation_stamped_after_run_stop_does_not_end_the_run(tmp_path: Path) -> None:
    run = read(folder_of(tmp_path, "v2.1"), stopped_early("ssd"))
    assert (run.status, run.minutes) == ("invalid", None)
    assert "the last evaluation is 0.01 (line 4), not >= 0.34; line 6 has an evaluation after" in run.problem
    beside = read(folder_of(tmp_path, "v2.1"), stopped_early("minigo"))
    assert (beside.status, beside.doubts) == ("success", ()), "its evaluations run next to the training"


def test_an_epoch_stamped_after_run_stop_is_doubted(tmp_path: Path) -> None:
    run = read(tmp_path, stopped_early("a benchmark without a target"))
    assert run.status == "success"
    [doubt] = run.doubts
    assert doubt.code == "events-out-of-order"
    assert doubt.evidence == "epoch_stop (line 5) is 70.0 s after run_stop"


@pytest.mark.parametrize(
    ("benchmark", "value", "why"),
    [
        ("ssd", 34.28, "it can't be below 0 or above 1"),
        ("resnet", 76.0, "it can't be below 0 or above 1"),
        ("rnnt", -0.05, "it can't be below 0"),
        ("rnnt", 0.05, ""),
        ("ssd", 1.0, ""),
    ],
)
def test_a_quality_that_its_metric_can_not_have_reaches_no_target(
    tmp_path: Path, benchmark: str, value: float, why: str
) -> None:
    lines = whole_run(benchmark=benchmark)
    lines[-2] = line("eval_accuracy", 180, value, epoch_num=3)
    run = read(folder_of(tmp_path, "v2.1"), lines)
    assert (run.status == "success") is not bool(why)
    assert why in run.problem


def folder_of(tmp_path: Path, round_: str) -> Path:
    folder = tmp_path / round_
    folder.mkdir(exist_ok=True)
    return folder


def test_of_seeds_that_differ_by_rank_the_smallest_stands_for_the_run(tmp_path: Path) -> None:
    run = read(tmp_path, [line("seed", -30, 9), line("seed", -30, 8), *whole_run(seed=10)])
    assert run.hyperparameters["seed"] == 8
    assert "3 seeds, one per rank; the smallest represents the run" in run.notes


def evaluated(points: list[dict[str, Any]], samples: int | None, benchmark: str | None = None) -> list[str]:
    size = [] if samples is None else [line("train_samples", 0, samples)]
    size += [] if benchmark is None else [line("submission_benchmark", 0, benchmark)]
    evaluations = [line("eval_accuracy", 60 + n, REACHED, **point) for n, point in enumerate(points)]
    return [line("run_start"), *size, *evaluations, line("run_stop", 600, status="success")]


@pytest.mark.parametrize(
    ("points", "data_set", "epochs", "samples"),
    [
        ([{"epoch_num": 35}], 1_281_167, 35, 35 * 1_281_167),
        ([{"epoch_num": 598_080}], 168, 3560, 598_080),
        ([{"epoch_num": 2_400_000}], 156_725_653, None, 2_400_000),
        ([{"epoch_num": 1000}, {"epoch_num": 2000}], 1000, 2, 2000),
        ([{"epoch_num": 1000}, {"epoch_num": 1020}], 168, 1020, 1020 * 168),
        ([{"epoch_num": 3072, "samples_count": 3072}], 3901, None, 3072),
        ([{"samples_count": 172_000}], None, None, 172_000),
        ([{"epoch_num": 4}], None, 4, None),
        ([{"epoch_num": 0.95}], 1000, 0.95, 950),
        ([{}], 1000, None, None),
    ],
)
def test_what_a_log_of_no_known_benchmark_counts_is_told_by_magnitude_and_said(
    tmp_path: Path,
    points: list[dict[str, Any]],
    data_set: int | None,
    epochs: float | None,
    samples: float | None,
) -> None:
    run = read(tmp_path, evaluated(points, data_set))
    assert run.epochs == (None if epochs is None else pytest.approx(epochs))
    assert run.samples == (None if samples is None else pytest.approx(samples))
    by_name = any("is unknown for unknown benchmark in an unknown round" in note for note in run.notes)
    assert by_name == ("epoch_num" in points[0] and "samples_count" not in points[0])


@pytest.mark.parametrize(
    ("benchmark", "round_", "at", "data_set", "epochs", "samples"),
    [
        ("unet3d", "v3.0", 3560, 168, 3560, 598_080),
        ("unet3d", "v3.1", 598_080, 168, 3560, 598_080),
        ("bert", "v2.1", 2_400_000, None, None, 2_400_000),
        ("gpt3", "v3.1", 1_157_627_904, None, None, 565_248),
        ("retinanet", "v5.0", 5, 1_170_301, 5, 5 * 1_170_301),
        ("resnet", None, 35, 1_281_167, 35, 35 * 1_281_167),
    ],
)
def test_what_epoch_num_counts_follows_from_benchmark_and_round(
    tmp_path: Path, benchmark: str, round_: str | None, at: float, data_set: int | None,
    epochs: float | None, samples: float,
) -> None:  # fmt: skip
    path = tmp_path / "result_0.txt"
    path.write_text("".join(evaluated([{"epoch_num": at}], data_set, benchmark)))
    run = training_run(path, round_=round_)
    assert (run.epochs, run.samples, run.doubts) == (epochs, samples, ())
    note = next(note for note in run.notes if note.startswith("epoch_num counts "))
    assert f"{benchmark} in {round_ or 'an unknown round'}, according to " in note


@pytest.mark.parametrize(
    ("benchmark", "round_", "points", "data_set", "why"),
    [
        (
            "resnet",
            "v3.1",
            [35 * 1_281_167],
            None,
            "goes up to 4.48408e+07, but no benchmark trains for more",
        ),
        ("unet3d", "v3.0", [168_000, 171_360], 168, "no benchmark trains for more than 10,000 epochs"),
        ("ssd", "v1.1", [1000, 2000], 1000, "in whole multiples of the 1000 training samples"),
        ("unet3d", "v3.1", [600], 168, "it only goes up to 600"),
        ("bert", "v1.0", [1, 2], None, "it only goes up to 2"),
    ],
)
def test_positions_that_contradict_the_table_give_no_length_and_a_doubt(
    tmp_path: Path, benchmark: str, round_: str, points: list[int], data_set: int | None, why: str
) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text("".join(evaluated([{"epoch_num": at} for at in points], data_set, benchmark)))
    run = training_run(path, round_=round_)
    assert (run.status, run.minutes, run.epochs, run.samples) == ("success", 10.0, None, None)
    [doubt] = run.doubts
    assert doubt.code == "length-contradicts"
    assert why in doubt.evidence


def test_the_table_of_what_epoch_num_counts_agrees_with_the_reference_convergence_points() -> None:
    import mlperf_logging

    folder = Path(mlperf_logging.__file__).parent
    held = 0
    for file in sorted(folder.glob("rcp_checker/training_[1-9].?.0/rcps_*.json")):
        benchmark, round_ = file.stem.removeprefix("rcps_"), f"v{file.parent.name[9:12]}"
        entry = counted(benchmark, round_)
        assert entry is not None, (benchmark, round_)
        keys = ("Epochs to converge", "samples to converge")
        points = json.loads(file.read_text()).values()
        lengths = [length for point in points for key in keys for length in point.get(key, ())]
        assert max(lengths) < MOST_EPOCHS if entry.what == "epochs" else min(lengths) > FEWEST_SAMPLES
        held += 1
    assert held > 65


@pytest.mark.parametrize(
    ("stated", "noted"),
    [(1_574_207_408, False), (38_400_000, True)],
)
def test_a_log_of_v60_counts_blocks_by_their_length_and_the_run_by_its_evaluations(
    tmp_path: Path, stated: int, noted: bool
) -> None:
    """The shape of v6.0's language models: `srun -l` ranks, placeholders, a block's own samples."""
    lines = [
        line("submission_benchmark", -40, "gpt_oss_20b"),
        line("submission_org", -40, "SUBMISSION_ORG_PLACEHOLDER"),
        line("global_batch_size", -40, 16),
        line("train_samples", -40, stated),
        line("run_start"),
    ]
    for n, loss in enumerate((5.05, 3.41, 3.33), start=1):
        began, at = 300 * (n - 1), 12_288 * n
        lines += [
            line("block_start", began, samples_count=12_288, step=768 * (n - 1)),
            line("tracked_stats", began + 290, {"train_step_time": 0.4}, samples_count=at),
            line("block_stop", began + 290, samples_count=12_288, step=768 * n),
            line("eval_start", began + 290, samples_count=at),
            line("eval_accuracy", began + 300, loss, samples_count=at),
            line("eval_stop", began + 300, samples_count=at),
        ]
    lines.append(line("run_stop", 900, samples_count=36_864, status="success"))
    path = tmp_path / "result_0.txt"
    path.write_text("".join(f"0: {text}" for text in lines))
    run = training_run(path, round_="v6.0")
    assert (run.status, run.target_reached, run.minutes) == ("success", True, 15)
    assert (run.epochs, run.samples, run.data_set_samples) == (None, 36_864, 1_574_207_408)
    assert run.phases is not None
    assert (run.phases.training_minutes, run.phases.evaluation_minutes) == (14.5, pytest.approx(0.5))
    assert run.training_samples_per_s == pytest.approx(36_864 / 870)
    assert any(note.startswith("train_samples is 38,400,000") for note in run.notes) == noted


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace("0.95", "0.01"), "the last evaluation is 0.01 (line 6), not >= 0.759"),
        (lambda text: "".join(text.splitlines(True)[:-2] + text.splitlines(True)[-1:]),
         "the last evaluation is 0.7 (line 5), not >= 0.759"),
        (lambda text: "".join(x for x in text.splitlines(True) if "eval_accuracy" not in x),
         "no evaluation of >= 0.759 before run_stop"),
    ],
)  # fmt: skip
def test_a_run_is_a_success_only_if_its_own_evaluation_reached_the_round_s_target(
    tmp_path: Path, change: Callable[[str], str], problem: str
) -> None:
    lines = evaluated([{"epoch_num": 31}, {"epoch_num": 35}], 1_281_167, "resnet")
    lines.insert(1, line("global_batch_size", 0, 256))
    lines[4] = line("eval_accuracy", 60, 0.7, epoch_num=31)
    path = tmp_path / "result_0.txt"
    path.write_text("".join(lines))
    assert (training_run(path, round_="v3.1").status, training_run(path, round_="v3.1").epochs) == (
        "success",
        35,
    )
    assert training_run(path, round_="v3.1").target_reached
    path.write_text(change("".join(lines)))
    run = training_run(path, round_="v3.1")
    assert (run.status, run.minutes, run.epochs, run.samples) == ("invalid", None, None, None)
    assert (
        run.problem == f"run_stop says success, but the target of resnet in v3.1 was not reached: {problem}"
    )


def test_the_evaluation_that_ended_the_run_is_the_furthest_whatever_the_order_of_the_lines(
    tmp_path: Path,
) -> None:
    """Evaluations beside the training are printed when they are done, after the run ended."""
    stop = line("run_stop", 600, status="success")
    late = [
        line("eval_accuracy", 700, 80.0, samples_count=2_048_000, metric="FID"),
        line("eval_accuracy", 710, 0.16, samples_count=2_048_000, metric="CLIP"),
        line("eval_accuracy", 800, 110.0, samples_count=1_536_000, metric="FID"),
        line("eval_accuracy", 810, 0.14, samples_count=1_536_000, metric="CLIP"),
    ]
    path = tmp_path / "result_0.txt"
    path.write_text(
        "".join([line("submission_benchmark", 0, "stable_diffusion"), line("run_start"), *late, stop])
    )
    run = training_run(path, round_="v4.0")
    assert (run.status, run.minutes, run.samples, run.epochs) == ("success", 10.0, 2_048_000, None)


def test_a_program_of_ours_is_believed_by_the_target_that_it_states(tmp_path: Path) -> None:
    own = [line("mlperf_round", -20, "v4.0"), line("target_quality", -20, 0.25)]
    assert read(tmp_path, [*own, *whole_run()]).target_reached
    missed = read(tmp_path, [*own[:1], line("target_quality", -20, 0.5), *whole_run()])
    assert missed.problem.startswith(
        "run_stop says success, but the target that the log states was not reached"
    )
    without = read(tmp_path, [*own[:1], *whole_run()])
    assert (without.status, without.target_reached) == ("success", None)


def test_blocks_that_step_back_in_time_are_doubted(tmp_path: Path) -> None:
    blocks = [
        line("block_start", 50),
        line("block_stop", 55),
        line("block_start", 20),
        line("block_stop", 25),
    ]
    run = read(tmp_path, [*whole_run()[:-1], *blocks, whole_run()[-1]])
    assert (run.status, [doubt.code for doubt in run.doubts]) == ("success", ["events-out-of-order"])
    assert "the clock goes backward by 35.0 s: from block_stop" in run.doubts[0].evidence


def test_bert_s_train_samples_are_what_the_run_took_and_no_epoch(tmp_path: Path) -> None:
    lines = evaluated([{"epoch_num": 1}, {"epoch_num": 1}], None, "bert")
    took = line("train_samples", 599, 2_801_664)
    path = tmp_path / "result_0.txt"
    path.write_text("".join([*lines[:-1], took, lines[-1]]))
    run = training_run(path, round_="v1.1")
    assert (run.status, run.epochs, run.samples, run.data_set_samples) == ("success", None, 2_801_664, None)
    assert run.samples_per_s == pytest.approx(2_801_664 / 600)


def test_train_samples_that_count_batches_give_way_to_the_known_data_set(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text("".join(evaluated([{"epoch_num": 4}], 4572, "ssd")))
    run = training_run(path, round_="v4.0", accelerators=8)
    assert (run.train_samples, run.data_set_samples, run.samples) == (4572, 1_170_301, 4 * 1_170_301)
    assert any("train_samples is 4,572 and counts batches" in note for note in run.notes)


def test_train_samples_told_after_the_run_is_no_size_of_a_data_set(tmp_path: Path) -> None:
    run = read(tmp_path, [*evaluated([{"samples_count": 960}], None), line("train_samples", 601, 992)])
    assert (run.epochs, run.samples, run.train_samples) == (None, 960.0, 992)


def test_an_evaluation_may_be_text_several_values_or_not_a_number(tmp_path: Path) -> None:
    lines = whole_run()
    lines[6] = line("eval_accuracy", 60, "20.5", epoch_num=1)
    lines[7] = line("eval_accuracy", 120, float("nan"), epoch_num=2)
    run = read(tmp_path, lines)
    assert run.evaluations == ((1.0, 20.5), (3.0, pytest.approx(0.3)))
    lines[6:9] = [line("eval_accuracy", 60, {"accuracy": {"BBOX": 0.2, "SEGM": 0.1}}, epoch_num=1)]
    run = read(tmp_path, lines)
    assert run.evaluations == ((1.0, 0.2),)
    assert "an evaluation has several values; the series shows BBOX" in run.notes


def test_clearing_caches_that_failed_is_doubted(tmp_path: Path) -> None:
    claim = line("cache_clear", -15, True)
    failed = b'sysctl: setting key "vm.drop_caches", ignoring: Read-only file system\n'
    run = read(tmp_path, b"+ sync\n" + failed + claim.encode() + "".join(whole_run()).encode())
    (doubt,) = run.doubts
    assert doubt.code == "cache-not-cleared"
    assert "line 2 says: sysctl: setting key" in doubt.evidence
    assert (
        read(tmp_path, b"vm.drop_caches = 3\n" + claim.encode() + "".join(whole_run()).encode()).doubts == ()
    )


def test_a_throughput_that_contradicts_the_samples_is_doubted(tmp_path: Path) -> None:
    tracked = line("tracked_stats", 100, {"throughput": 400.0})
    (doubt,) = read(tmp_path, [*whole_run()[:-1], tracked, whole_run()[-1]]).doubts
    assert doubt.code == "throughput-contradicts"
    assert "16.67 samples/s, but the log's own throughput is 400" in doubt.evidence
    of_tokens = line("tracked_stats", 100, {"throughput": 400.0}, units={"throughput": "tokens/s"})
    assert read(tmp_path, [*whole_run()[:-1], of_tokens, whole_run()[-1]]).doubts == ()


def test_the_round_comes_from_the_form_then_the_nearest_folder_then_the_caller(tmp_path: Path) -> None:
    folder = tmp_path / "v1.0" / "training_results_v3.1" / "sys" / "resnet"
    folder.mkdir(parents=True)
    assert read(folder, whole_run()).round == "v3.1"
    old = b':::MLL 1.0 run_start: {"value": null}\n:::MLL 61.0 run_stop: {"value": null}'
    assert read(folder, old).round == "v0.6"
    assert read(tmp_path, whole_run()).round is None
    assert training_run(tmp_path / "result_0.txt", round_="v4.0").round == "v4.0"


def test_a_program_of_ours_states_its_round_and_that_it_was_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "v3.0"
    folder.mkdir()
    assert read(folder, [line("mlperf_round", -20, "v4.0"), *whole_run()]).round == "v4.0"
    assert read(folder, [line("mlperf_round", -20, "spring"), *whole_run()]).round == "v3.0"
    resumed = read(tmp_path, [line("resumed_from_step", -1, 3), *whole_run()])
    assert (resumed.status, resumed.minutes) == ("invalid", None)
    assert resumed.problem == "resumed from a checkpoint at step 3: the time before it is in another log"


def test_a_run_of_v05_is_read_from_its_values(tmp_path: Path) -> None:
    head = ":::MLPv0.5.0 ssd {} (train.py:1) "
    run = read(
        tmp_path,
        [
            head.format("100.0") + "run_start\n",
            head.format("160.0") + 'eval_accuracy: {"epoch": 48, "value": 0.219}\n',
            head.format("220.0") + 'run_stop: {"success": true}\n',
            head.format("220.1") + "run_final\n",
        ],
    )
    assert (run.status, run.minutes, run.round, run.benchmark) == ("success", 2.0, "v0.5", "ssd")
    assert run.evaluations == ((48.0, 0.219),)
    aborted = read(
        tmp_path, [head.format("1.0") + "run_start\n", head.format("9.0") + 'run_stop: {"success": false}\n']
    )
    assert aborted.status == "aborted"


keys = st.sampled_from(
    ["run_start", "run_stop", "eval_accuracy", "train_samples", "seed", "tracked_stats", "cache_clear",
     "submission_benchmark", "global_batch_size", "init_start", "loadgen_version"]
)  # fmt: skip
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["epoch", "value", "success"]), inner)
    ),
    max_leaves=4,
)
words = st.sampled_from(["epoch_num", "samples_count", "status", "metric"])


@given(st.lists(st.tuples(keys, st.integers(-100, 100), plain, st.dictionaries(words, plain)), max_size=8))
def test_whatever_a_log_states_is_a_run_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, stated: list[tuple[str, int, Any, dict[str, Any]]]
) -> None:
    text = "".join(line(key, at, value, **metadata) for key, at, value, metadata in stated)
    run = read(tmp_path_factory.mktemp("fuzz"), text.encode(errors="replace"))
    assert (run.status == "success") == (run.problem == "") == (run.minutes is not None)


def leaf(root: Path, folder: str, runs: int = 1) -> Path:
    path = root / folder
    path.mkdir(parents=True)
    for n in range(runs):
        (path / f"result_{n}.txt").write_text("".join(whole_run()))
    return path


def test_a_tree_of_mlcommons_gives_a_set_for_each_leaf(tmp_path: Path) -> None:
    leaf(tmp_path, "v3.1/NVIDIA/results/dgx/resnet", runs=11)
    (tmp_path / "v3.1/NVIDIA/systems").mkdir()
    (tmp_path / "v3.1/NVIDIA/systems/dgx.json").write_text('{"system_name": "DGX", "number_of_nodes": "1"}')
    (tmp_path / "v3.1/NVIDIA/results/dgx/resnet/scaling.json").write_text('{"scaling_factor": 1.5}')
    leaf(tmp_path, "v3.1/NVIDIA/results/dgx/ssd")
    first, second = find_sets([tmp_path])
    assert (first.name, second.name) == ("v3.1/NVIDIA/results/dgx/resnet", "v3.1/NVIDIA/results/dgx/ssd")
    assert (first.round, first.benchmark, first.system, first.scaling_factor) == (
        "v3.1",
        "resnet",
        "dgx",
        1.5,
    )
    assert first.system_facts["system_name"] == "DGX"
    assert [file.name for file in first.files] == [f"result_{n}.txt" for n in range(11)]
    assert (second.scaling_factor, second.problems) == (1.0, ())


def test_a_sets_name_does_not_depend_on_where_below_its_round_one_points(tmp_path: Path) -> None:
    path = leaf(tmp_path, "v3.1/NVIDIA/dgx/resnet")
    for root in (tmp_path, tmp_path / "v3.1", path.parent, path, path / "result_0.txt"):
        (found,) = find_sets([root])
        assert found.name == "v3.1/NVIDIA/dgx/resnet"


def test_a_folder_without_a_round_is_named_from_the_path_given(tmp_path: Path) -> None:
    path = leaf(tmp_path, "mine/dgx/my-test")
    (found,) = find_sets([tmp_path])
    assert (found.name, found.round, found.benchmark, found.system) == ("mine/dgx/my-test", None, None, None)
    (found,) = find_sets([path])
    assert found.name == "dgx/my-test"


def test_links_in_a_circle_and_hidden_folders_are_no_sets(tmp_path: Path) -> None:
    path = leaf(tmp_path, "a/resnet")
    leaf(tmp_path, ".git/resnet")
    (path / "again").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert [found.name for found in find_sets([tmp_path])] == ["a/resnet"]


def test_a_run_that_is_there_raw_and_compressed_counts_once(tmp_path: Path) -> None:
    path = leaf(tmp_path, "dgx/resnet")
    (path / "result_0.txt.gz").write_bytes(gzip.compress(b""))
    (found,) = find_sets([tmp_path])
    assert [file.name for file in found.files] == ["result_0.txt"]
    assert "skipped: the same run as result_0.txt" in str(found.problems[0])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"scaling_factor": "1"}', '{"scaling_factor": -1}', "{" * 9999, '{"x": NaN}']
)
def test_a_scaling_file_that_cannot_be_used_is_a_problem_and_not_one(tmp_path: Path, text: str) -> None:
    (leaf(tmp_path, "dgx/resnet") / "scaling.json").write_text(text)
    (found,) = find_sets([tmp_path])
    assert found.scaling_factor is None
    assert all("scaling.json" in problem.where for problem in found.problems)
    assert found.problems


def test_paths_without_results_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        find_sets([tmp_path / "empty", tmp_path / "absent"])
    assert [problem.where for problem in caught.value.problems] == [
        str(tmp_path / "empty"),
        str(tmp_path / "absent"),
    ]
    assert "no such file or folder" in str(caught.value)


def test_a_benchmark_that_the_log_does_not_name_comes_from_the_folder_and_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "dgx" / "rn50"
    path.mkdir(parents=True)
    (path / "result_0.txt").write_text("".join(whole_run()[1:]))
    (run,) = training_runs(find_sets([tmp_path])[0], round_="v2.0")
    assert (run.benchmark, run.round) == ("resnet", "v2.0")
    assert "the log does not name its benchmark; resnet is taken from the folder" in run.notes


@pytest.mark.mlperf_logs
def test_real_logs_of_every_round_are_read_without_a_skipped_line(mlperf_logs: Path) -> None:
    runs = [run for found in find_sets([mlperf_logs]) for run in training_runs(found)]
    assert len(runs) == 60
    assert {run.status for run in runs} == {"success", "aborted"}
    assert not [note for run in runs for note in run.notes if "could not be understood" in note]
    assert all(run.benchmark and run.round and run.evaluations for run in runs)
    unet3d = next(run for run in runs if run.benchmark == "unet3d")
    assert (unet3d.epochs, unet3d.samples) == (3560.0, 598_080.0)
    assert "epoch_num counts samples: unet3d in v3.1" in unet3d.notes[0]
    assert not [doubt for run in runs for doubt in run.doubts if doubt.code == "length-contradicts"]
    assert not [note for run in runs for note in run.notes if "is unknown for" in note]
