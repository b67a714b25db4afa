"""The JavaScript of a page is the published one, has its licences and draws what Altair writes."""

from __future__ import annotations

import hashlib
import json
import runpy

import altair

from assay.view import vega_lite
from conftest import ROOT

FOLDER = ROOT / "src" / "assay" / "view" / "vega"
VERSIONS = json.loads((FOLDER / "versions.json").read_text())


def test_each_file_has_the_digest_and_the_version_that_the_tool_recorded() -> None:
    wanted = runpy.run_path(str(ROOT / "tools" / "vendor_vega.py"))["VERSIONS"]
    assert {name: library["version"] for name, library in VERSIONS.items()} == wanted
    for library in VERSIONS.values():
        content = (FOLDER / library["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == library["sha256"], library["file"]


def test_each_library_has_its_licence() -> None:
    licences = (FOLDER / "LICENSES.txt").read_text()
    for name, library in VERSIONS.items():
        assert f"{name} {library['version']} (BSD-3-Clause)" in licences


def test_vega_lite_has_the_version_that_altair_writes() -> None:
    ours, theirs = VERSIONS["vega-lite"]["version"], altair.SCHEMA_VERSION.removeprefix("v")
    assert ours.split(".")[:2] == theirs.split(".")[:2]


def test_a_page_names_no_source_map_that_a_browser_would_look_for() -> None:
    runtime = vega_lite.chart_runtime()
    assert "vegaEmbed=" in runtime
    assert "sourceMappingURL" not in runtime
