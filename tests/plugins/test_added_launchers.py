"""A launcher that another package adds: its systems are checked, run and examined; and one that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay import launch
from assay.cli import assay
from plugin_packages import STATED, install, used

NAMED = "plug-in assay-shed 1.0 (assay.launchers: shed = shed_platform:PLATFORM)"
SHED = f"""{STATED}
from assay.launch.local.launcher import LocalLauncher
from assay.launch.local import LocalSystem
from assay.plugins import Check, Examination, Platform


class ShedSystem(LocalSystem):
    width: int = 2


class Shed(LocalLauncher):
    name = "shed"


def examine(system, request):
    return Examination({{"width": system.width}}, (Check("shed", "ok", f"{{system.width}} m wide"),))


PLATFORM = Platform(ShedSystem, Shed, examine)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with used(tmp_path / "packages"):
        yield tmp_path / "packages"


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, [*words])


def write(place: Path, text: str = SHED, **options: Any) -> None:
    install(
        place,
        "assay-shed",
        {"assay.launchers": {"shed": "shed_platform:PLATFORM"}},
        {"shed_platform.py": text},
    )
    metric = {"rate": {"pattern": "rate (?P<value>[0-9]+)", "unit": "1/s"}}
    suite = {
        "suite": "tried",
        "workload": "command",
        "params": {"argv": ["{python}", "-S", "-c", "print('rate 5')"], "metrics": metric},
        "systems": ["garden", "local"],
        "repeats": 1,
    }
    Path("suite.yaml").write_text(json.dumps(suite))
    Path("systems.yaml").write_text(json.dumps({"garden": {"launcher": "shed", **options}}))


def test_a_suite_runs_on_it_and_its_options_are_checked(packages: Path) -> None:
    write(packages)
    done = run("run", "suite.yaml")
    assert done.exit_code == 0, (done.output, done.exception)
    points = json.loads(run("show", "tried", "--json").stdout)["points"]
    assert {point["system"] for point in points if point["metric"] == "rate"} == {"garden", "local"}
    Path("systems.yaml").write_text('{"garden": {"launcher": "shed", "widht": 3}}')
    assert "garden.widht: unknown key; did you mean width?" in str(run("plan", "suite.yaml").exception)
    Path("systems.yaml").write_text('{"garden": {"launcher": "shod"}}')
    assert "did you mean shed?" in str(run("plan", "suite.yaml").exception)
    assert "shed" in run("init", "--schema", "systems").stdout


def test_its_doctor_examines_it(packages: Path) -> None:
    write(packages, width=4)
    done = run("doctor", "garden")
    assert done.exit_code == 0
    assert "✓ shed 4 m wide" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "can't be imported: ZeroDivisionError"),
        (SHED.replace("Platform(ShedSystem", "Platform(dict"), "TypeError: its options are <class 'dict'>"),
        (SHED.replace("INTERFACE = 1", "INTERFACE = 0"), "is written for interface 0"),
    ],
)
def test_one_that_cannot_be_used_is_named_and_leaves_the_others(packages: Path, text: str, why: str) -> None:
    write(packages, text)
    assert str(run("plan", "suite.yaml").exception).startswith(f"{NAMED}: {why}")
    Path("systems.yaml").write_text("{}")
    suite = json.loads(Path("suite.yaml").read_text()) | {"systems": ["local"]}
    Path("suite.yaml").write_text(json.dumps(suite))
    assert run("run", "suite.yaml").exit_code == 0
    assert f"assay: {NAMED}: {why}" in run("init", "--schema", "systems").stderr


def failing(method: str, kind: str = "ValueError") -> str:
    line = f"    def {method}(self, *args):\n        raise {kind}('the door is locked')\n"
    return SHED.replace('    name = "shed"\n', f'    name = "shed"\n{line}')


@pytest.mark.parametrize("method", ["submit", "follow", "status", "fetch", "forget"])
def test_an_exception_of_its_launcher_names_it_and_is_of_its_job(packages: Path, method: str) -> None:
    write(packages, failing(method))
    done = run("run", "suite.yaml")
    assert not isinstance(done.exception, ValueError)
    said = done.output + str(done.exception)
    assert method == "fetch" or f"{NAMED}: ValueError: the door is locked (" in said
    if method in ("submit", "forget", "fetch"):  # it ends its own trial at most
        assert done.exit_code == (5 if method == "submit" else 0)
        points = json.loads(run("show", "tried", "--json").stdout)["points"]
        assert "local" in {point["system"] for point in points}


def test_an_exception_while_it_yields_is_of_its_job_too(packages: Path) -> None:
    write(packages, failing("follow").replace("raise ValueError", "yield None; raise ValueError"))
    said = run("run", "suite.yaml")
    assert f"{NAMED}: ValueError: the door is locked (" in said.output + str(said.exception)


def test_an_exception_of_its_doctor_names_it(packages: Path) -> None:
    write(packages, SHED.replace('f"{system.width} m wide"', "1 / 0"))
    said = str(run("doctor", "garden").exception)
    assert said.startswith(f"{NAMED}: ZeroDivisionError: division by zero (")


def test_its_launcher_is_the_plugins_own_class(packages: Path, tmp_path: Path) -> None:
    write(packages)
    launcher = launch.make("shed", launch.SYSTEM_MODELS["shed"](), spool=tmp_path)
    assert type(launcher).__name__ == "Shed"
