"""What a sweep is asked beside its measurements: a disk, commands to print, a baseline of pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import cli
from assay import node_sweep as sweep
from assay.analyse.sweeps.verdicts import SweepFigure, SweepSession, judged_pairs
from assay.errors import InputError
from assay.records import Point
from assay.workloads import WORKLOADS

POINT = Point("allreduce", "2x1x2", "busbw", "B/s", "higher", {})


def called(tmp_path: Path, *words: str) -> Result:
    systems = tmp_path / "systems.yaml"
    systems.write_text(json.dumps({"lab": {"launcher": "ssh", "hosts": ["a", "b"]}}))
    where = ["--systems", str(systems), "--runs", str(tmp_path / "runs")]
    return CliRunner().invoke(cli.assay, ["sweep", "lab", *where, *words])


def test_what_a_system_can_not_print_is_refused_before_anything_runs(tmp_path: Path) -> None:
    result = called(tmp_path, "--print", "taints")
    assert "launcher ssh has no form taints; use names" in str(result.exception)
    assert not (tmp_path / "runs").exists()


def test_a_named_directory_adds_the_disk_to_what_each_node_runs() -> None:
    assert "disk" not in sweep.nodes_suite(["a"], 3, "auto", 1.0)["benchmarks"]
    made = sweep.nodes_suite(["a"], 3, "auto", 1.0, disk="/scratch")["benchmarks"]["disk"]
    assert WORKLOADS[made["workload"]].params(**made["params"]).directory == "/scratch"


def together(speeds: dict[str, list[float]]) -> SweepSession:
    hosts = {name: (name[0], name[1]) for name in speeds}
    return SweepSession("sweep-pairs/now", {"allreduce": SweepFigure(POINT, "higher", speeds)}, hosts)


def test_the_pair_of_two_nodes_is_slow_against_its_baseline_alone() -> None:
    now, before = together({"ab": [50.0, 51, 49]}), together({"ab": [100.0, 101, 99]}).figures
    alone = judged_pairs(now)
    assert alone is not None
    assert (alone.blame.pairs, alone.changes) == ((), ())
    held = judged_pairs(now, before=before)
    assert held is not None
    assert [slow.who for slow in held.blame.pairs] == [("a", "b")]
    assert held.changes[0].slower


def test_a_baseline_without_pairs_leaves_them_to_each_other_and_one_of_others_is_refused() -> None:
    now = together({"ab": [50.0, 51, 49]})
    held = judged_pairs(now, before={})
    assert held is not None
    assert held.changes == ()
    with pytest.raises(InputError, match="none of the nodes ab; it has cd"):
        judged_pairs(now, before=together({"cd": [1.0]}).figures)


@pytest.mark.long
def test_somebodys_own_suite_of_a_sweeps_name_is_reported_as_any_suite(tmp_path: Path) -> None:
    suite = {"suite": "sweep-nodes", "repeats": 2, "systems": ["here"], "shapes": ["1x1"]}
    metric = {"pattern": "^(?P<value>[0-9]+)$", "unit": "1/s", "better": "higher"}
    params = {"argv": ["echo", "7"], "metrics": {"rate": metric}}
    file = tmp_path / "suite.yaml"
    file.write_text(json.dumps(suite | {"benchmarks": {"seven": {"workload": "command", "params": params}}}))
    (tmp_path / "systems.yaml").write_text("here: {launcher: local}\n")
    where = ["--runs", str(tmp_path / "runs")]
    assert CliRunner().invoke(cli.assay, ["run", str(file), *where, "--quiet"]).exit_code == 0
    page = tmp_path / "page.html"
    made = CliRunner().invoke(cli.assay, ["report", "sweep-nodes", *where, "-o", str(page)])
    assert made.exit_code == 0, (made.output, made.exception)
    assert "Assay report" in page.read_text()
