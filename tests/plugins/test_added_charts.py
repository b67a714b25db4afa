"""A chart that another package adds: drawn in a report under its title; and one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.cli import assay
from plugin_packages import STATED, install, used

NAMED = "plug-in assay-art 1.0 (assay.charts: doodle = art:DOODLE)"
OWN = "Each run, with its side"
ART = f"""{STATED}
import altair as alt

from assay.plugins import Chart, ChartKind, Contents, plain


def _draw(contents: Contents):
    rows = [{{"side": side, "runs": len(results)}} for side, results in contents.sides.items()]
    drawn = alt.Chart(alt.NamedData("rows")).mark_bar().encode(x="side:N", y="runs:Q")
    yield Chart("any", "How many runs", "a has 3 runs, b has 3", plain(drawn, rows=rows))


DOODLE = ChartKind("What we doodled", _draw)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    rows = [f"{side},speed,{run},{100 + run}" for side in ("a", "b") for run in (1, 2, 3)]
    Path("sides.csv").write_text("\n".join(["system,metric,run,value", *rows]))
    with used(tmp_path / "packages"):
        yield tmp_path / "packages"


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, [*words])


def page(place: Path, text: str = ART) -> str:
    install(place, "assay-art", {"assay.charts": {"doodle": "art:DOODLE"}}, {"art.py": text})
    assert run("import", "sides.csv").exit_code == 0
    done = run("report", "sides", "-o", "page.html")
    assert done.exit_code == 0, (done.output, done.exception)
    return Path("page.html").read_text()


def test_it_is_in_a_report_after_assays_own(packages: Path) -> None:
    html = page(packages)
    assert "What we doodled" in html
    assert "a has 3 runs, b has 3" in html
    assert html.index(OWN) < html.index("What we doodled")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "can't be imported: ZeroDivisionError"),
        (ART.replace("    rows = ", "    1 / 0\n    rows = "), "ZeroDivisionError: division by zero ("),
        (
            ART.replace("    yield Chart", "    yield 7\n    yield Chart"),
            "TypeError: replace() should be called",
        ),
    ],
)
def test_one_that_fails_is_named_and_leaves_the_rest_of_the_report(
    packages: Path, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    html = page(packages, text)
    assert "What we doodled" not in html
    assert OWN in html
    [reported] = [message for message in caplog.messages if "plug-in" in message]
    assert reported.startswith(f"{NAMED}: {why}")
