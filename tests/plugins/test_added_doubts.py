"""A doubt that another package adds: raised, explained; and one that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.cli import assay
from plugin_packages import STATED, install, used

NAMED = "plug-in assay-moon 1.0 (assay.doubts: full-moon = moon:FULL_MOON)"
MOON = f"""{STATED}
from assay.plugins import Case, CaseDoubtKind


def _evidence(case: Case) -> str | None:
    names = [side.name for side in case.sides]
    return f"{{' and '.join(names)}} ran at full moon"


FULL_MOON = CaseDoubtKind(
    code="full-moon",
    subject="runs",
    severity="note",
    means="The moon was full.",
    effect="None is known.",
    remedy="Wait.",
    evidence=_evidence,
)
"""


SIDES = {"a": 100, "b": 110}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    rows = [f"{side},speed,{run},{value + run}" for side, value in SIDES.items() for run in (1, 2, 3)]
    Path("sides.csv").write_text("\n".join(["system,metric,run,value", *rows]))
    with used(tmp_path / "packages"):
        yield tmp_path / "packages"


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, [*words])


def write(place: Path, text: str = MOON) -> None:
    install(place, "assay-moon", {"assay.doubts": {"full-moon": "moon:FULL_MOON"}}, {"moon.py": text})


def doubts() -> list[dict[str, Any]]:
    assert run("import", "sides.csv").exit_code == 0
    done = run("compare", "sides", "--json")
    assert done.exit_code in (0, 1, 3), (done.output, done.exception)
    [comparison] = json.loads(done.stdout)["comparisons"]
    return list(comparison["doubts"])


def test_it_is_raised_and_explained(packages: Path) -> None:
    write(packages)
    assert {"code": "full-moon", "evidence": "a and b ran at full moon", "remedy": "Wait"} in [
        {key: doubt[key] for key in ("code", "evidence", "remedy")} for doubt in doubts()
    ]
    assert "The moon was full." in run("explain", "full-moon").output
    assert "full-moon" in run("explain").output
    assert "did you mean full-moon?" in str(run("explain", "full-mon").exception)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "can't be imported: ZeroDivisionError"),
        (MOON.replace('"note"', '"grave"'), "ValueError: found 'grave' and 'runs'; expected a severity"),
        (MOON.replace('code="full-moon"', 'code="half-moon"'), "calls itself 'half-moon'"),
        (MOON.replace("names = ", "names = 1 / 0; "), "ZeroDivisionError: division by zero ("),
        (
            MOON + "\nFULL_MOON.__dict__['reworded'] = lambda case: [('Go', 'Stay')]",
            "ValueError: the remedy of",
        ),
    ],
)
def test_one_that_fails_is_named_and_leaves_the_verdict_and_the_other_doubts(
    packages: Path, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(packages, text)
    codes = [doubt["code"] for doubt in doubts()]
    assert "full-moon" not in codes
    assert codes
    [reported] = caplog.messages
    assert reported.startswith(f"{NAMED}: {why}")
    assert run("explain").exit_code == 0
