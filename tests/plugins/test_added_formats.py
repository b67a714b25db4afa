"""A log format that another package adds: imported, shown, compared, used by a suite; and one that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.cli import assay
from plugin_packages import OVEN_FORMAT, STATED, install, install_oven, used

NAMED = "plug-in assay-oven 1.2 (assay.formats: oven = oven_format:OVEN)"
PATTERN = 're.compile(rb"oven says")'


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


def document(*words: str) -> dict[str, Any]:
    done = run(*words, "--json")
    assert done.exit_code in (0, 1, 3), (done.output, done.exception)
    return dict(json.loads(done.stdout))


def logs(here: Path, side: str, heats: list[float]) -> list[str]:
    names = [f"{side}-{number}.log" for number in range(len(heats))]
    for name, heat in zip(names, heats, strict=True):
        (here / name).write_text(f"oven says\nheat: {heat} K\n")
    return names


def first_doing(text: str) -> str:
    """The format, whose reader first does something else."""
    return OVEN_FORMAT.replace("    log = LogFigures()", f"    {text}\n    log = LogFigures()")


def take(*words: str) -> dict[str, Any]:
    [session] = document("import", *words)["sessions"]
    return dict(session)


def test_its_logs_are_recognized_shown_and_compared(here: Path, packages: Path) -> None:
    install_oven(packages)
    cold = take(*logs(here, "cold", [500.0, 501.0, 502.0, 503.5, 504.0]), "--name", "cold")
    assert (cold["runs"], cold["failed"]) == (5, [])
    assert "cold-0.log: read as a log of oven; unknown lines: 0" in cold["notes"]
    take(*logs(here, "hot", [600.0, 601.0, 602.0, 603.5, 604.0]), "--name", "hot", "--format", "oven")
    [point] = document("show", "cold")["points"]
    assert (point["metric"], point["unit"], point["values"][0]) == ("heat", "K", 500.0)
    done = run("compare", "cold", "hot")
    assert "faster" in done.output or "better" in done.output or "higher" in done.output, done.output
    assert "oven" in run("import", "--help").output


def test_a_suite_that_runs_the_program_reads_its_logs(here: Path, packages: Path) -> None:
    install_oven(packages)
    code = "print('oven says'); print('heat: 451.5 K')"
    suite = {
        "suite": "bake",
        "workload": "command",
        "params": {
            "argv": ["{python}", "-c", code],
            "metrics": {"heat": {"reader": "oven", "unit": "K", "better": "higher"}},
        },
        "systems": ["local"],
        "repeats": 1,
    }
    Path("suite.yaml").write_text(json.dumps(suite))
    assert run("run", "suite.yaml").exit_code == 0
    [point] = document("show", "bake")["points"]
    assert point["values"] == [451.5]
    suite["params"]["metrics"]["heat"]["reader"] = "ovn"  # type: ignore[index]
    Path("suite.yaml").write_text(json.dumps(suite))
    assert "oven; did you mean oven?" in str(run("plan", "suite.yaml").exception)


def test_a_log_that_nobody_knows_may_be_closest_to_it(here: Path, packages: Path) -> None:
    install_oven(packages)
    Path("one.log").write_text("oven says\n".replace("says", "sais") + "heat\n oven  says\n")
    assert "known formats: mlperf" in str(run("import", "one.log", "--name", "x").exception)
    assert ", oven; " in str(run("import", "one.log", "--name", "x").exception)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "can't be imported: ZeroDivisionError"),
        (OVEN_FORMAT.replace("= 1\n", "= 0\n"), "is written for interface 0; this Assay has interface 1"),
        (OVEN_FORMAT.replace(PATTERN, '"oven"'), "AttributeError: 'str' object has no attribute 'pattern'"),
        (OVEN_FORMAT.replace('rb"', 'r"'), "TypeError: its mark is re.compile('oven says')"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_and_the_logs_of_others_are_imported(
    here: Path, packages: Path, text: str, why: str
) -> None:
    install_oven(packages, oven_format=text)
    Path("one.log").write_text("Total img/sec on 4 GPU(s): 432.8 +-4.9\nModel: resnet50\nNumber of GPUs: 4\n")
    done = run("import", "one.log", "--name", "x", "--format", "horovod")
    assert done.exit_code == 0
    assert done.stderr.count(f"assay: {NAMED}: {why}") == 1
    done = run("import", *logs(here, "cold", [500.0]), "--name", "y")
    assert "is not a log in a known format" in str(done.exception)
    done = run("import", *logs(here, "cold", [500.0]), "--name", "y", "--format", "oven")
    assert str(done.exception).startswith(f"{NAMED}: {why}")
    assert done.exit_code != 0


def test_of_a_thousand_logs_the_one_that_it_fails_on_is_an_error_that_names_it(
    here: Path, packages: Path
) -> None:
    install_oven(packages, oven_format=first_doing("7 // (path.name != 'cold-500.log')"))
    names = logs(here, "cold", [500.0 + number for number in range(1000)])
    session = take(*names, "--name", "cold")
    assert session["runs"] == 1000
    [failure] = session["failed"]
    assert failure["source"] == "cold-500.log"
    cause = failure["cause"]
    assert f"{NAMED}: ZeroDivisionError: integer division or modulo by zero (" in cause
    assert "oven_format.py:" in cause


WRONG = {
    "nothing": ("return None", "TypeError: it returns None; expected LogFigures"),
    "no figures": ("return LogFigures(['x'])", "ValidationError: Expected `object`, got `str` - at"),
    "no number": (
        "return LogFigures([LogFigure('heat', float('nan'), {}, {}, 1)])",
        "ValidationError: Expected `float`, got `null` - at `$.figures[0].value`",
    ),
    "leaves": ("raise SystemExit", "SystemExit"),
    "deep": ("return _read(path)", "RecursionError: maximum recursion depth exceeded"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_reading_is_a_problem_of_its_log(here: Path, packages: Path, wrong: str) -> None:
    text, why = WRONG[wrong]
    install_oven(packages, oven_format=first_doing(text))
    [failure] = take(*logs(here, "cold", [500.0]), "--name", "cold")["failed"]
    assert f"{NAMED}: {why}" in failure["cause"]


def test_figures_of_a_unit_that_nobody_knows_are_a_problem(here: Path, packages: Path) -> None:
    install_oven(packages, oven_format=OVEN_FORMAT.replace('number, "K"', 'number, "warm/"'))
    take(*logs(here, "cold", [500.0]), "--name", "cold")
    assert run("show", "cold").exit_code == 0


def test_without_the_package_its_runs_are_no_results_and_others_are_shown(here: Path, tmp_path: Path) -> None:
    install_oven(tmp_path / "packages")
    with used(tmp_path / "packages"):
        take(*logs(here, "cold", [500.0, 501.0]), "--name", "cold")
        assert len(document("show", "cold")["points"]) == 1
    with used(tmp_path / "none"):
        done = run("show", "cold")
        assert "no reader for logs of 'oven'" in done.output + str(done.exception)
        assert run("show").exit_code == 0
    with used(tmp_path / "packages"):
        [point] = document("show", "cold")["points"]
        assert point["values"] == [500.0, 501.0]


def test_a_later_version_of_the_package_reads_its_runs_again(here: Path, tmp_path: Path) -> None:
    install_oven(tmp_path / "packages")
    with used(tmp_path / "packages"):
        take(*logs(here, "cold", [500.0, 501.0]), "--name", "cold")
    twice = OVEN_FORMAT.replace("float(match[1])", "2 * float(match[1])")
    install_oven(tmp_path / "later", version="1.3", oven_format=twice)
    with used(tmp_path / "later"):
        [point] = document("show", "cold")["points"]
        assert point["values"] == [1000.0, 1002.0]


def test_two_packages_that_add_one_format_are_both_named(here: Path, packages: Path) -> None:
    install_oven(packages)
    install(packages, "other", {"assay.formats": {"oven": "other:OVEN"}}, {"other.py": STATED})
    done = run("import", *logs(here, "cold", [500.0]), "--name", "y")
    both = r"plug-in assay-oven 1\.2 .* and plug-in other 1\.0 .*: they have the same name"
    assert re.search(both, done.stderr)
    assert "is not a log in a known format" in str(done.exception)


def test_a_name_of_assays_own_stays_assays(here: Path, packages: Path) -> None:
    install(packages, "other", {"assay.formats": {"fio": "other:FIO"}}, {"other.py": STATED})
    done = run("import", *logs(here, "cold", [500.0]), "--name", "y")
    named = "plug-in other 1.0 (assay.formats: fio = other:FIO)"
    assert f"{named}: 'fio' is one of Assay's own names" in done.stderr
