"""Each figure that a command prints as JSON is on the page of the same question, to the page's digits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from click.testing import CliRunner

import made_site
from assay import api
from assay.cli import assay
from assay.node_sweep import NODES
from assay.records import to_plain
from open_site import Served, serving

pytest.importorskip("litestar")
NUMBER = re.compile(r"-?[\d,]*\.?\d+(?:e[+-]\d+)?")
SCALES = [Decimal(10) ** power for power in range(-15, 16, 3)]  # of units' prefixes
Row = Mapping[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runs, options = made_site.make(tmp_path_factory.mktemp("figures"))
    with serving(runs, *options) as served:
        yield served


def printed(*words: str) -> Any:
    """What the command prints with `--json`."""
    said = CliRunner().invoke(assay, [*words, "--json"])
    assert said.stdout, said.stderr
    return json.loads(said.stdout)


def rows(site: Served, path: str, caption: str) -> list[Row]:
    """The rows of a page's table, each by the names of its columns."""
    answer = site.ask(path)
    assert answer.status == 200, path
    tables = re.findall(r"<table.*?</table>", answer.text, re.DOTALL)
    [table] = [one for one in tables if caption in "".join(_texts(one, "caption"))]
    head, _, body = table.partition("</thead>")
    names = _texts(head, "t[hd]")
    cells = [_texts(row, "t[hd]") for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)]
    return [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]


def _texts(html: str, tag: str) -> list[str]:
    parts = re.findall(rf"<{tag}\b.*?>(.*?)</{tag}>", html, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", part)).strip() for part in parts]


def agrees(text: str, *values: float) -> bool:
    """Whether the text's first numbers are these values, rounded as they are written, in some unit."""
    found = [Decimal(one.replace(",", "")) for one in NUMBER.findall(text)]
    return len(found) >= len(values) and any(
        all(
            abs(number - Decimal(value) * scale)
            <= Decimal("0.5000001") * Decimal(10) ** number.as_tuple().exponent
            for number, value in zip(found, values, strict=False)
        )
        for scale in SCALES
    )


def test_agreement_is_to_the_digits_that_are_written() -> None:
    assert agrees("1.25 GFLOP/s", 1.2518e9)
    assert agrees("0.981 to 1.009", 0.98093, 1.00949)
    assert not agrees("1.25", 1.256)
    assert not agrees("0.981 to 1.009", 0.98093, 1.0096)
    assert not agrees("1", 1.0, 2.0)


def test_a_comparison_has_the_figures_of_the_command(site: Served) -> None:
    document = printed("compare", "sizes", "layouts", "--runs", str(site.runs))
    table = [row for row in rows(site, "/compare?a=sizes&b=layouts", "compared with") if row["verdict"]]
    assert len(table) == len(document["comparisons"]) > 0
    for row, one in zip(table, document["comparisons"], strict=True):
        assert agrees(row[one["a"]], one["means"][0])
        assert agrees(row[one["b"]], one["means"][1])
        assert agrees(row["ratio"], one["ratio"]["value"])
        assert agrees(row["95 % interval"], one["deciding"]["low"], one["deciding"]["high"])
        assert row["n"] == "+".join(map(str, dict.fromkeys(one["n"])))
        assert row["verdict"].endswith(one["verdict"])


def test_a_scaling_has_the_figures_of_the_command(site: Served) -> None:
    [curve] = printed("scale", "sizes", "--runs", str(site.runs))["curves"]
    table = rows(site, "/scaling?run=sizes", "Scaling, relative")
    assert len(table) == len(curve["points"]) == 3
    for row, point in zip(table, curve["points"], strict=True):
        assert agrees(row["value"], point["value"]["value"])
        assert agrees(row["speed-up"], point["speedup"]["value"])
        assert agrees(row["efficiency"], 100 * point["efficiency"]["value"])
        assert row["n"] == str(point["value"]["n"])
        if point["speedup"]["low"] is not None:
            assert agrees(row["95 % CI"], point["speedup"]["low"], point["speedup"]["high"])


def test_a_session_has_the_figures_of_the_command(site: Served) -> None:
    points = printed("show", "sizes", "--runs", str(site.runs))["points"]
    table = rows(site, "/sessions/sizes/1", "All runs")
    assert len(table) == len(points) == 3
    for row, point in zip(table, points, strict=True):
        estimate, values = point["estimate"], point["values"]
        assert agrees(row["geometric mean"], estimate["value"])
        assert agrees(row["95 % interval"], estimate["low"], estimate["high"])
        assert agrees(row["minimum"], min(values))
        assert agrees(row["maximum"], max(values))
        assert row["n"] == str(estimate["n"])


def test_a_run_has_the_figures_of_the_command(site: Served) -> None:
    run = sorted(path.name for path in site.runs.glob("sizes/1/*") if path.is_dir())[0]
    [shown] = printed("show", f"sizes/1/{run}", "--runs", str(site.runs))["runs"]
    table = rows(site, f"/sessions/sizes/1/{run}", "Measurements")
    assert len(table) == len(shown["measurements"]) > 0
    for row, one in zip(table, shown["measurements"], strict=True):
        assert agrees(row["value"], one["value"])
        assert (row["metric"], row["unit"]) == (one["metric"], one["unit"])


def test_scores_have_the_figures_of_the_command(site: Served) -> None:
    sets = printed("score", str(site.runs.parent / "v3.1"))["sets"]
    listed = rows(site, "/scores/v3.1", "Sets")
    for row, one in zip(listed, sets, strict=True):
        assert (row["benchmark"], row["round"]) == (one["benchmark"], one["round"])
        for column, figure in (("score, min", "score_minutes"), ("mean, min", "mean_minutes")):
            assert row[column] == "–" if one[figure] is None else agrees(row[column], one[figure])
        table = rows(site, f"/scores/v3.1/{one['set']}", "Runs")
        for run_row, run in zip(table, one["runs"], strict=True):
            assert run_row["status"].startswith(run["status"])
            minutes = run["minutes"]
            assert run_row["minutes"] == "–" if minutes is None else agrees(run_row["minutes"], minutes)
    assert {one["score_minutes"] for one in sets} == {None, 22.0}


def test_a_sweep_has_the_figures_of_the_library(site: Served) -> None:
    name = f"{NODES}/{made_site.swept_runs.NEWEST}"
    [nodes] = api.report(name, runs=site.runs).about.verdicts.nodes
    table = rows(site, f"/sessions/{name}", "Nodes, slowest first")
    assert len(table) == len(nodes.crowd.standings) == len(made_site.swept_runs.NAMES)
    for row, standing in zip(table, nodes.crowd.standings, strict=True):
        assert agrees(row["of the median"], standing.ratio)


@pytest.mark.long
def test_a_sweep_is_answered_as_json_with_what_its_page_and_the_library_say(site: Served) -> None:
    name = f"{NODES}/{made_site.swept_runs.NEWEST}"
    assert f'href="/api/v1/sweep?run={name.replace("/", "%2F")}"' in site.ask(f"/sessions/{name}").text
    [nodes] = json.loads(site.ask(f"/api/v1/sweep?run={name}").text)["nodes"]
    [judged] = api.report(name, runs=site.runs).about.verdicts.nodes
    assert nodes["slow"] == list(judged.slow) != []
    assert nodes["crowd"] == json.loads(json.dumps(to_plain(judged.crowd)))
    refused = site.ask("/api/v1/sweep?run=sizes")
    assert (refused.status, "not a sweep" in refused.text) == (422, True)
