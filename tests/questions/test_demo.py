"""`assay demo` ends in three verdicts on one screen, whatever else the machine does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.analyse.points import encounters
from assay.errors import EXIT_OK
from assay.questions import demo
from command_line import assay


@pytest.mark.slow
def test_three_verdicts_fit_on_one_screen(tmp_path: Path) -> None:
    done = assay(tmp_path, "demo")
    assert done.returncode == EXIT_OK, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    assert lines[-1] == "Now yours: assay try 'python train.py --batch {16,64}'"
    commands = [line.strip() for line in lines if line.startswith("  assay try ")]
    assert len(commands) == 3


@pytest.mark.slow
def test_the_difference_is_found_on_a_machine_that_nobody_else_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encounters, "lost_to_others", lambda _results, _margin: 0.0)
    monkeypatch.setattr(demo, "_COMPARED", demo._COMPARED[:1])
    document = json.loads(assay(tmp_path, "demo", "--json").stdout)
    (compared,) = document["comparisons"]
    assert compared["figure"]["name"] == "products/s"
    assert [c["verdict"] for c in compared["comparisons"]] in (["faster"], ["undecided"])
    assert compared["comparisons"][0]["ratio"]["value"] > 1
