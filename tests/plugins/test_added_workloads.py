"""A workload that another package adds: checked, planned, run and read; and one that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay import payload_files
from assay.cli import assay
from assay.errors import InputError
from plugin_packages import OVEN_WORKLOAD, install_oven, used

NAMED = "plug-in assay-oven 1.2 (assay.workloads: bake = oven_workload:BAKE)"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def packages(tmp_path: Path, here: Path) -> Iterator[Path]:
    with used(tmp_path / "packages"):
        yield tmp_path / "packages"


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, [*words])


def write(workload: str = "bake", **params: Any) -> None:
    suite = {"suite": "baked", "workload": workload, "params": params, "systems": ["local"], "repeats": 2}
    Path("suite.yaml").write_text(json.dumps(suite))


def shown() -> dict[str, Any]:
    return dict(json.loads(run("show", "baked", "--json").stdout))


def test_a_suite_plans_and_runs_it_with_its_own_program(packages: Path) -> None:
    install_oven(packages)
    write(degrees=[20, 100])
    planned = run("plan", "suite.yaml")
    assert planned.exit_code == 0
    assert "bake" in planned.output
    done = run("run", "suite.yaml")
    assert done.exit_code == 0, done.output
    points = shown()["points"]
    assert [(point["metric"], point["values"]) for point in points if point["metric"] == "heat"] == [
        ("heat", [293.15, 293.15]),
        ("heat", [373.15, 373.15]),
    ]


def test_its_parameters_are_checked_with_the_line_and_it_is_in_the_schema(packages: Path) -> None:
    install_oven(packages)
    write(degree=20)
    assert "params.degree: unknown key; did you mean degrees?" in str(run("plan", "suite.yaml").exception)
    document = json.loads(run("init", "--schema", "suite").stdout)
    assert {"const": "bake", "description": "bake something"} in document["properties"]["workload"]["oneOf"]
    write("bakes")
    assert "did you mean bake?" in str(run("plan", "suite.yaml").exception)


def test_its_programs_travel_with_what_they_import_of_their_package_and_of_assays(packages: Path) -> None:
    install_oven(packages)
    assert [*payload_files.files("oven_programs.bake")] == [
        "assay_payloads/__init__.py",
        "assay_payloads/measuring/__init__.py",
        "assay_payloads/measuring/rank.py",
        "oven_programs/__init__.py",
        "oven_programs/bake.py",
        "oven_programs/degrees.py",
    ]
    with pytest.raises(InputError, match=r"oven_programs/roast.py: can't be read from its package: "):
        payload_files.files("oven_programs.roast")
    with pytest.raises(InputError, match="of_nobody: there is no such package"):
        payload_files.files("of_nobody.program")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise OSError('no oven')", "can't be imported: OSError: no oven"),
        (
            OVEN_WORKLOAD.replace("BakeParams, (HEAT,)", "dict, (HEAT,)"),
            "TypeError: its params are <class 'dict'>",
        ),
        (OVEN_WORKLOAD.replace('("bake"', '("roast"'), "calls itself 'roast'; both names must be the same"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_where_a_suite_uses_it(
    packages: Path, text: str, why: str
) -> None:
    install_oven(packages, oven_workload=text)
    write()
    done = run("run", "suite.yaml")
    assert f"{NAMED}: {why}" in str(done.exception)
    write("command", argv=["true"], metrics={"heat": {"reader": "mllog"}})
    assert run("plan", "suite.yaml").exit_code == 0
    done = run("init", "--schema", "suite")
    assert done.exit_code == 0
    assert f"assay: {NAMED}: {why}" in done.stderr


def changed(before: str, after: str) -> str:
    assert before in OVEN_WORKLOAD
    return OVEN_WORKLOAD.replace(before, after)


def with_reader(changes: str) -> str:
    made = 'payload_reader("bake", BakeParams, (HEAT,))'
    return f"from dataclasses import replace\n{changed(made, f'replace({made}, {changes})')}"


def test_a_task_that_cannot_be_made_is_the_plugins_error(packages: Path) -> None:
    install_oven(packages, oven_workload=changed("program_task(", "1 // 0 or ("))
    write()
    assert f"{NAMED}: ZeroDivisionError: " in str(run("plan", "suite.yaml").exception)


def test_metrics_that_cannot_be_listed_are_the_plugins_error(packages: Path) -> None:
    install_oven(packages, oven_workload=with_reader("metrics=lambda params: 1 // 0"))
    write()
    assert f"{NAMED}: ZeroDivisionError: " in str(run("plan", "suite.yaml").exception)


def test_a_shape_that_it_refuses_is_the_suites_error(packages: Path) -> None:
    refusing = changed("program_task(", "int('too few ranks') or (")
    install_oven(packages, oven_workload=refusing)
    write()
    assert "suite.yaml:1: bake in shape 1x1: invalid literal" in str(run("plan", "suite.yaml").exception)


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        ("read=lambda logs, params: 1 // 0", "ZeroDivisionError: "),
        ("read=lambda logs, params: None", "TypeError: it returns None; expected a Reading"),
    ],
)
def test_a_run_that_it_fails_to_read_is_no_result_and_says_why(packages: Path, reader: str, why: str) -> None:
    install_oven(packages, oven_workload=with_reader(reader))
    write()
    assert run("run", "suite.yaml").exit_code == 1
    assert [f"{NAMED}: {why}" in run["cause"] for run in shown()["runs"]] == [True, True]


def test_without_the_package_its_runs_are_kept_and_said_to_be_unreadable(here: Path, tmp_path: Path) -> None:
    install_oven(tmp_path / "packages")
    install_oven(tmp_path / "broken", oven_workload="1 / 0")
    no_metrics = with_reader("metrics=lambda params: 1 // 0")
    install_oven(tmp_path / "changed", oven_workload=no_metrics, version="1.3")
    with used(tmp_path / "packages"):
        write(degrees=20)
        assert run("run", "suite.yaml").exit_code == 0
    with used(tmp_path / "none"):
        assert ["has no workload 'bake'" in run["cause"] for run in shown()["runs"]] == [True, True]
    with used(tmp_path / "broken"):
        causes = [run["cause"] for run in shown()["runs"]]
        assert [f"{NAMED}: can't be imported: ZeroDivisionError" in cause for cause in causes] == [True, True]
        assert run("show").exit_code == 0
    with used(tmp_path / "changed"):
        assert ["ZeroDivisionError" in run["cause"] for run in shown()["runs"]] == [True, True]
    with used(tmp_path / "packages"):
        [point] = [point for point in shown()["points"] if point["metric"] == "heat"]
        assert point["values"] == [293.15, 293.15]
