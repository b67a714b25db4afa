"""Every kind of doubt is raised, tested and explained: in the command, in the document, with its rates."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.analyse.doubts import CASE_KINDS, KINDS
from assay.analyse.doubts.rates import POWER, RUNS, shown_at
from assay.cli import assay
from assay.errors import InputError
from assay.records import Doubt, DoubtKind
from conftest import ROOT

SOURCE = ROOT / "src" / "assay"
TABLE = "analyse/doubts/__init__.py"
RATES = ("analyse/doubts/rates.py",)  # what benchmarks print, by code


def source(*words: str) -> dict[str, ast.Module]:
    """Each module of the program that holds one of these words, by its path."""
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    holds = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words))
    return {path: ast.parse(text) for path, text in texts.items() if holds.search(text)}


def called(node: ast.AST) -> str:
    """The name of what a call calls; "" for anything else."""
    return getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""


def constants() -> Iterator[tuple[str, str]]:
    """The name of each constant that holds a kind of doubt, and the kind's code."""
    for module in source("DoubtKind", "CaseDoubtKind").values():
        for node in module.body:
            match node:
                case ast.Assign(
                    [ast.Name(name)], ast.Call(ast.Name("DoubtKind" | "CaseDoubtKind"), keywords=fields)
                ):
                    given = {field.arg: field.value for field in fields}
                    yield name, ast.literal_eval(given["code"])


def names_used(*names: str) -> set[str]:
    """Those of the names that the program reads, but for its table of kinds and for asking a kind's code."""
    nodes = [node for file, module in source(*names).items() if file != TABLE for node in ast.walk(module)]
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "code"}
    return {*names} & {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in asked
    }


def test_every_doubt_is_made_by_its_kind() -> None:
    makers = {file for file, m in source("Doubt").items() for node in ast.walk(m) if called(node) == "Doubt"}
    assert makers == {"records/verdicts.py", "stacks/knowledge.py"}  # read back from a file there


def test_every_kind_is_in_the_table() -> None:
    assert sorted(code for _, code in constants()) == sorted(KINDS)
    assert len(KINDS) > 70


def test_every_kind_is_raised() -> None:
    """A case's by the function that finds its evidence; the others where their constant is used."""
    of_cases = {kind.code for kind in CASE_KINDS}
    others = [name for name, code in constants() if code not in of_cases]
    assert names_used(*others) == {*others}


ORDINARY = {  # words that modules also use for something else
    "swapping": "why one side is slower",
    "drift": "the kind of a change in a history",
    "suspended": "a field of sacct",
}


def test_the_code_of_a_kind_is_written_once() -> None:
    """Who looks for a doubt asks its kind for the code."""
    written = Counter(
        node.value
        for file, module in source(*KINDS).items()
        if file not in RATES
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and node.value in KINDS
    )
    assert [code for code, times in written.items() if times != 1 and code not in ORDINARY] == []


def test_every_kind_has_a_test_that_names_its_code() -> None:
    tests = "".join(
        path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)
    )
    assert not [code for code in KINDS if f'"{code}"' not in tests]


def test_every_kind_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "doubts.md").read_text()
    assert not [code for code in KINDS if f"\n### {code}\n" not in page]


@pytest.mark.parametrize("code", KINDS)
def test_a_kind_says_what_it_is_what_it_does_and_what_to_do(code: str) -> None:
    it = KINDS[code]
    for text in (it.means, it.effect, it.remedy):
        assert len(text) > 15
        assert text.endswith(".")
        assert "  " not in text


def test_a_test_states_its_false_alarms_and_its_power() -> None:
    for code, found in POWER.items():
        assert KINDS[code].rates
        assert set(found.power) == set(found.false_alarm) == set(RUNS)
        assert max(found.false_alarm.values()) <= 0.05
        assert found.power[40] > 0.5


@pytest.mark.parametrize(("n", "at"), [(2, 3), (3, 3), (9, 5), (10, 10), (39, 10), (40, 40), (1000, 40)])
def test_power_is_stated_of_no_more_runs_than_there_are(n: int, at: int) -> None:
    assert shown_at(n) == at


def test_explain_shows_what_a_doubt_means() -> None:
    shown = CliRunner().invoke(assay, ["explain", "drift"], catch_exceptions=False).output
    assert "drift (biased" in shown
    assert "Remedy:" in shown
    assert "n = 40" in shown


def test_explain_alone_lists_every_doubt() -> None:
    shown = CliRunner().invoke(assay, ["explain"], catch_exceptions=False).output
    assert all(f"\n {code} " in shown for code in KINDS)
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= 100


def test_explain_as_json() -> None:
    shown = CliRunner().invoke(assay, ["explain", "--json"], catch_exceptions=False).output
    document = json.loads(shown)
    assert [doubt["code"] for doubt in document["doubts"]] == list(KINDS)
    [one] = json.loads(
        CliRunner().invoke(assay, ["explain", "drift", "--json"], catch_exceptions=False).output
    )["doubts"]
    assert one["detection"]["troubles"][0]["power"]["10"] == 0.196


def test_explain_names_the_nearest_doubt_for_a_typing_error() -> None:
    with pytest.raises(InputError, match="did you mean not-interleaved"):
        CliRunner().invoke(
            assay, ["explain", "not_interleave"], catch_exceptions=False, standalone_mode=False
        )


def test_a_remedy_is_reworded_by_a_case_that_knows_more() -> None:
    kind = DoubtKind(
        code="x", subject="runs", severity="weak", means="", effect="", remedy="Repeat the smaller size."
    )
    assert kind.doubt("seen") == Doubt("x", "seen", "Repeat the smaller size")
    assert kind.doubt("seen", ("the smaller size", "1x4")).remedy == "Repeat 1x4"
    with pytest.raises(ValueError, match="remedy of x"):
        kind.doubt("seen", ("the larger size", "1x8"))
