"""Which systems of a round are sizes of one machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.analyse.scaling.curve import machines, without_count
from assay.cli import assay
from assay.records import Shape
from stated_runs import side

SIZES = {"m_n1_torch": ("1x8", 100), "m_n2_torch": ("2x8", 190), "2xk": ("2x8", 90), "k": ("1x8", 50)}


@pytest.mark.parametrize(
    ("name", "shape", "machine"),
    [
        ("dgxa100_n64_ngc21.09_mxnet", "64x8", "dgxa100_ngc21.09_mxnet"),
        ("8xXE8545x4A100", "8x4", "XE8545x4A100"),
        ("ipu-pod64-TF1", "1x64", "ipu-TF1"),
        ("nd96_v4_n4_ngc", "4x8", "nd96_v4_ngc"),
        ("dgxh100", "1x8", "dgxh100"),
        ("2", "2x1", "2"),
    ],
)
def test_the_count_is_taken_out_of_a_systems_name_and_no_other_number(
    name: str, shape: str, machine: str
) -> None:
    assert without_count(name, Shape.parse(shape)) == machine


def test_a_second_system_of_one_size_is_by_itself() -> None:
    results = [
        run
        for system, shape in (("m_n1", "1x8"), ("m_n2", "2x8"), ("m", "1x8"))
        for run in side([1.0], system=system, shape=shape)
    ]
    assert set(machines(results, "none")) == {"m_n1", "m_n2", "m"}
    again = side([2.0], system="m_2", shape="2x8")
    found = {name: len(runs) for name, runs in machines([*results[:2], *again], "name").items()}
    assert found == {"m": 2, "m_2": 1}


def test_a_round_has_a_curve_for_each_machine_and_says_how_they_were_grouped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["system,metric,run,value,shape,unit,better"]
    for system, (shape, rate) in SIZES.items():
        rows += [f"{system},throughput,{run},{rate + run / 10},{shape},samples/s,higher" for run in range(5)]
    Path("round.csv").write_text("\n".join(rows))
    run = CliRunner()
    assert run.invoke(assay, ["import", "round.csv"]).exit_code == 0
    told = run.invoke(assay, ["scale", "round"])
    assert told.exit_code == 0, told.output
    assert "Sizes of 2 machines, by submitter and name without its count" in told.output
    document = json.loads(run.invoke(assay, ["scale", "round", "--json"]).output)
    assert {curve["system"] for curve in document["curves"]} == {"m_torch", "k"}
    apart = run.invoke(assay, ["scale", "round", "--group", "none"])
    assert "name each: `assay scale round:" in str(apart.exception or apart.output)
