"""`assay doctor` lists the packages that add something, and says why one can't be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli import assay
from plugin_packages import STATED, install, install_oven, used


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with used(tmp_path / "packages"):
        yield tmp_path / "packages"


def examined() -> tuple[dict[str, Any], str]:
    """The document, and the same in text: of a system that is examined at once."""
    text = CliRunner().invoke(assay, ["doctor"])
    return json.loads(CliRunner().invoke(assay, ["doctor", "--json"]).stdout), text.output


def test_packages_are_listed_with_version_place_and_what_they_add(packages: Path) -> None:
    install_oven(packages)
    document, text = examined()
    about = {"package": "assay-oven", "version": "1.2", "about": "Everything about ovens"}
    about["place"] = str(packages)
    assert document["plugins"] == [
        {"group": "assay.formats", "name": "oven", "value": "oven_format:OVEN", **about, "trouble": ""},
        {"group": "assay.workloads", "name": "bake", "value": "oven_workload:BAKE", **about, "trouble": ""},
    ]
    [line] = [line for line in text.splitlines() if "plug-in" in line]
    expected = f"✓ plug-in assay-oven 1.2 in {packages}: adds oven (formats), bake (workloads)"
    assert line.split() == expected.split()


def test_one_that_cannot_be_used_is_named_with_the_reason_and_what_to_do(packages: Path) -> None:
    install_oven(packages, oven_format="1 / 0")
    entries = {"assay.format": {"x": "thief:X"}, "assay.commands": {"run": "thief:X"}}
    install(packages, "thief", entries, {"thief.py": STATED})
    document, text = examined()
    troubles = {plugin["name"]: plugin["trouble"] for plugin in document["plugins"]}
    assert "can't be imported: ZeroDivisionError" in troubles["oven"]
    assert troubles["bake"] == ""
    assert "Assay has no group assay.format; its groups are assay.formats, " in troubles["x"]
    assert "'run' is one of Assay's own names; its own is used" in troubles["run"]
    states = {check["name"]: check["state"] for check in document["checks"] if "plug-in" in check["name"]}
    assert states == {"plug-in assay-oven": "warn", "plug-in thief": "warn"}
    assert "fix it if it is yours; else install another version of thief, or none" in text
    assert "1.0 (assay.format: x = thief:X): Assay has no group" in text


def test_without_any_it_says_nothing(packages: Path) -> None:
    document, text = examined()
    assert document["plugins"] == []
    assert "plug-in" not in text
