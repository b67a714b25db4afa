"""The plan: same input, same trials, in an order that is fair and can be gone on with."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay import plan
from assay.errors import InputError
from assay.records import Plan, Shape, Task, TaskFile, Trial, from_json, to_json, to_plain
from assay.suite import Suite, Systems, load
from assay.workloads.command import COMMAND
from conftest import ROOT
from fake_workloads import LAUNCHERS, PARAMS, SWEEP, TRAIN, WORKLOADS

SUITE = """\
suite: demo
systems: [here, there]
repeats: 3
shapes: [1x1, 2x1]
benchmarks:
  training:
    workload: train
    params: {batch_size: [32, 64]}
  communication:
    workload: sweep
    shapes: [2x1]
"""
SYSTEMS = "here: {launcher: local}\nthere: {launcher: local, env: {A: b}}\nother: {launcher: local}\n"


def read(folder: Path, text: str = SUITE, systems: str = SYSTEMS) -> tuple[Suite, Systems]:
    path = folder / "suite.yaml"
    path.write_text(text)
    path.with_name("systems.yaml").write_text(systems)
    return load(path, params_models=PARAMS, launcher_models=LAUNCHERS)


def made(folder: Path, text: str = SUITE, systems: str = SYSTEMS, only: Sequence[str] = ()) -> Plan:
    return plan.make(*read(folder, text, systems), only=only, workloads=WORKLOADS)


def block_of(whole: Plan, number: int) -> list[Trial]:
    return [trial for trial in whole.trials if trial.block == number]


def test_the_plan_of_a_suite_is_the_one_on_file(tmp_path: Path) -> None:
    lines = [f"{trial.id} seed {trial.seed} digest {trial.digest}\n" for trial in made(tmp_path).trials]
    assert "".join(lines) == (ROOT / "tests" / "golden" / "plan.txt").read_text()


def test_a_plan_survives_being_written_and_read(tmp_path: Path) -> None:
    whole = made(tmp_path)
    assert from_json(Plan, to_json(whole)) == whole


# Parameters of a system


def with_params(params: str) -> str:
    return SYSTEMS.replace("env: {A: b}", f"params: {params}")


def test_a_system_runs_the_benchmarks_with_its_own_parameters(tmp_path: Path) -> None:
    plain, own = made(tmp_path), made(tmp_path, systems=with_params("{precision: bf16}"))
    there = [trial for trial in own.trials if trial.system == "there" and trial.benchmark == "training"]
    assert {(trial.params["precision"], trial.declared_params) for trial in there} == {
        ("bf16", ("precision",))
    }
    assert {trial.params["precision"] for trial in own.trials if trial.system == "here" and trial.varied} == {
        "fp32"
    }
    assert {trial.declared_params for trial in own.trials if trial.benchmark == "communication"} == {()}
    assert (own.suite_digest, own.digest == plain.digest) == (plain.suite_digest, False)
    places = [(trial.id, trial.varied) for trial in own.trials]
    assert places == [(trial.id, trial.varied) for trial in plain.trials], "the points and their order stay"
    assert {t.task_digest for t in there}.isdisjoint(t.task_digest for t in plain.trials)
    assert block_of(own, 2) == list(
        plan.block(*read(tmp_path, systems=with_params("{precision: bf16}")), 2, workloads=WORKLOADS)
    )


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ("{precison: bf16}", '"precison" is not a parameter of this suite; did you mean precision?'),
        ("{precision: fp8}", 'precision: found "fp8"; expected one of fp32, bf16'),
        ("{batch_size: 8}", "params.batch_size: training sweeps it"),
        ("[precision]", "there.params: found"),
    ],
)
def test_what_is_wrong_with_them_is_reported_with_its_line(tmp_path: Path, params: str, why: str) -> None:
    with pytest.raises(InputError, match=r"systems\.yaml:2: ") as error:
        made(tmp_path, systems=with_params(params))
    assert why in str(error.value)


# Ids


def test_an_id_says_what_is_swept_the_shape_the_system_and_the_block(tmp_path: Path) -> None:
    ids = {trial.id for trial in made(tmp_path).trials}
    assert "training-batch_size64-2x1-there-r03" in ids
    assert "communication-2x1-here-r01" in ids


def test_the_system_is_left_out_of_ids_where_the_suite_has_only_one(tmp_path: Path) -> None:
    text = "suite: s\nworkload: train\nsystems: [here]\nrepeats: 1\n"
    assert [trial.id for trial in made(tmp_path, text).trials] == ["train-1x1-r01"]


def test_a_run_of_one_side_gives_its_trials_the_ids_and_the_order_of_the_whole(tmp_path: Path) -> None:
    whole, side = made(tmp_path), made(tmp_path, only=["there"])
    assert side.trials == tuple(trial for trial in whole.trials if trial.system == "there")
    assert (side.systems, side.interleaved, whole.interleaved) == (("there",), False, True)
    assert side.suite_digest == whole.suite_digest
    assert side.digest != whole.digest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(max_size=60), min_size=2, max_size=4, unique=True))
def test_ids_are_unique_short_names_of_files_whatever_is_swept(tmp_path: Path, names: list[str]) -> None:
    writable = [n for n in names if "\0" not in n and not re.search("[\ud800-\udfff]", n)]
    text = f"suite: s\nworkload: train\nrepeats: 1\nparams: {{name: {json.dumps([*writable, 'x', 'X/'])}}}\n"
    try:
        ids = [trial.id for trial in made(tmp_path, text).trials]
    except InputError as error:  # two values that differ in case only, or a value written twice
        assert re.search("would be called|swept twice", str(error))  # noqa: PT017 one of two right ends
        return
    assert len({name.casefold() for name in ids}) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}", name) for name in ids)


def test_a_long_id_is_cut_and_stays_unique(tmp_path: Path) -> None:
    sweep = f"name: [{'n' * 60}, {'n' * 61}], rate: [1.2345678901234567, 2.2], batch_size: [1234567890123, 2]"
    text = f"suite: s\nbenchmarks:\n  {'b' * 40}: {{workload: train, params: {{{sweep}}}}}\n"
    ids = {trial.id for trial in made(tmp_path, text + "systems: [here, there]\n").trials}
    assert len(ids) == 8 * 2 * 5
    assert max(map(len, ids)) <= 120


def test_two_trials_of_one_name_are_refused(tmp_path: Path) -> None:
    text = """\
suite: s
benchmarks:
  a: {workload: train, params: {batch_size: [1, 2]}}
  a-batch_size1: {workload: train}
"""
    with pytest.raises(InputError, match="several trials would be called a-batch_size1-1x1"):
        made(tmp_path, text)


# Order


def test_every_block_holds_every_point_on_every_system_once(tmp_path: Path) -> None:
    whole = made(tmp_path)
    for number in (1, 2, 3):
        points = Counter(
            (t.benchmark, str(t.varied), str(t.shape), t.system) for t in block_of(whole, number)
        )
        assert len(points) == (2 * 2 + 1) * 2
        assert set(points.values()) == {1}


def test_the_order_differs_between_blocks_and_between_seeds(tmp_path: Path) -> None:
    def order(trials: Sequence[Trial]) -> list[str]:
        return [trial.id.rpartition("-r")[0] for trial in trials]

    text = SUITE.replace("repeats: 3", "repeats: 20")
    whole = made(tmp_path, text)
    orders = [order(block_of(whole, number)) for number in range(1, 21)]
    assert len({tuple(o) for o in orders}) == 20
    assert {o[0] for o in orders} != {orders[0][0]}
    assert order(block_of(made(tmp_path, text + "seed: 2\n"), 1)) != orders[0]


def test_each_side_comes_first_about_as_often(tmp_path: Path) -> None:
    text = "suite: s\nworkload: train\nsystems: [here, there]\nrepeats: 400\n"
    first = Counter(trial.system for trial in made(tmp_path, text).trials[::2])
    assert 160 <= first["here"] <= 240  # 4 standard deviations of a fair coin; fixed by the seed


def test_sequential_order_runs_one_system_after_the_other(tmp_path: Path) -> None:
    whole = made(tmp_path, SUITE + "order: sequential\n")
    systems = [trial.system for trial in whole.trials]
    assert systems == sorted(systems)
    assert whole.interleaved is False
    assert sorted(t.id for t in whole.trials) == sorted(t.id for t in made(tmp_path).trials)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**53 - 1),
    fewer=st.integers(1, 4),
    more=st.integers(1, 4),
    order=st.sampled_from(["interleaved", "sequential"]),
)
def test_more_repeats_leave_the_blocks_before_them_as_they_are(
    tmp_path: Path, seed: int, fewer: int, more: int, order: str
) -> None:
    text = SUITE.replace("repeats: 3", f"repeats: %d\nseed: {seed}\norder: {order}")
    short, long = made(tmp_path, text % fewer), made(tmp_path, text % (fewer + more))
    assert short == made(tmp_path, text % fewer)
    assert short.suite_digest == long.suite_digest
    assert short.digest != long.digest
    for number in range(1, fewer + 1):
        assert block_of(short, number) == block_of(long, number)
    suite, systems = read(tmp_path, text % fewer)
    for number in range(1, fewer + more + 1):
        beyond = plan.block(suite, systems, number, workloads=WORKLOADS)
        assert list(beyond) == block_of(long, number)


def test_a_benchmark_with_fewer_repeats_is_missing_from_the_later_blocks(tmp_path: Path) -> None:
    whole = made(tmp_path, SUITE + "    repeats: 1\n")
    assert whole.repeats == 3
    assert Counter(t.benchmark for t in block_of(whole, 1)) == {"training": 8, "communication": 2}
    assert Counter(t.benchmark for t in block_of(whole, 2)) == {"training": 8}
    assert block_of(whole, 2) == [t for t in block_of(made(tmp_path), 2) if t.benchmark == "training"]


# Seeds and digests


def test_a_seed_depends_on_the_suites_seed_the_benchmark_and_the_block_alone(tmp_path: Path) -> None:
    seeds: dict[tuple[str, int], set[int]] = {}
    for trial in made(tmp_path).trials:
        seeds.setdefault((trial.benchmark, trial.block), set()).add(trial.seed)
    assert all(len(found) == 1 for found in seeds.values())
    assert len({seed for found in seeds.values() for seed in found}) == 2 * 3
    assert all(0 <= trial.seed < 2**31 for trial in made(tmp_path).trials)
    assert not {t.seed for t in made(tmp_path).trials} & {
        t.seed for t in made(tmp_path, SUITE + "seed: 7\n").trials
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("repeats: 3", "repeats: 9"),
        ("systems: [here, there]", "systems: [there]"),
        ("shapes: [1x1, 2x1]", "margin: 5%\nshapes: [2x1, 1x1]"),
        (
            "suite: demo",
            "# a comment\nsuite: demo\nexpect: {throughput: '>= 1 images/s'}\ntimeout: 1h\nretries: 2",
        ),
        ("params: {batch_size: [32, 64]}", "params: {precision: fp32, batch_size: [64, 32]}"),
    ],
)
def test_what_does_not_change_what_is_measured_leaves_the_suites_digest(
    tmp_path: Path, before: str, after: str
) -> None:
    one, two = made(tmp_path), made(tmp_path, SUITE.replace(before, after))
    assert one.suite_digest == two.suite_digest
    digests = {(t.id): t.digest for t in one.trials}
    assert all(digests[t.id] == t.digest for t in two.trials if t.id in digests)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[32, 64]", "[32, 65]"),
        ("[32, 64]", "[32]"),
        ("shapes: [1x1, 2x1]", "shapes: [1x1]"),
        ("  training:", "  other:"),
        ("repeats: 3", "seed: 2"),
    ],
)
def test_what_changes_what_is_measured_changes_the_suites_digest(
    tmp_path: Path, before: str, after: str
) -> None:
    assert made(tmp_path).suite_digest != made(tmp_path, SUITE.replace(before, after)).suite_digest


def test_a_changed_program_changes_the_digests(tmp_path: Path) -> None:
    def task(params: object, shape: Shape, seed: int) -> Task:
        return replace(TRAIN.task(params, shape, seed), files=(TaskFile("train.py", b"print(2)\n"),))

    suite, systems = read(tmp_path)
    one = plan.make(suite, systems, workloads=WORKLOADS)
    two = plan.make(suite, systems, workloads={"train": replace(TRAIN, task=task), "sweep": SWEEP})
    assert one.suite_digest != two.suite_digest
    changed = [a.benchmark for a, b in zip(one.trials, two.trials, strict=True) if a.digest != b.digest]
    assert set(changed) == {"training"}


def test_a_changed_system_changes_its_trials_and_the_plan_but_not_the_suite(tmp_path: Path) -> None:
    one, two = made(tmp_path), made(tmp_path, systems=SYSTEMS.replace("A: b", "A: c"))
    assert one.suite_digest == two.suite_digest
    assert one.digest != two.digest
    changed = [a.system for a, b in zip(one.trials, two.trials, strict=True) if a.digest != b.digest]
    assert set(changed) == {"there"}


def test_a_suite_checked_out_elsewhere_is_the_same_suite_though_it_names_files(tmp_path: Path) -> None:
    def digests(folder: Path, program: str) -> tuple[str, str]:
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(program)
        (folder / "suite.yaml").write_text(
            "suite: s\nworkload: command\nsystems: [local]\nrepeats: 1\n"
            "params: {argv: [train.py], files: [train.py], metrics: {loss: {pattern: '(?P<value>1)'}}}\n"
        )
        models = {"command": COMMAND.params}
        suite, systems = load(folder / "suite.yaml", params_models=models, launcher_models=LAUNCHERS)
        (trial,) = plan.make(suite, systems, workloads={"command": COMMAND}).trials
        assert trial.params["files"] == [str(folder / "train.py")]
        return plan.make(suite, systems, workloads={"command": COMMAND}).suite_digest, trial.digest

    assert digests(tmp_path / "a", "print(1)") == digests(tmp_path / "b", "print(1)")
    assert digests(tmp_path / "a", "print(1)") != digests(tmp_path / "a", "print(2)")


def test_a_file_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "suite: s\nworkload: command\n"
        "params: {argv: [a], files: [no.py], metrics: {loss: {pattern: '(?P<value>1)'}}}\nshapes: [1x1]\n"
    )
    suite, systems = load(path, params_models={"command": COMMAND.params}, launcher_models=LAUNCHERS)
    with pytest.raises(InputError, match=r"suite.yaml:4: command in shape 1x1: .*no.py: can't be read"):
        plan.make(suite, systems, workloads={"command": COMMAND})


def test_a_trial_makes_its_task_again(tmp_path: Path) -> None:
    trial = next(t for t in made(tmp_path).trials if t.benchmark == "training")
    again = from_json(Trial, json.dumps(to_plain(trial)))
    task = plan.task_of(again, WORKLOADS)
    assert task.argv == (
        "{python}",
        "train.py",
        f"--batch={trial.params['batch_size']}",
        f"--seed={trial.seed}",
    )
    with pytest.raises(InputError, match='"train" is not a workload; choose from sweep'):
        plan.task_of(again, {"sweep": SWEEP})


# What is asked of the metrics, and what can't be


def test_requirements_are_in_the_metrics_own_unit_and_a_benchmarks_own_wins(tmp_path: Path) -> None:
    text = SUITE.replace(
        "benchmarks:", 'expect: {busbw: ">= 1 GB/s", step_time: "<= 20 ms"}\nprimary: step_time\nbenchmarks:'
    )
    whole = made(tmp_path, text + '    expect: {busbw: ">= 11000 MB/s"}\n')
    (step_time,) = whole.expectations["training"]
    (busbw,) = whole.expectations["communication"]
    assert (step_time.relation, step_time.value, step_time.unit) == ("<=", pytest.approx(0.02), "s")
    assert (busbw.relation, busbw.value, busbw.unit, busbw.written) == (">=", 1.1e10, "B/s", ">= 11000 MB/s")
    assert whole.primary_metric == {"training": "step_time", "communication": "busbw"}


def test_all_that_is_impossible_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = SUITE.replace("    shapes: [2x1]\n", '    expect: {busbv: ">= 1 GB/s"}\n')
    with pytest.raises(InputError) as caught:
        made(tmp_path, text)
    assert [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems] == [
        "suite.yaml:4: communication in shape 1x1: one rank moves nothing",
        'suite.yaml:11: expect: "busbv" is not a metric of this benchmark; did you mean busbw?',
    ]


def test_a_shape_on_more_nodes_than_a_system_has_is_refused(tmp_path: Path) -> None:
    text = "suite: s\nworkload: train\nsystems: [here]\nshapes: [2x1x1, 2x1x2]\n"
    with pytest.raises(InputError) as caught:
        made(tmp_path, text)
    assert [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems] == [
        "suite.yaml:4: shape 2x1x2 is on 2 nodes; system here has at most 1"
    ]


def test_a_system_that_is_not_the_suites_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r'suite.yaml:2: "ther" is not a system of this suite; did you mean there'
    ):
        made(tmp_path, only=["ther"])


def test_a_suite_of_too_many_trials_is_refused(tmp_path: Path) -> None:
    text = SUITE.replace("repeats: 3", "repeats: 10000") + "  third: {workload: train}\n"
    with pytest.raises(InputError, match="the suite makes 140000 trials; the maximum is 100000"):
        made(tmp_path, text)
