"""What workloads make of parameters and of logs; the programs themselves run in test_payloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from assay.errors import InputError
from assay.records import Metric, Reading, Shape, from_json, to_json
from assay.workloads import WORKLOADS, payload_log

ONE = Shape(1, 1)
RATE = Metric("rate", "B/s", "higher", "bytes a second")


def line(
    key: str,
    value: object = None,
    seq: int = 0,
    rank: int = 0,
    kind: str = "POINT_IN_TIME",
    time_ms: int = 1,
    **about: Any,
) -> str:
    metadata = {"rank": rank, "seq": seq, **about}
    entry = {"namespace": "assay", "time_ms": time_ms, "event_type": kind, "key": key, "value": value}
    return f":::MLLOG {json.dumps(entry | {'metadata': metadata})}"


def whole(*said: tuple[str, object, dict[str, Any]], rank: int = 0, size: int = 1) -> list[str]:
    """A complete log of one rank with these lines in the middle."""
    body = [("world_size", size, {}), *said]
    middle = [line(key, value, seq, rank, **about) for seq, (key, value, about) in enumerate(body, 1)]
    end = line("payload", None, len(body) + 1, rank, "INTERVAL_END")
    return [line("payload", None, 0, rank, "INTERVAL_START"), *middle, end]


def read(tmp_path: Path, *logs: list[str]) -> Reading:
    paths = {f"rank-{rank}.log": tmp_path / f"rank-{rank}.log" for rank in range(len(logs))}
    for path, lines in zip(paths.values(), logs, strict=True):
        path.write_text("".join(f"{text}\n" for text in lines))
    return payload_log.read(paths, [RATE])


def rate(value: object = 5.0, unit: str = "B/s", **labels: object) -> tuple[str, object, dict[str, Any]]:
    return "rate", value, {"unit": unit, "labels": labels}


def test_a_measurement_knows_its_value_unit_labels_file_and_line(tmp_path: Path) -> None:
    reading = read(tmp_path, ["noise", *whole(rate(7.5, size=8))])
    (found,) = reading.measurements
    assert (found.metric, found.value, found.unit, found.labels) == ("rate", 7.5, "B/s", {"size": 8})
    assert (found.file, found.line) == ("rank-0.log", 4)
    assert not reading.problems
    assert reading.skipped_lines == 0


def test_a_value_in_another_prefix_comes_in_the_declared_unit(tmp_path: Path) -> None:
    assert read(tmp_path, whole(rate(2.0, "MB/s"))).measurements[0].value == 2e6


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (rate(5.0, "s"), "expected 'B/s'"),
        (rate(float("nan")), "not a finite number"),
        (rate(float("inf")), "not a finite number"),
        (rate("5"), "not a finite number"),
        (rate(True), "not a finite number"),
        (rate(None), "not a finite number"),
        (rate(10**400), "not a finite number"),
    ],
)
def test_what_is_no_figure_of_the_metric_is_a_problem_and_no_number(
    tmp_path: Path, said: tuple[str, object, dict[str, Any]], complaint: str
) -> None:
    reading = read(tmp_path, whole(said))
    assert not reading.measurements
    assert any(complaint in problem and "rank-0.log:3" in problem for problem in reading.problems)


def test_a_figure_that_is_printed_twice_is_a_problem(tmp_path: Path) -> None:
    reading = read(tmp_path, whole(rate(5.0, size=1), rate(5.0, size=2), rate(5.0, size=1)))
    (problem,) = reading.problems
    assert "already measured at rank-0.log:3" in problem


def test_a_declared_metric_without_a_figure_is_a_problem(tmp_path: Path) -> None:
    assert read(tmp_path, whole()).problems == ("the log has no figure for rate",)


def test_figures_of_other_metrics_are_counted_and_left_out(tmp_path: Path) -> None:
    reading = read(tmp_path, whole(rate(), ("other", 1.0, {"unit": "s"})))
    assert [m.metric for m in reading.measurements] == ["rate"]
    assert reading.skipped_lines == 1


def test_a_lost_line_is_a_problem(tmp_path: Path) -> None:
    log = whole(rate(size=1), rate(size=2), rate(size=3))
    del log[3]
    assert read(tmp_path, log).problems == ("rank-0.log:4: the log lost lines of rank 0: seq 4 follows 2",)


def test_a_damaged_line_is_counted_and_missed(tmp_path: Path) -> None:
    log = whole(rate(size=1), rate(size=2))
    log[3] = log[3][:60]
    reading = read(tmp_path, log)
    assert reading.skipped_lines == 1
    assert reading.problems == ("rank-0.log:5: the log lost lines of rank 0: seq 4 follows 2",)


def test_a_log_without_its_end_is_a_problem(tmp_path: Path) -> None:
    assert read(tmp_path, whole(rate())[:-1]).problems == ("the log of rank 0 ends before the program's end",)


def test_a_rank_that_said_nothing_is_a_problem(tmp_path: Path) -> None:
    assert read(tmp_path, whole(rate(), size=2)).problems == ("no log has a line of rank 1 of 2 ranks",)


def test_a_log_without_lines_of_ours_is_a_problem_and_no_reading(tmp_path: Path) -> None:
    reading = read(tmp_path, ["Traceback (most recent call last):"])
    assert reading == Reading(
        problems=("no log has a line of the program: it printed nothing, or printed elsewhere",)
    )


def test_ranks_that_state_different_facts_are_a_problem(tmp_path: Path) -> None:
    logs = [whole(("precision", p, {}), rate(), rank=r, size=2) for r, p in enumerate(("bf16", "fp32"))]
    assert read(tmp_path, *logs).problems == ("precision is 'bf16' on rank 0, but 'fp32' on rank 1",)


def test_figures_come_from_rank_0_alone_and_ranks_may_share_a_file(tmp_path: Path) -> None:
    zero, one = whole(rate(1.0), rank=0, size=2), whole(rate(2.0), rank=1, size=2)
    reading = read(tmp_path, [text for pair in zip(zero, one, strict=True) for text in pair])
    assert [m.value for m in reading.measurements] == [1.0]
    assert not reading.problems


def test_tracked_stats_become_series_and_placed_values_no_facts(tmp_path: Path) -> None:
    units = {"wait": "s", "rate": "ignored where a metric says it", "loss": 7}
    steps = [
        ("tracked_stats", {"rate": 4.0 + i, "loss": 0.5, "wait": 1.0}, {"step": 10 * i, "units": units})
        for i in (1, 2)
    ]
    reading = read(tmp_path, whole(*steps, ("eval_accuracy", 0.5, {"epoch_num": 1}), rate()))
    by_name = {series.name: series for series in reading.series}
    assert by_name["rate"].x == (10.0, 20.0)
    assert by_name["rate"].y == (5.0, 6.0)
    assert [by_name[name].unit for name in ("rate", "loss", "wait")] == ["B/s", "", "s"]
    assert reading.facts == {"world_size": 1}


def test_a_point_of_a_series_that_is_no_number_is_a_problem(tmp_path: Path) -> None:
    reading = read(tmp_path, whole(("tracked_stats", {"loss": float("nan")}, {"step": 1}), rate()))
    assert not reading.series
    assert any("loss at step 1 is nan" in problem for problem in reading.problems)


def test_a_fact_that_changes_is_a_problem(tmp_path: Path) -> None:
    reading = read(tmp_path, whole(("seed", 1, {}), ("seed", 2, {}), rate()))
    assert any("seed is 2, but was 1 before" in problem for problem in reading.problems)


def test_the_probes_log_is_left_out(tmp_path: Path) -> None:
    for name, lines in {"rank-0.log": whole(rate()), "probe-0.log": whole(rate(9.0), rank=5)}.items():
        (tmp_path / name).write_text("\n".join(lines))
    reading = payload_log.read({path.name: path for path in tmp_path.iterdir()}, [RATE])
    assert not reading.problems


_PIECES = st.sampled_from(
    [
        *whole(rate(), ("tracked_stats", {"loss": 1.0}, {"step": 1})),
        ":::MLLOG ",
        '"unit": 3',
        "\x00",
        "{",
        "NaN",
        "\n",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=20), max_size=12), st.integers(0, 400))
def test_no_log_makes_the_reader_raise_or_give_a_record_that_is_not_json(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], cut: int
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "rank-0.log"
    path.write_bytes("".join(pieces).encode(errors="replace")[cut:])
    reading = payload_log.read({"rank-0.log": path}, [RATE])
    assert from_json(Reading, to_json(reading)) == reading


_JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from(["rank", "seq", "unit", "labels", "step", "epoch"]), _JSON), _JSON)
def test_metadata_of_any_kind_is_no_reason_to_raise(
    tmp_path_factory: pytest.TempPathFactory, about: dict[str, Any], value: object
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "rank-0.log"
    path.write_text(
        "\n".join(line(key, value, **about) for key in ("rate", "tracked_stats", "seed", "payload"))
    )
    reading = payload_log.read({"rank-0.log": path}, [RATE])
    assert from_json(Reading, to_json(reading)) == reading


def params_of(name: str, **given_params: Any) -> Any:
    """Its defaults, or its example where it has no defaults for all."""
    model = WORKLOADS[name].params
    example = {"argv": ["true"], "metrics": {"t": {"reader": "mllog"}}} if name == "command" else {}
    if name != "command" and not valid(model):
        example = model.model_json_schema()["examples"][0]
    return model(**(example | given_params))


def valid(model: type[BaseModel]) -> bool:
    try:
        model()
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", WORKLOADS)
def test_parameters_survive_json_and_unknown_ones_are_refused(name: str) -> None:
    workload, params = WORKLOADS[name], params_of(name)
    assert workload.params(**json.loads(params.model_dump_json())) == params
    with pytest.raises(ValidationError, match="Extra inputs"):
        params_of(name, no_such_parameter=1)


@pytest.mark.parametrize("name", WORKLOADS)
def test_metrics_and_tasks_are_whole(name: str) -> None:
    workload, params = WORKLOADS[name], params_of(name)
    metrics = workload.reader.metrics(params)
    assert len({metric.name for metric in metrics}) == len(metrics) > 0
    try:
        shape, task = Shape(1, 2), workload.task(params, Shape(1, 2), 5)
    except InputError:  # it is one process, whatever it drives
        shape, task = ONE, workload.task(params, ONE, 5)
    assert task == workload.task(params, shape, 5)
    assert workload.name == name
    assert bool(workload.sample) == (workload.reader.flops(params) is not None)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_parameter_is_described_and_the_examples_are_valid(name: str) -> None:
    model = WORKLOADS[name].params
    assert all(field.description for field in model.model_fields.values())
    for example in model.model_json_schema().get("examples", []):
        model.model_validate_json(json.dumps(example), strict=True)


def test_a_program_travels_with_its_data_and_gets_every_parameter_and_the_seed() -> None:
    params = params_of("digits", learning_rate=0.05)
    task = WORKLOADS["digits"].task(params, ONE, seed=9)
    travels = [file.name.removeprefix("assay_payloads/") for file in task.files]
    assert travels == [
        *("__init__.py", "measuring/__init__.py", "measuring/rank.py"),
        *("training/__init__.py", "training/digits.py", "datasets/digits.csv.gz"),
    ]
    text = " ".join(task.argv)
    assert text.startswith("{python} -m assay_payloads.training.digits ")
    assert "--learning-rate 0.05 " in text
    assert "--seed 9" in text


def test_options_are_lists_switches_and_left_out_where_the_program_decides() -> None:
    matmul = WORKLOADS["matmul"].task(params_of("matmul", sizes=[64, 128]), ONE, 1)
    assert "--sizes 64 128 --dtypes fp32 bf16" in " ".join(matmul.argv)
    resnet = WORKLOADS["resnet50"].task(params_of("resnet50", channels_last=False), ONE, 1)
    assert "--no-channels-last" in resnet.argv
    assert "--array-bytes" not in WORKLOADS["membw"].task(params_of("membw"), ONE, 1).argv


def test_each_trial_of_a_suite_can_have_its_own_checkpoints() -> None:
    workload = WORKLOADS["resnet50"]
    params = workload.params(checkpoint="/data/{shape}-{seed}")
    argv = workload.task(params, Shape(2, 1), 7).argv
    assert argv[argv.index("--checkpoint") + 1] == "/data/2x1-7"


def test_impossible_shapes_are_errors_of_the_plan() -> None:
    with pytest.raises(InputError, match="at least 2 ranks"):
        WORKLOADS["allreduce"].task(params_of("allreduce"), ONE, 1)
    with pytest.raises(InputError, match="split evenly over 3 ranks"):
        WORKLOADS["digits"].task(params_of("digits"), Shape(3, 1), 1)


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        ("digits", {"global_batch_size": 60}, "doesn't divide the 1344 .* write 56"),
        ("digits", {"global_batch_size": 5000}, "write 1344"),
        ("resnet50", {"batch_size": 1, "image_size": 32}, "above 32"),
        ("allreduce", {"payload_bytes": [6]}, "multiple of 4"),
        ("matmul", {"dtypes": ["int3"]}, "fp32"),
    ],
)
def test_impossible_parameters_are_refused_with_what_would_do(
    name: str, wrong: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        params_of(name, **wrong)


def test_flops_of_a_resnet50_image_are_the_published_ones_and_grow_with_its_area() -> None:
    flops = WORKLOADS["resnet50"].reader.flops
    assert flops(params_of("resnet50")) == pytest.approx(24.3e9)
    assert flops(params_of("resnet50", image_size=112)) == pytest.approx(24.3e9 / 4)


def training(tmp_path: Path, status: str | None, *figures: str) -> Reading:
    units = {
        "time_to_train": "s",
        "epochs_to_target": "epochs",
        "time_per_epoch": "s",
        "throughput": "images/s",
    }
    accuracies = [("tracked_stats", {"accuracy": a}, {"epoch": e}) for e, a in enumerate((0.5, 0.7, 0.6), 1)]
    said = [*accuracies, *((name, 3.0, {"unit": units[name], "labels": {}}) for name in figures)]
    log = whole(*said)
    seq = len(log) - 1
    if status is not None:
        log[-1:] = [
            line("run_start", None, seq, kind="INTERVAL_START", time_ms=1000),
            line("eval_accuracy", 0.7, seq + 1, epoch_num=1, time_ms=1500),
            line("run_stop", None, seq + 2, kind="INTERVAL_END", status=status, time_ms=4000),
            line("payload", None, seq + 3, kind="INTERVAL_END"),
        ]
    path = tmp_path / "rank-0.log"
    path.write_text("\n".join(log) + "\n")
    return WORKLOADS["digits"].reader.read({"rank-0.log": path}, params_of("digits"))


def test_a_training_that_reached_its_target_gives_all_four_figures(tmp_path: Path) -> None:
    reading = training(
        tmp_path, "success", "time_to_train", "epochs_to_target", "time_per_epoch", "throughput"
    )
    assert not reading.problems
    assert len(reading.measurements) == 4


def test_a_training_that_gave_up_has_a_problem_and_no_time_to_train(tmp_path: Path) -> None:
    reading = training(tmp_path, "aborted", "time_per_epoch", "throughput")
    assert reading.problems == ("target accuracy 0.98 was not reached: aborted, the best was 0.7",)
    assert {m.metric for m in reading.measurements} == {"time_per_epoch", "throughput"}


def test_a_success_without_its_time_is_a_problem(tmp_path: Path) -> None:
    reading = training(tmp_path, "success", "time_per_epoch", "throughput")
    assert "the log has no figure for time_to_train" in reading.problems


def test_a_training_without_run_stop_is_unfinished(tmp_path: Path) -> None:
    assert "not reached: unfinished" in training(tmp_path, None, "time_per_epoch", "throughput").problems[0]


IMAGES = {"pattern": r"step (?P<step>\d+): (?P<value>\S+) images/s", "unit": "images/s", "better": "higher"}


def command(tmp_path: Path, text: str, **metrics: dict[str, Any]) -> Reading:
    path = tmp_path / "rank-0.log"
    path.write_text(text, newline="")
    params = params_of("command", metrics=metrics)
    return WORKLOADS["command"].reader.read({"rank-0.log": path}, params)


def test_a_pattern_gives_the_last_figure_and_all_of_them_as_a_series(tmp_path: Path) -> None:
    reading = command(tmp_path, "hello\nstep 1: 10 images/s\nstep 2: 12.5 images/s\n", throughput=IMAGES)
    (found,) = reading.measurements
    assert (found.metric, found.value, found.unit, found.file, found.line) == (
        *("throughput", 12.5, "images/s"),
        *("rank-0.log", 3),
    )
    (series,) = reading.series
    assert (series.x_name, series.x, series.y) == ("step", (1.0, 2.0), (10.0, 12.5))
    assert not reading.problems


@pytest.mark.parametrize(
    ("pick", "value"),
    [("first", 1.0), ("last", 3.0), ("mean", 4.0), ("median", 3.0), ("min", 1.0), ("max", 8.0)],
)
def test_pick_says_which_of_several_figures_counts(tmp_path: Path, pick: str, value: float) -> None:
    asked = {"pattern": r"t=(?P<value>\d+)", "unit": "s", "pick": pick}
    assert command(tmp_path, "t=1\nt=8\nt=3\n", t=asked).measurements[0].value == value


def test_other_named_groups_are_labels_and_units_become_base_units(tmp_path: Path) -> None:
    asked = {"pattern": r"(?P<op>copy|triad): (?P<value>\S+) MB/s", "unit": "MB/s"}
    reading = command(tmp_path, "copy: 10 MB/s\ntriad: 12 MB/s\ncopy: 11 MB/s\n", bandwidth=asked)
    assert {m.labels["op"]: m.value for m in reading.measurements} == {"copy": 11e6, "triad": 12e6}
    assert WORKLOADS["command"].reader.metrics(params_of("command", metrics={"b": asked}))[0].unit == "B/s"


def test_a_metric_that_never_matches_is_a_problem_and_never_a_number(tmp_path: Path) -> None:
    reading = command(tmp_path, "nothing here\n", throughput=IMAGES)
    assert not reading.measurements
    assert reading.problems[0].startswith("no figure for throughput: no line of rank 0 matches ")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("nan", "the group value matched 'nan', which is not a finite number"),
        ("1e200", "the group value matched '1e200', which is larger than 1e+100"),
        (
            "-",
            "the group value matched '-', which is not a number; "
            "write (?P<value>[-+.0-9eE]+) around the number",
        ),
        (
            "1,000",
            "the group value matched '1,000', which is not a number because of ','; "
            'print it without thousands separators, like 1000, or write thousands: "," next to the pattern',
        ),
        (
            "12,5",
            "the group value matched '12,5', which is not a number because of ','; print plain digits, "
            "like 1234.5; if ',' ends the number, write it next to the group, as in (?P<value>[-+.0-9eE]+),",
        ),
        (
            "12%",
            "the group value matched '12%', which is not a number because of '%'; "
            "write (?P<value>[-+.0-9eE]+), which matches the whole number",
        ),
        ("", "the group value is empty in 'rate='; write (?P<value>[-+.0-9eE]+) around the number"),
    ],
)
def test_a_match_that_is_no_finite_number_is_a_problem_with_its_line(
    tmp_path: Path, word: str, why: str
) -> None:
    asked = {"pattern": r"rate=(?P<value>\S*)", "unit": ""}
    reading = command(tmp_path, f"x\nrate={word}\nrate=5\n", rate=asked)
    assert reading.problems == (f"rank-0.log:2: rate: {why}",)


def test_a_line_that_matched_but_is_no_number_is_reported_once_and_not_as_missing(tmp_path: Path) -> None:
    asked = {"pattern": r"tput=(?P<value>[0-9.,]+)/s", "unit": ""}
    assert command(tmp_path, "tput=14,321,164.8/s\n", tput=asked).problems == (
        "rank-0.log:1: tput: the group value matched '14,321,164.8', which is not a number because of ','; "
        'print it without thousands separators, like 14321164.8, or write thousands: "," next to the pattern',
    )
    own = {**asked, "thousands": ","}
    (measured,) = command(tmp_path, "tput=14,321,164.8/s\n", tput=own).measurements
    assert measured.value == 14321164.8
    assert "which is not a number" in command(tmp_path, "tput=14,32,1/s\n", tput=own).problems[0]
    assert "which is not a number" in command(tmp_path, "tput=1,000/s\n", tput=asked).problems[0]
    keyed = command(tmp_path, line("bandwidth", "fast") + "\n", bandwidth={"reader": "mllog"})
    assert keyed.problems == ("rank-0.log:1: bandwidth: 'fast' is not a finite number",)


@pytest.mark.parametrize(
    ("printed", "matched", "token", "instead"),
    [
        ("1,234.5", "1", "1,234.5", "match all of it, as in (?P<value>[-+.,'_0-9eE]+), and write thousands"),
        ("12,5", "12", "12,5", "print plain digits, like 1234.5"),
        ("1'234", "1", "1'234", "like 1234, or match all of it"),
        ("1.234e+03", "1.234", "1.234e+03", "write (?P<value>[-+.0-9eE]+), which matches the whole number"),
        ("3.4k", "3.4", "3.4k", "as in (?P<value>[-+.0-9eE]+)k, and add k to the unit"),
        ("3.4kimages/s", "3.4", "3.4k", "add k to the unit"),
        ("1:23:45", "1", "1:23:45", "print plain digits"),
        ("0x1f", "0", "0x1f", "print plain digits"),
    ],
)
def test_a_match_of_a_part_of_a_number_is_a_problem_and_no_figure(
    tmp_path: Path, printed: str, matched: str, token: str, instead: str
) -> None:
    asked = {"pattern": r"rate: (?P<value>[0-9.]+)", "unit": "images/s"}
    reading = command(tmp_path, f"x\nrate: {printed} at last\n", rate=asked)
    assert not reading.measurements
    assert reading.problems[0].startswith(f"rank-0.log:2: rate: {matched!r} is only part of {token}; ")
    assert instead in reading.problems[0]


@pytest.mark.parametrize(
    ("pattern", "text", "matched"),
    [
        (r"loss.*?(?P<value>[0-9.]+)", "loss: -0.35", "'0.35' is only part of -0.35"),
        (r"loss.*(?P<value>[0-9.]+)", "loss: 812.35", "'5' is only part of 812.35"),
        (r"loss.*?(?P<value>[0-9.]+).*", "loss: 1,234", "'1' is only part of 1,234"),
        (r"loss (?P<value>[0-9.]+)[kM]?", "loss 3.4k", "'3.4' is only part of 3.4k"),
        (r"(?P<value>[0-9.]+)$", "3,812.5", "'812.5' is only part of 3,812.5"),
        (r"step (?P<step>\d+).* (?P<value>\S+)", "step 1,000 loss 2", "'1' is only part of 1,000"),
    ],
)
def test_a_pattern_that_leaves_out_a_part_of_a_number_is_no_way_around(
    tmp_path: Path, pattern: str, text: str, matched: str
) -> None:
    reading = command(tmp_path, f"{text}\n", loss={"pattern": pattern})
    assert not reading.measurements
    assert matched in reading.problems[0]


@pytest.mark.parametrize(
    ("pattern", "text", "unit", "value"),
    [
        (r"^(?P<step>\d+),(?P<value>[0-9.]+),", "3,812.5,0.1", "", 812.5),
        (r"(?P<value>[^,]+)$", "3,812.5", "", 812.5),
        (r"rate: (?P<value>[0-9.]+)k", "rate: 3.4k", "kimages/s", 3.4),
        (r"rate: (?P<value>[0-9.]+)", "rate: 12, loss: 5", "", 12.0),
        (r"rate: (?P<value>[0-9.]+)", "rate: 12.", "", 12.0),
        (r"rate: (?P<value>[0-9.]+)", "rate: 12s", "s", 12.0),
        (r"rate: (?P<value>[0-9.]+)", "rate: 12M", "MB", 12e6),
        (r"rate: (?P<value>[0-9.]+)", "rate: 12/40", "", 12.0),
        (r"rate: (?P<value>[0-9.]+)", "rate: 12±3", "", 12.0),
        (r"accuracy (?P<value>[0-9.]+)", "accuracy 98.5%", "%", 0.985),
        (r"gpu \d:(?P<value>[0-9.]+)", "gpu 0:12.3", "", 12.3),
    ],
)
def test_a_number_that_ends_where_the_pattern_says_is_a_figure(
    tmp_path: Path, pattern: str, text: str, unit: str, value: float
) -> None:
    reading = command(tmp_path, f"{text}\n", rate={"pattern": pattern, "unit": unit})
    assert [m.value for m in reading.measurements] == [value]
    assert not reading.problems


def test_a_figure_that_is_printed_in_another_unit_than_the_declared_one_is_a_problem(tmp_path: Path) -> None:
    asked = {"pattern": r"took (?P<value>[0-9.]+)", "unit": "s"}
    reading = command(tmp_path, "took 12 ms\n", took=asked)
    assert not reading.measurements
    assert reading.problems[0] == (
        "rank-0.log:1: took: 12 is printed in ms, but its unit is declared as s; write unit: ms"
    )


def test_progress_bars_are_read_and_only_the_start_of_a_very_long_line(tmp_path: Path) -> None:
    asked = {"pattern": r"t=(?P<value>\d+)", "unit": "s"}
    assert command(tmp_path, "t=1\rt=2\rt=3\n", t=asked).measurements[0].value == 3.0
    assert command(tmp_path, "x" * 2000 + "t=1\n", t=asked).problems
    (half,) = command(tmp_path, "x" * 1996 + "t=1234\n", t=asked).problems[:1]
    assert half == "rank-0.log:1: t: 12 ends at the maximum line length of 2000 bytes"


def test_keys_of_mlperf_lines_are_metrics_too(tmp_path: Path) -> None:
    lines = [line("eval_accuracy", a, epoch_num=e) for e, a in ((1, 0.5), (2, 0.75))]
    lines += [line("bandwidth", 3.0, unit="GB/s", labels={"op": "sum"}), line("other", 1.0)]
    asked = {
        "eval_accuracy": {"reader": "mllog", "pick": "max"},
        "bandwidth": {"reader": "mllog", "unit": "MB/s"},
    }
    reading = command(tmp_path, "\n".join(lines) + "\n", **asked)
    assert {(m.metric, m.value, m.unit) for m in reading.measurements} == {
        ("eval_accuracy", 0.75, ""),
        ("bandwidth", 3e9, "B/s"),
    }
    assert reading.series[0].x == (1.0, 2.0)
    assert not reading.problems


def test_an_mlperf_line_in_another_unit_or_without_a_number_is_a_problem(tmp_path: Path) -> None:
    lines = [line("rate", 3.0, unit="s"), line("rate", "fast", unit="B/s")]
    reading = command(tmp_path, "\n".join(lines) + "\n", rate={"reader": "mllog", "unit": "B/s"})
    assert not reading.measurements
    assert [p.partition("rate")[2] for p in reading.problems[:2]] == [
        " is in 's', expected 'B/s'",
        ": 'fast' is not a finite number",
    ]


RULES = {
    "time_to_train": {"reader": "mlperf", "unit": "s", "better": "lower"},
    "epochs_to_target": {"reader": "mlperf", "unit": "epochs"},
    "throughput": {"reader": "mlperf", "unit": "samples/s"},
}


def trained(status: str) -> str:
    start = line("run_start", kind="INTERVAL_START", time_ms=1000)
    samples = line("train_samples", 300)
    evaluated = line("eval_accuracy", 0.7, epoch_num=2, time_ms=1500)
    stop = line("run_stop", kind="INTERVAL_END", status=status, time_ms=4000)
    return "\n".join([samples, start, evaluated, stop]) + "\n"


def test_a_training_by_mlperfs_rules_gives_its_figures(tmp_path: Path) -> None:
    reading = command(tmp_path, trained("success"), **RULES)
    found = {m.metric: (m.value, m.unit, m.line) for m in reading.measurements}
    assert found == {
        "time_to_train": (pytest.approx(3.0), "s", 4),
        "epochs_to_target": (2.0, "epochs", 4),
        "throughput": (pytest.approx(200.0), "samples/s", 4),
    }
    assert reading.training is not None
    assert not reading.problems


def test_a_training_by_mlperfs_rules_that_gave_up_is_a_problem_and_no_number(tmp_path: Path) -> None:
    reading = command(tmp_path, trained("aborted"), **RULES)
    assert not reading.measurements
    assert reading.problems[0].startswith("rank-0.log: the training is aborted")


def test_a_log_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    reading = WORKLOADS["command"].reader.read({}, params_of("command", metrics={"t": IMAGES}))
    assert reading.problems == ("rank-0.log does not exist: the program printed nothing",)


def test_a_log_that_is_wrong_in_every_line_has_few_problems_and_says_how_many_more(tmp_path: Path) -> None:
    asked = {"pattern": r"rate=(?P<value>\S*)"}
    problems = command(tmp_path, "rate=none\n" * 1000, rate=asked).problems
    assert problems[20] == "and 980 more of this kind"
    assert len(problems) == 21
    lost = whole(*(rate(size=n) for n in range(100)))[::2]
    assert any(problem.endswith("more of this kind") for problem in read(tmp_path, lost).problems)


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"t=", b":::MLLOG {", b':::MLLOG {"key":"t","value":1}\n'])
)
def test_no_output_of_a_program_makes_the_reader_raise(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, start: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "rank-0.log"
    path.write_bytes(start + noise + start + b"7\n")
    asked = {
        "t": {"pattern": r"t=(?P<value>\S+)"},
        "time_to_train": RULES["time_to_train"],
        "k": {"reader": "mllog"},
    }
    reading = WORKLOADS["command"].reader.read({path.name: path}, params_of("command", metrics=asked))
    assert from_json(Reading, to_json(reading)) == reading


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"pattern": "("}, "is not a regular expression"),
        ({"pattern": "x"}, "no group named value"),
        ({"pattern": r"(?<=: )(?P<value>\d+)"}, r"contains lookaround, .* match the text around the group"),
        ({"pattern": r"(?P<value>\d+)(?! MB)"}, "contains lookaround"),
        (
            {"pattern": r"(?P<value>\d)(?P=value)"},
            "contains a backreference.* write the group's pattern again",
        ),
        ({"pattern": r"(a)\1(?P<value>x)"}, "contains a backreference"),
        ({"pattern": r"(?P<value>\d++)"}, "possessive .* write an ordinary repeat"),
        ({"pattern": r"(?P<value>\d+)\Z"}, r"write \$"),
        ({"pattern": r"(?P<value>\d{1,2000})"}, "more than 1000 repeats"),
        ({"pattern": r"(?P<value>\d{,3})"}, r"write \{0,n\}"),
        ({"pattern": r"(?P<value>\d)|(?P<value>x)"}, "redefinition of group name 'value'"),
        ({"pattern": "(?P<value>[0-9]"}, "missing .* at position 0"),
        ({"pattern": "(?P<value>x)" + "y" * 500}, "at most 500"),
        ({}, "either a pattern or a reader"),
        ({"pattern": "(?P<value>x)", "reader": "mllog"}, "either a pattern or a reader"),
        ({"pattern": "(?P<value>x)", "better": "up"}, "higher"),
    ],
)
def test_a_metric_that_can_not_be_read_is_refused_when_the_suite_is_loaded(
    asked: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        params_of("command", metrics={"t": asked})


@pytest.mark.parametrize(
    ("name", "unit", "complaint"),
    [
        ("loss", "", "reports time_to_train, epochs_to_target"),
        ("throughput", "images/s", "reports samples/s"),
    ],
)
def test_what_mlperfs_rules_do_not_give_is_refused(name: str, unit: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        params_of("command", metrics={name: {"reader": "mlperf", "unit": unit}})


def test_a_pattern_that_would_backtrack_for_years_is_searched_for_at_once(tmp_path: Path) -> None:
    asked = {"pattern": r"(\w+\s?)*images/sec: (?P<value>[0-9.]+)", "unit": "images/s"}
    reading = command(tmp_path, "word " * 26 + "xxx\nwords and images/sec: 7.5\n", throughput=asked)
    assert [m.value for m in reading.measurements] == [7.5]


def test_a_command_takes_its_seed_its_files_and_its_place(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    params = params_of("command", argv=["{python}", "train.py", "--seed", "{seed}"], files=[str(script)])
    task = WORKLOADS["command"].task(params, ONE, 7)
    assert task.argv == ("{python}", "train.py", "--seed", "7")
    assert [(file.name, file.data) for file in task.files] == [("train.py", b"print(1)")]
    script.unlink()
    with pytest.raises(InputError, match=r"train\.py: can't be read: No such file"):
        WORKLOADS["command"].task(params, ONE, 7)


def test_relative_places_are_below_the_suites_directory(tmp_path: Path) -> None:
    given_params = {"argv": ["x"], "metrics": {"t": IMAGES}, "cwd": "work"}
    params = WORKLOADS["command"].params.model_validate(given_params, context={"directory": tmp_path})
    assert params.cwd == str(tmp_path / "work")  # type: ignore[attr-defined]
    assert params_of("command", cwd=".").cwd == str(Path.cwd())


def test_files_and_a_directory_exclude_each_other_and_files_have_names_of_their_own() -> None:
    with pytest.raises(ValidationError, match="leave out either"):
        params_of("command", files=["a.py"], cwd="/tmp")
    with pytest.raises(ValidationError, match=r"several files are called a\.py"):
        params_of("command", files=["a.py", "b/a.py"])
