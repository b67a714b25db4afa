"""Dashboards as OpenShift's console draws them: what it can't draw must not be there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.monitor.dashboards import CONSOLE_PANELS, CONSOLE_VARIABLES, console_dashboard, dashboards

DASHBOARDS = dashboards()


def derived(name: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(console_dashboard(DASHBOARDS[name]))
    return made


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_console_gets_only_panels_and_variables_that_it_draws(name: str) -> None:
    made = derived(name)
    assert "panels" not in made
    panels = [panel for row in made["rows"] for panel in row["panels"]]
    assert panels
    assert {panel["type"] for panel in panels} <= CONSOLE_PANELS
    assert {one["type"] for one in made["templating"]["list"]} <= CONSOLE_VARIABLES
    assert all(isinstance(one["query"], str) for one in made["templating"]["list"])
    assert all(sum(panel["span"] for panel in row["panels"]) <= 12 for row in made["rows"])
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_panel_or_query_is_lost_and_nothing_of_grafana_alone_stays(name: str) -> None:
    text = console_dashboard(DASHBOARDS[name])
    assert "datasource" not in text
    assert "$__rate_interval" not in text
    before = [panel for panel in json.loads(DASHBOARDS[name])["panels"] if panel["type"] != "row"]
    after = [panel for row in derived(name)["rows"] for panel in row["panels"]]
    assert [panel["title"] for panel in after] == [panel["title"] for panel in before]
    expressions = [
        [target["expr"].replace("$__rate_interval", "5m") for target in panel["targets"]] for panel in before
    ]
    assert [[target["expr"] for target in panel["targets"]] for panel in after] == expressions


@pytest.mark.parametrize(
    ("kind", "drawn"),
    [("timeseries", "graph"), ("stat", "singlestat"), ("gauge", "gauge"), ("piechart", "pie")],
)
def test_each_kind_of_panel_has_its_older_name(kind: str, drawn: str) -> None:
    made = json.loads(console_dashboard(_with(type=kind)))
    assert made["rows"][0]["panels"][0]["type"] == drawn


def test_a_panel_that_the_console_would_drop_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Map': the console draws no panels of type geomap"):
        console_dashboard(_with(type="geomap", title="Map"))


def test_a_variable_that_the_console_does_not_know_is_an_error() -> None:
    changed = json.loads(DASHBOARDS["fleet"])
    changed["templating"]["list"].append({"type": "textbox", "name": "word", "query": ""})
    with pytest.raises(ValueError, match="variable word: the console knows no variables of type textbox"):
        console_dashboard(json.dumps(changed))


def _with(**panel: str) -> str:
    changed = json.loads(DASHBOARDS["fleet"])
    changed["panels"][0] |= panel
    return json.dumps(changed)
