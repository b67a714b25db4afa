"""How long a suite takes: as its trials took before, else what their parameters set, else unknown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay import cli, plan, store
from assay.launch import SYSTEM_MODELS
from assay.records import Plan, Result, RunState
from assay.run import duration
from assay.suite import load
from assay.workloads import WORKLOADS
from stated_runs import result

SUITE = {
    "suite": "demo",
    "benchmarks": {
        "compute": {"workload": "matmul", "params": {"sizes": [64, 128], "min_time_s": 30}},
        "learn": {"workload": "digits"},
    },
    "systems": ["here", "there"],
    "repeats": 2,
}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_RUNS", raising=False)
    Path("suite.yaml").write_text(json.dumps(SUITE))
    systems = {"here": {"launcher": "local"}, "there": {"launcher": "local", "env": {"A": "1"}}}
    Path("systems.yaml").write_text(json.dumps(systems))
    return Path("suite.yaml")


def planned(suite: Path) -> Plan:
    params = {name: workload.params for name, workload in WORKLOADS.items()}
    return plan.make(*load(suite, params_models=params, launcher_models=SYSTEM_MODELS))


def ran(suite: Path, seconds: Sequence[float], *, system: str = "here", **changed: Any) -> list[Result]:
    """Finished runs of one trial of the suite, each with its duration from submission to end."""
    trial = next(t for t in planned(suite).trials if (t.benchmark, t.system) == ("learn", system))
    made = []
    for at, took in enumerate(seconds):
        run = result(suite="demo", session=f"2026-03-0{at + 1}T100000Z").run
        ended = {"ended_at": run.created_at + took, "started_at": run.created_at + took / 2}
        run = replace(run, trial=trial, id=f"{run.id}-{at}-{system}", **{**ended, **changed})
        made.append(replace(result(), run=run))
    return made


def estimated(suite: Path) -> dict[str, duration.DurationEstimate]:
    made = planned(suite)
    return duration.estimates(made, made.trials, Path("runs"))


def test_without_earlier_runs_there_is_what_parameters_set_and_the_rest_is_unknown(suite: Path) -> None:
    here = estimated(suite)["here"]
    assert (here.trials, here.seen, here.timed, here.unknown) == (4, 0, 2, ("learn",))
    assert here.timed_s == 2 * 4 * 30  # two sizes in two number formats
    assert here.words == (
        "4 min of measuring, plus start-up (2 trials, from their parameters); "
        "unknown (2 trials of learn, without an earlier run)"
    )


def test_a_trial_takes_the_mean_of_its_earlier_runs_and_another_system_learns_nothing_from_it(
    suite: Path,
) -> None:
    store.update(Path("runs"), ran(suite, [100.0, 140.0]))
    of = estimated(suite)
    assert (of["here"].seen, of["here"].seen_s, of["here"].runs) == (2, 240.0, 2)
    assert of["here"].words.startswith("about 4 min (2 trials, from 2 earlier runs); 4 min of measuring")
    assert of["there"].seen == 0
    both = duration.total(of.values())
    assert (both.trials, both.seen, both.seen_s, both.unknown) == (8, 2, 240.0, ("learn",))


@pytest.mark.parametrize(
    "changed",
    [
        {"state": RunState.FAILED, "cause": "it fell over"},
        {"adopted": True},  # it waited for somebody to come back
        {"source": "log.txt"},
        {"ended_at": None},
    ],
)
def test_runs_that_say_nothing_of_a_duration_are_left_out(suite: Path, changed: dict[str, Any]) -> None:
    store.update(Path("runs"), ran(suite, [100.0], **changed))
    assert estimated(suite)["here"].seen == 0


def test_a_changed_parameter_makes_the_duration_unknown_again(suite: Path) -> None:
    store.update(Path("runs"), ran(suite, [100.0]))
    changed: dict[str, Any] = json.loads(suite.read_text())
    changed["benchmarks"]["learn"]["params"] = {"global_batch_size": 16}
    suite.write_text(json.dumps(changed))
    assert estimated(suite)["here"].unknown == ("learn",)


def test_plan_shows_it_for_each_system_and_all_and_in_json(suite: Path) -> None:
    store.update(Path("runs"), ran(suite, [7200.0]))
    said = CliRunner().invoke(cli.assay, ["plan", str(suite)])
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    [at] = [at for at, line in enumerate(lines) if line.startswith("Duration: about 4.0 h (2 trials, ")]
    assert lines[at + 1].startswith("  here: about 4.0 h (2 trials, from 1 earlier run); 4 min of measuring")
    assert lines[at + 2].startswith("  there: 4 min of measuring")
    document = json.loads(CliRunner().invoke(cli.assay, ["plan", str(suite), "--json"]).stdout)["duration"]
    assert document["systems"]["here"]["seen_s"] == document["total"]["seen_s"] == 14400
    assert document["systems"]["there"]["unknown"] == ["learn"]


def test_until_decided_the_duration_is_that_of_all_blocks(suite: Path) -> None:
    said = CliRunner().invoke(cli.assay, ["plan", str(suite), "--until", "decided"])
    assert "Duration: for all blocks, if nothing is decided earlier: 80 min of measuring" in said.stdout


def test_run_shows_it_before_the_first_trial_and_the_next_plan_rests_on_what_ran(suite: Path) -> None:
    small = {"sizes": [16], "dtypes": ["fp32"], "min_time_s": 0.01}
    program = {"argv": ["{python}", "-c", "print('speed: 3')"]}
    program["metrics"] = {"speed": {"pattern": "speed: (?P<value>[0-9]+)", "unit": "1/s", "better": "higher"}}
    benchmarks = {"own": {"workload": "command", "params": program}}
    assert WORKLOADS["matmul"].timed_s(WORKLOADS["matmul"].params(**small)) == 0.01
    suite.write_text(json.dumps({**SUITE, "benchmarks": benchmarks, "systems": ["here"]}))
    first = CliRunner().invoke(cli.assay, ["run", str(suite)])
    assert first.exit_code == 0, first.output
    duration_line, trial = first.stderr.splitlines()[1:3]
    assert duration_line == "Duration: unknown (2 trials of own, without an earlier run)."
    assert trial.startswith("[1/2]")
    second = CliRunner().invoke(cli.assay, ["run", str(suite)])
    assert "(2 trials, from 2 earlier runs)." in second.stderr.splitlines()[1]
