"""docs/how-to/python.md is true: its sheet is taken in, and its examples give what stands there."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import re
import shutil
from pathlib import Path

from click.testing import CliRunner

from assay.analyse.mlperf.score import ScoredSet, SetScore
from assay.cli import assay
from assay.records import Comparison, Estimate, Scaling, ScalingPoint
from conftest import ROOT

DOCUMENT = (ROOT / "docs" / "how-to" / "python.md").read_text()
LOGS = "training_results_v3.1/Supermicro-RedHat/results/AS-4125GS-TNRT-RedHat-OpenShift/resnet"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def failures(examples: list[str]) -> str:
    """What a doctest of these blocks, run one after the other, complains about."""
    test = doctest.DocTestParser().get_doctest("\n".join(examples), {}, "python.md", None, 0)
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    return "".join(said)


def test_the_examples_of_compare_and_scale_give_what_stands_there(tmp_path: Path) -> None:
    (sheet,), (command,) = blocks("csv"), blocks("console")
    (tmp_path / "numbers.csv").write_text(sheet)
    with contextlib.chdir(tmp_path):
        ran = CliRunner().invoke(assay, command.split()[1:])
        assert ran.exit_code == 0, ran.output
        assert failures([block for block in blocks("python") if LOGS not in block]) == ""


def test_the_example_of_score_gives_what_stands_there(tmp_path: Path, mlperf_logs: Path) -> None:
    source = mlperf_logs / "v3.1" / "Supermicro-RedHat" / "AS-4125GS-TNRT-RedHat-OpenShift" / "resnet"
    shutil.copytree(source, tmp_path / LOGS)
    with contextlib.chdir(tmp_path):
        example = [block for block in blocks("python") if LOGS in block]
        assert failures([">>> import assay\n", *example]) == ""


def test_an_example_that_gives_something_else_is_found() -> None:
    assert "Expected" in failures([">>> 1 + 1\n3\n"])


def test_every_field_in_the_table_of_records_is_there() -> None:
    records = {"compare": (Comparison,), "scale": (Scaling, ScalingPoint), "score": (ScoredSet, SetScore)}
    for name, kinds in records.items():
        known = {field.name for kind in kinds for field in dataclasses.fields(kind)}
        (row,) = re.findall(rf"^\| `{name}` \|.*?\|(.*)\|$", DOCUMENT, re.MULTILINE)
        named = {part for word in re.findall(r"`([a-z_.]+)`", row) for part in word.split(".")}
        assert named <= known, named - known
    assert {"value", "low", "high", "n", "unit"} <= {field.name for field in dataclasses.fields(Estimate)}
