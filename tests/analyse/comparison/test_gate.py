"""The gate answers from the interval alone, one side of it, and its XML is read by any XML reader."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from assay import cli
from assay.analyse.comparison.verdict import gate_verdict, overall
from assay.questions import gate as gate_questions
from assay.questions.gate import GateSide
from assay.records import Better, Comparison, Doubt, Estimate, Family, Point
from assay.view.junit import junit


def comparison(low: float | None, high: float | None, better: Better | None = "higher") -> Comparison:
    point = Point("resnet", "1x8", "throughput", "images/s", better, {"batch": 32})
    value = 1.0 if low is None or high is None else (low * high) ** 0.5
    return Comparison(
        point=point,
        a="old",
        b="new",
        mean_a=100.0,
        mean_b=100.0 * value,
        ratio=Estimate(value, low, high, 10, ""),
        n=(5, 5),
        method="welch",
        margin=0.02,
        verdict="undecided",
        reason="one run per side has no spread to gate_verdict by: no interval",
        smallest_visible=None,
    )


@pytest.mark.parametrize(
    ("low", "high", "better", "answer"),
    [
        (0.99, 1.01, "higher", "holds"),
        (0.99, 1.30, "higher", "holds"),  # better by any amount
        (0.985, 0.995, "higher", "holds"),  # slower, yet by less than the margin
        (0.90, 0.97, "higher", "worse"),
        (0.90, 0.985, "higher", "undecided"),  # slower, possibly by less than the margin
        (0.90, 1.10, "higher", "undecided"),
        (0.70, 1.01, "lower", "holds"),
        (1.03, 1.10, "lower", "worse"),
        (1.01, 1.10, "lower", "undecided"),
        (0.99, 1.01, None, "holds"),
        (1.03, 1.10, None, "undecided"),  # no direction: nobody knows whether that is worse
        (0.90, 0.97, None, "undecided"),
        (0.99, 1.10, None, "undecided"),
        (None, None, "higher", "undecided"),
    ],
)
def test_the_answer_follows_from_the_interval_and_the_direction(
    low: float | None, high: float | None, better: Better | None, answer: str
) -> None:
    assert gate_verdict(comparison(low, high, better)).answer == answer


def test_a_metric_without_a_direction_that_moved_is_undecided_and_says_what_to_declare(
    tmp_path: Path,
) -> None:
    rows = ["system,workload,metric,run,value"]
    rows += [
        f"{s},resnet,cost,{run},{v + run / 1000}" for s, v in (("old", 10), ("new", 12)) for run in range(6)
    ]
    (tmp_path / "n.csv").write_text("\n".join(rows) + "\n")
    assert assay("import", tmp_path / "n.csv", "--runs", tmp_path / "runs").exit_code == 0
    for a, b in (("new", "old"), ("old", "new")):
        said = assay("gate", f"n:{a}", "--baseline", f"n:{b}", "--runs", tmp_path / "runs")
        assert said.exit_code == 3, said.output
        assert "the metric has no declared direction: declare `better:`" in said.stdout


def test_what_is_picked_out_of_several_rests_on_the_corrected_interval() -> None:
    alone = comparison(0.90, 0.97)
    together = Family(5, "holm", Estimate(0.934, 0.88, 0.99, 10, ""), "slower")
    assert gate_verdict(alone).answer == "worse"
    assert gate_verdict(replace(alone, family=together)).answer == "undecided"
    fine = comparison(0.985, 1.02)
    wide = Family(5, "holm", Estimate(1.0, 0.95, 1.05, 10, ""), "undecided")
    assert gate_verdict(replace(fine, family=wide)).answer == "holds"  # each holds by itself


def test_one_that_is_worse_fails_all_and_one_that_is_missing_leaves_all_open() -> None:
    good, bad, open_ = (gate_verdict(comparison(*ends)) for ends in ((0.99, 1.01), (0.9, 0.95), (0.9, 1.1)))
    assert overall([good, open_, bad], 0) == "worse"
    assert overall([good, open_], 0) == "undecided"
    assert overall([good], 1) == "undecided"
    assert overall([good, good], 0) == "holds"


def test_the_xml_escapes_what_it_quotes_and_counts_what_it_holds() -> None:
    doubt = Doubt("odd", "a <b> & \x00\x1b[31m \ud800 'c'", "")
    judged = [gate_verdict(comparison(*ends)) for ends in ((0.99, 1.01), (0.9, 0.95), (0.9, 1.1))]
    judged[0] = gate_verdict(replace(judged[0].comparison, doubts=(doubt,)))
    point = judged[0].comparison.point
    text = junit("new & <old>", judged, [(point, 'no run of "new" has it')])
    root = ElementTree.fromstring(text.encode())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "2")
    [suite] = root
    assert suite.get("name") == "new & <old>"
    assert [[child.tag for child in case if child.tag != "system-out"] for case in suite] == [
        [],
        ["failure"],
        ["error"],
        ["error"],
    ]
    assert "a <b> & \ufffd\ufffd[31m \ufffd 'c'" in str(suite[0].findtext("system-out"))


def assay(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.assay, list(map(str, words)))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two systems, one 10 % slower, and a metric that one of them lacks."""
    luck = random.Random(5)
    rows = ["system,workload,metric,run,value"]
    rows += [
        f"{system},{workload},throughput,{run},{level * (1 + luck.gauss(0, 0.002)):.3f}"
        for system, level in (("old", 100), ("new", 90), ("same", 100))
        for workload in ("resnet", "bert")
        if (system, workload) != ("same", "bert")
        for run in range(6)
    ]
    (tmp_path / "n.csv").write_text("\n".join(rows) + "\n")
    assert assay("import", tmp_path / "n.csv", "--runs", tmp_path / "runs").exit_code == 0
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("a", "margin", "code", "answer"),
    [("n:new", "2%", 1, "worse"), ("n:new", "15%", 0, "holds"), ("n:same", "2%", 3, "undecided")],
)
def test_the_exit_code_is_the_answer(runs: Path, a: str, margin: str, code: int, answer: str) -> None:
    xml = runs.parent / "out" / "gate.xml"
    words = ("gate", a, "--baseline", "n:old", "--margin", margin, "--junit", xml, "--runs", runs)
    said = assay(*words)
    assert said.exit_code == code, said.output
    assert f"{answer} at a margin of" in said.stdout
    assert ElementTree.parse(xml).getroot().get("tests") == "2"
    document = json.loads(assay(*words, "--json").stdout)
    assert document["answer"] == answer
    assert len(document["judged"]) + len(document["missing"]) == 2


def test_the_runs_and_the_sessions_that_each_side_pools_are_stated(runs: Path) -> None:
    words = ("gate", "n:new", "--baseline", "n:old", "--runs", runs)
    lines = assay(*words).stdout.splitlines()
    assert lines[0].startswith("worse")
    assert ", n = 6 of old and 6 of new: " in lines[2]
    [session] = [path.name for path in (runs / "n").iterdir() if path.is_dir()]
    assert f"old: 12 runs in 1 session: n/{session}" in lines
    assert f"new: 12 runs in 1 session: n/{session}" in lines
    assert json.loads(assay(*words, "--json").stdout)["sides"] == [
        {"name": name, "runs": 12, "sessions": [f"n/{session}"]} for name in ("old", "new")
    ]


def test_many_sessions_are_counted_and_only_the_first_and_the_last_are_named() -> None:
    line = gate_questions._pooled(GateSide("new", 12, tuple(f"n/{day}" for day in range(1, 7))))
    assert line == "new: 12 runs in 6 sessions: n/1, …, n/6"


def test_an_interval_that_differs_from_the_one_of_the_ratio_says_what_it_is() -> None:
    worse = comparison(0.80, 0.85)
    assert gate_verdict(worse).reason == "the whole interval is worse by more than the margin of 2 %"
    stretched = gate_verdict(replace(worse, lost_to_others=(0.0, 0.1))).reason
    assert stretched.startswith(
        "the whole interval, stretched by the CPU time that others may have used (0.8 to 0.9444)"
    )
