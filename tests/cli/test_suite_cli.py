"""`assay plan`, `assay init`, and the suites that come with Assay."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML
from test_suite import GOOD, GOOD_SYSTEMS

from assay import cli, plan
from assay.errors import InputError
from assay.launch import SYSTEM_MODELS
from assay.launch.local.launcher import LocalLauncher
from assay.questions import init as init_question
from assay.questions.init import Machine
from assay.records import Plan
from assay.suite import load
from assay.suite.schema import suite_schema, systems_schema
from assay.workloads import WORKLOADS
from conftest import ROOT
from fake_workloads import LAUNCHERS, PARAMS

PARAMS_MODELS = {name: workload.params for name, workload in WORKLOADS.items()}
QUICKSTART = ROOT / "examples" / "quickstart"
SUITE = """\
suite: golden
systems: [here, there]
repeats: 2
shapes: [2x1]
benchmarks:
  links: {workload: allreduce, params: {min_time_s: [0.1, 0.2]}, expect: {busbw: ">= 100 MB/s"}}
  band: {workload: membw}
"""
SYSTEMS = """\
here: {launcher: local, python: /opt/python/bin/python3}
there: {launcher: local, python: /opt/python/bin/python3, env: {GLOO_SOCKET_IFNAME: "lo"}, pin_cpus: true}
"""


def assay(*arguments: object) -> Result:
    return CliRunner().invoke(cli.assay, [str(a) for a in arguments])


def printed(*arguments: object) -> str:
    result = assay(*arguments)
    assert result.exit_code == 0, result.output or result.exception
    return result.stdout


def planned(suite: Path) -> Plan:
    what, where = load(
        suite, params_models=PARAMS_MODELS, launcher_models=SYSTEM_MODELS, metrics=plan.metrics_of()
    )
    return plan.make(what, where)


def plain_yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(StringIO(text))


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite as it is planned on a machine that has the systems' interpreter."""
    monkeypatch.setattr(LocalLauncher, "look", lambda *_: None)
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    path.with_name("systems.yaml").write_text(SYSTEMS)
    return path


# assay plan


def stable(text: str) -> str:
    """Without the digests of programs, which every change of a program changes."""
    return re.sub(r"\b[0-9a-f]{16}(?:[0-9a-f]{48})?\b", "DIGEST", text)


def test_the_printed_plan_is_the_one_on_file(suite: Path) -> None:
    assert stable(printed("plan", suite)) == (ROOT / "tests/golden/plan_table.txt").read_text()


def test_what_a_trial_would_send_is_the_same_each_time_and_the_one_on_file(suite: Path) -> None:
    trial = "links-min_time_s0.1-2x1-there-r02"
    shown = printed("plan", suite, "--show", trial)
    assert shown == printed("plan", suite, "--show", trial)
    assert stable(shown) == (ROOT / "tests/golden/plan_show.txt").read_text()


def test_a_dry_run_writes_nothing(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite.parent)
    before = sorted(suite.parent.rglob("*"))
    printed("plan", "suite.yaml")
    printed("plan", "suite.yaml", "--show", "band-2x1-here-r01")
    assert sorted(suite.parent.rglob("*")) == before


def test_the_plan_as_json_is_the_plan(suite: Path) -> None:
    document = json.loads(printed("plan", suite, "--json", "--system", "there"))
    assert document["schema"] == "assay.plan/1"
    assert {trial["system"] for trial in document["trials"]} == {"there"}
    assert document["suite_digest"] == planned(suite).suite_digest
    shown = json.loads(printed("plan", suite, "--json", "--show", "band-2x1-here-r01"))
    assert shown["sends"]["command"].startswith("/opt/python/bin/python3 -m assay_payloads.micro.membw")


def test_a_long_id_is_printed_whole_on_a_narrow_terminal(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = printed("plan", suite)
    assert all(trial.id in text for trial in planned(suite).trials)


def test_a_trial_that_is_not_there_is_an_error_with_the_nearest_one(suite: Path) -> None:
    error = assay("plan", suite, "--show", "band-2x1-here-r3").exception
    assert isinstance(error, InputError)
    assert str(error) == "--show: there is no trial band-2x1-here-r3; did you mean band-2x1-here-r02?"


def test_problems_of_the_suite_and_of_its_requirements_are_told_together(suite: Path) -> None:
    suite.write_text(SUITE.replace("repeats: 2", "repeats: two").replace("busbw", "busbv"))
    error = assay("plan", suite).exception
    assert isinstance(error, InputError)
    assert [problem.where.rpartition(":")[2] for problem in error.problems] == ["3", "6"]


# assay init


@pytest.mark.parametrize("gpus", [0, 1, 3, 8])
@pytest.mark.parametrize("cores", [1, 2, 64])
def test_a_starter_suite_loads_and_plans_on_any_machine(tmp_path: Path, cores: int, gpus: int) -> None:
    (tmp_path / "suite.yaml").write_text(init_question.suite_text("starter", Machine(cores, gpus)))
    (tmp_path / "systems.yaml").write_text(init_question.systems_text(Machine(cores, gpus)))
    shapes = {trial.shape for trial in planned(tmp_path / "suite.yaml").trials}
    most = max(shape.ranks for shape in shapes)
    assert most <= max(gpus, min(cores, 2))
    systems = plain_yaml((tmp_path / "systems.yaml").read_text())
    assert [*systems] == ["here", "here-again"]  # a first run ends in a comparison
    for system in systems.values():  # each process has as many threads in every shape
        assert int(system["env"]["OMP_NUM_THREADS"]) == max(1, cores // most)
    for name, validator in validators().items():
        validator.validate(plain_yaml((tmp_path / f"{name}.yaml").read_text()))


def test_what_the_starter_suite_shows_in_comments_can_be_used(tmp_path: Path) -> None:
    def uncommented(text: str, first: str) -> str:
        head, found, tail = text.partition(f"# {first}")
        assert found
        return head + re.sub(r"^( *)# ", r"\1", first + tail, flags=re.MULTILINE)

    text = init_question.suite_text("starter", Machine(2, 0))
    (tmp_path / "suite.yaml").write_text(uncommented(text, "mine:").replace("here-again", "pinned"))
    systems = (
        init_question.systems_text(Machine(2, 0))
        .replace("# python:", "python:")
        .replace("# pin_cpus", "pin_cpus")
        .replace("# python:", "python:")
        .replace("# pin_cpus", "pin_cpus")
    )
    (tmp_path / "systems.yaml").write_text(uncommented(systems, "pinned:"))
    whole = planned(tmp_path / "suite.yaml")
    assert whole.primary_metric["mine"] == "throughput"
    assert whole.systems == ("here", "pinned")


def test_init_writes_a_suite_for_this_machine_and_says_what_comes_next(tmp_path: Path) -> None:
    text = printed("init", tmp_path / "my suite")
    suite = tmp_path / "my suite" / "suite.yaml"
    assert f"assay run '{suite}'" in text
    assert planned(suite).suite == "my-suite"


@pytest.mark.parametrize("installed", [True, False])
def test_init_says_how_to_install_torch_where_the_suite_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object() if installed else None)
    end = printed("init", tmp_path / "my-suite").splitlines()[-2:]
    told = f"torch is not installed in {sys.executable}, and this suite needs it. Install it first:"
    assert (end == [told, "  pip install 'cluster-assay[torch]'"]) is not installed


def test_init_leaves_files_that_are_there_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("mine")
    error = assay("init", tmp_path).exception
    assert isinstance(error, InputError)
    assert (tmp_path / "suite.yaml").read_text() == "mine"
    assert not (tmp_path / "systems.yaml").exists()
    document = json.loads(printed("init", tmp_path, "--force", "--json"))
    assert document["files"] == [str(tmp_path / "suite.yaml"), str(tmp_path / "systems.yaml")]
    assert planned(tmp_path / "suite.yaml").systems == ("here", "here-again")


# assay init --schema


def schemas() -> dict[str, dict[str, Any]]:
    return {
        "suite": json.loads(printed("init", "--schema", "suite")),
        "systems": json.loads(printed("init", "--schema", "systems")),
    }


@cache
def validators() -> dict[str, jsonschema.Draft202012Validator]:
    """Each schema's, which is not held to be a schema again: the next test does."""
    return {name: jsonschema.Draft202012Validator(schema) for name, schema in schemas().items()}


@pytest.mark.long
def test_the_schemas_are_schemas() -> None:
    for schema in schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_suites_that_come_with_assay_follow_the_schemas() -> None:
    for name, validator in validators().items():
        validator.validate(plain_yaml((QUICKSTART / f"{name}.yaml").read_text()))


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    schema = suite_schema(PARAMS, dict.fromkeys(PARAMS, "About."))
    jsonschema.validate(plain_yaml(GOOD), schema)
    swept = "suite: s\nworkload: sweep\nparams: {sizes: [[1, 2], [3]], bidirectional: [true, false]}\n"
    jsonschema.validate(plain_yaml(swept), schema)
    jsonschema.validate(plain_yaml(GOOD_SYSTEMS), systems_schema(LAUNCHERS, {}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("batch_size:", "batchsize:"),
        ("precision: bf16", "precision: fp8"),
        ("workload: sweep", "workload: swep"),
        ("[32, 64]", "[32, many]"),
        ("sizes: [1, 2]", "sizes: [[1, 2], 3]"),
        ("repeats: 3", "repeats: 0"),
        ("repeats: 3", "repaets: 3"),
        ("shapes: [1x1, 2x1]", "shapes: [2*1]"),
        ("suite: demo", "suite: demo\nworkload: train"),
        ('">= 10 images/s"', "10"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(before: str, after: str) -> None:
    assert GOOD.count(before) >= 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            plain_yaml(GOOD.replace(before, after, 1)), suite_schema(PARAMS, dict.fromkeys(PARAMS, "About."))
        )


def test_the_schema_of_systems_knows_each_launchers_options() -> None:
    schema = systems_schema(LAUNCHERS, {})
    for wrong in (
        "here: {launcher: locl}",
        "here: {}",
        "here: {launcher: local, pyton: a}",
        "a/b: {launcher: local}",
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(plain_yaml(wrong), schema)


# examples/quickstart


def test_the_quickstart_asks_what_a_second_worker_brings_of_two_equal_systems() -> None:
    whole = planned(QUICKSTART / "suite.yaml")
    assert len({trial.digest for trial in whole.trials}) * whole.repeats == len(whole.trials)
    assert whole.interleaved
    assert whole.repeats >= 3
    for benchmark in ("training", "compute"):
        assert {str(t.shape) for t in whole.trials if t.benchmark == benchmark} == {"1x1", "2x1"}
