"""Every doubt that is raised anywhere is explained, in the command, in the document, and with its rates."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.analyse.doubts import DOUBTS
from assay.analyse.doubts.detection import POWER, RUNS, shown_at
from assay.analyse.explanations import EXPLANATIONS, SUBJECTS
from assay.cli import assay
from assay.errors import InputError
from conftest import ROOT

SOURCE = ROOT / "src" / "assay"
PASSED_ON = {
    "analyse/set_doubts.py",  # gives single runs' doubts again, under their own codes
    "analyse/inference_rules.py",  # has codes, rules and remedies in a table
}


def codes_raised() -> Iterator[tuple[str, str | None]]:
    """Each place that makes a doubt, with its code; None where the code is not written there."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Doubt":
                given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "code")][0]
                code = given.value if isinstance(given, ast.Constant) else None
                yield path.relative_to(SOURCE).as_posix(), code


def test_every_code_that_is_raised_has_its_explanation() -> None:
    raised = {code for _, code in codes_raised()}
    missing = sorted(code for code in raised - {None} if code not in EXPLANATIONS)
    assert not missing, f"add {missing} to the table of their subject in assay/analyse/explanations/"
    assert len(raised) > 30


def test_every_explanation_is_of_a_code_that_is_raised() -> None:
    raised = {code for _, code in codes_raised()}
    in_tables = {
        node.value
        for place in PASSED_ON
        for node in ast.walk(ast.parse((SOURCE / place).read_text()))
        if isinstance(node, ast.Constant)
    }
    assert EXPLANATIONS.keys() <= raised | in_tables


def test_codes_are_written_where_they_are_raised() -> None:
    assert {place for place, code in codes_raised() if code is None} <= PASSED_ON


def test_a_code_is_explained_once() -> None:
    assert len(EXPLANATIONS) == sum(len(table) for table in SUBJECTS.values())
    assert DOUBTS.keys() <= EXPLANATIONS.keys()


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_an_explanation_says_what_it_is_what_it_does_and_what_to_do(code: str) -> None:
    it = EXPLANATIONS[code]
    for text in (it.means, it.effect, it.remedy):
        assert len(text) > 15
        assert text.endswith(".")
        assert "  " not in text


def test_a_test_states_its_false_alarms_and_its_power() -> None:
    for code, found in POWER.items():
        assert EXPLANATIONS[code].rates
        assert set(found.power) == set(found.false_alarm) == set(RUNS)
        assert max(found.false_alarm.values()) <= 0.05
        assert found.power[40] > 0.5


@pytest.mark.parametrize(("n", "at"), [(2, 3), (3, 3), (9, 5), (10, 10), (39, 10), (40, 40), (1000, 40)])
def test_power_is_stated_of_no_more_runs_than_there_are(n: int, at: int) -> None:
    assert shown_at(n) == at


def test_the_page_of_doubts_is_made_from_the_explanations() -> None:
    command = [sys.executable, str(Path("tools") / "doubts_page.py"), "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_explain_shows_what_a_doubt_means() -> None:
    shown = CliRunner().invoke(assay, ["explain", "drift"], catch_exceptions=False).output
    assert "drift (biased" in shown
    assert "Remedy:" in shown
    assert "n = 40" in shown


def test_explain_alone_lists_every_doubt() -> None:
    shown = CliRunner().invoke(assay, ["explain"], catch_exceptions=False).output
    assert all(f"  {code} " in shown for code in EXPLANATIONS)
    assert max(map(len, shown.splitlines())) <= 100


def test_explain_as_json() -> None:
    shown = CliRunner().invoke(assay, ["explain", "--json"], catch_exceptions=False).output
    document = json.loads(shown)
    assert [doubt["code"] for doubt in document["doubts"]] == list(EXPLANATIONS)
    [one] = json.loads(
        CliRunner().invoke(assay, ["explain", "drift", "--json"], catch_exceptions=False).output
    )["doubts"]
    assert one["detection"]["troubles"][0]["power"]["10"] == 0.196


def test_explain_names_the_nearest_doubt_for_a_typing_error() -> None:
    with pytest.raises(InputError, match="is it not-interleaved"):
        CliRunner().invoke(
            assay, ["explain", "not_interleave"], catch_exceptions=False, standalone_mode=False
        )
