"""What a notebook shows of the library's results, and the notebook that reproduces a report."""

from __future__ import annotations

import ast
import json
from html import escape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import assay
from assay import api
from assay.cli import assay as command
from assay.questions.gate import GateResult

EVIL = "<img src=x onerror=alert(1)>"
TABLE = "system,benchmark,metric,value,unit,better,run,session\n" + "".join(
    f"{system},train,throughput,{value},images/s,higher,{run},{session}\n"
    for system, values in (("a", (100, 101, 102)), (f"b{EVIL}", (83, 84, 85)))
    for run, value in enumerate(values)
    for session in ("monday", "tuesday")
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("notebooks")
    (directory / "table.csv").write_text(TABLE)
    made = directory / "runs"
    done = CliRunner().invoke(command, ["import", str(directory / "table.csv"), "--runs", str(made)])
    assert done.exit_code == 0, done.output
    return made


def executed(text: str) -> list[Any]:
    """The values that the cells of a notebook show, in order; a cell that fails raises."""
    shown: list[Any] = []
    names: dict[str, Any] = {"display": shown.append}
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), "cell", "exec"), names)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    return [one for one in shown if one is not None]


def test_a_notebook_reproduces_the_report_and_its_last_cell_fails_if_the_answers_changed(runs: Path) -> None:
    text = api.report("table", runs=runs).text("notebook")
    shown = executed(text)
    assert shown[0]._repr_html_() == api.report("table", runs=runs).text()
    assert any("_repr_mimebundle_" in dir(one) for one in shown)
    with pytest.raises(AssertionError):
        executed(text.replace("== [", "== ['another', "))


def test_the_file_is_what_jupyter_reads(runs: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command, ["report", "table", "-o", str(tmp_path / "x.ipynb"), "--runs", str(runs)]
    )
    assert done.exit_code == 0, done.output
    whole = json.loads((tmp_path / "x.ipynb").read_text())
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in whole["cells"]}) == len(whole["cells"])
    for cell in whole["cells"]:
        assert {"cell_type", "metadata", "source", "id"} <= cell.keys()
        assert ("outputs" in cell) == (cell["cell_type"] == "code")


def test_results_show_themselves_without_markup_of_others(runs: Path) -> None:
    names = [name for name in assay.show("table", runs=runs).runs.by_system() if name != "a"]
    compared = assay.compare("table", runs=runs)
    results = [
        compared,
        assay.show("table", runs=runs),
        assay.gate(f"table:{names[0]}", baseline="table:a", runs=runs),
        api.list_runs(runs=runs),
        assay.history("throughput", runs=runs),
    ]
    for one in results:
        html = one._repr_html_()  # type: ignore[attr-defined]
        assert "<table" in html or isinstance(one, GateResult)  # which is sentences
        assert EVIL not in html
    assert escape(names[0]) in results[1]._repr_html_()  # type: ignore[attr-defined]


def test_a_chart_shows_itself_in_colors_that_need_no_page(runs: Path) -> None:
    [chart] = assay.compare("table", runs=runs).charts
    bundle = chart._repr_mimebundle_()
    [kind] = [kind for kind in bundle if "vegalite" in kind]
    spec = json.dumps(bundle[kind])
    assert "var(--" not in spec
    assert "#" in spec
    assert bundle[kind]["width"] > 100
    assert "var(--" in json.dumps(chart.spec), "the page's own chart follows its theme"
    assert bundle["text/plain"].startswith(chart.caption)
