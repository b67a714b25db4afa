"""Sides and primary metric are decided once: whoever asks about the same runs gets the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import assay
import stated_runs
from assay import store
from assay.analyse.comparison.sides import baseline_of, led_by, primary_metrics
from assay.cli import assay as command_line
from assay.errors import InputError
from assay.records import Measurement, Metric, Result, RunState
from assay.run.interim_looks import undecided
from assay.view import report
from assay.view.contents import gather
from assay.view.sentences.recommendation import recommendation

DECLARED = {
    "throughput": Metric("throughput", "images/s", "higher", "speed", True),
    "step_time": Metric("step_time", "s", "lower", "time of a step", True),
}
REASON = "throughput was measured on one side only"


def declared(_run: object) -> dict[str, Metric]:
    return DECLARED


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.read.metrics", declared)


def runs_of(system: str, throughput: float | None, step_s: float | None, **more: Any) -> list[Result]:
    """Five runs with one or both metrics, spread by a thousandth."""
    luck = (-0.002, 0.001, 0.003, -0.001, 0.0)
    return [
        stated_runs.result(
            None if throughput is None else throughput * (1 + one),
            system=system,
            block=block,
            more=()
            if step_s is None
            else [Measurement("step_time", step_s * (1 + one), "s", {}, "rank-0.log", 8)],
            **more,
        )
        for block, one in enumerate(luck, start=1)
    ]


ONE_SIDED = {"a": runs_of("a", 100.0, 0.010), "b": runs_of("b", None, 0.020)}


@dataclass(frozen=True)
class Planned:
    """Of a plan what until decided needs."""

    systems: Sequence[str] = ("a", "b")
    baseline: str = "a"
    margin: float = 0.02
    primary_metric: Any = None
    trials: Sequence[Any] = ()


def kept(root: Path, sides: dict[str, list[Result]]) -> list[str]:
    store.update(root, [result for runs in sides.values() for result in runs], gone=())
    return ["--runs", str(root)]


def test_where_one_side_lacks_the_primary_metric_compare_gate_report_and_until_are_undecided(
    tmp_path: Path,
) -> None:
    where = kept(tmp_path, ONE_SIDED)

    compared = CliRunner().invoke(command_line, ["compare", "suite:a", "suite:b", *where])
    assert compared.exit_code == 3, compared.output
    assert f"not compared: {REASON}" in " ".join(compared.stdout.split())
    assert "slower" not in compared.stdout
    found = assay.compare("suite:a", "suite:b", runs=tmp_path)
    assert (found.verdict, found.primary) == ("undecided", ())
    assert [c.point.metric for c in found] == ["step_time"]
    assert [one.reason for one in found.open] == [REASON]
    assert REASON in " ".join(str(found).split())
    assert REASON in found._repr_html_()

    gated = CliRunner().invoke(command_line, ["gate", "suite:b", "--baseline", "suite:a", *where])
    assert gated.exit_code == 3, gated.output
    assert f"not compared: {REASON}" in gated.stdout
    assert assay.gate("suite:b", baseline="suite:a", runs=tmp_path).answer == "undecided"

    contents = gather(ONE_SIDED, declared)
    assert [(one.metric, one.reason) for one in contents.open] == [("throughput", REASON)]
    assert contents.questions == ()
    advice = recommendation(contents)
    assert (advice.action, REASON in advice.sentence) == ("Measure on both sides", True)
    for text in (report.html_page(contents), report.markdown_text(contents)):
        assert REASON in text
        assert "undecided" in text

    everything = [result for runs in ONE_SIDED.values() for result in runs]
    open_, missing = undecided(Planned(primary_metric={"train": "throughput"}), everything, declared)  # type: ignore[arg-type]
    assert (open_, missing) == ([], [f"train, b and a: not compared: {REASON}"])


def test_where_one_side_gave_no_result_compare_gate_report_and_until_are_undecided(tmp_path: Path) -> None:
    failed = [
        replace(r, run=replace(r.run, state=RunState.FAILED, cause="rank 0 exited 9"))
        for r in runs_of("b", None, 0.010)
    ]
    sides = {"a": runs_of("a", 100.0, 0.010), "b": failed}
    where = kept(tmp_path, sides)
    reason = "throughput was measured on one side only; b: 5 of 5 runs gave no result (rank 0 exited 9)"
    for words in (["compare", "suite:a", "suite:b"], ["gate", "suite:b", "--baseline", "suite:a"]):
        ran = CliRunner().invoke(command_line, [*words, *where])
        assert ran.exit_code == 3, ran.output
        assert reason in " ".join(ran.stdout.split())
    contents = gather(sides, declared)
    assert [one.reason for one in contents.open] == [reason]
    assert recommendation(contents).action == "Measure on both sides"
    everything = [result for runs in sides.values() for result in runs]
    assert undecided(Planned(primary_metric={}), everything, declared) == (
        [],
        [f"train, b and a: not compared: {reason}"],
    )  # type: ignore[arg-type]


def test_a_metric_that_is_named_is_judged_although_another_leads(tmp_path: Path) -> None:
    where = kept(tmp_path, ONE_SIDED)
    ran = CliRunner().invoke(command_line, ["compare", "suite:a", "suite:b", "--metric", "step_time", *where])
    assert ran.exit_code == 1, ran.output


def test_what_no_side_measured_does_not_lead() -> None:
    sides = {"a": runs_of("a", None, 0.010), "b": runs_of("b", None, 0.010)}
    everything = [result for runs in sides.values() for result in runs]
    assert primary_metrics(everything, declared, {"train": "throughput"}) == {"train": "step_time"}
    contents = gather(sides, declared)
    assert [q.verdict for q in contents.questions] == ["equivalent"]
    assert contents.open == ()


def test_the_metric_that_either_side_measured_leads_as_it_is_declared() -> None:
    everything = [*runs_of("a", None, 0.010), *runs_of("b", 100.0, None)]
    assert primary_metrics(everything, declared) == {"train": "throughput"}
    first = led_by({"train": "step_time"}, declared)
    assert list(first(everything[0].run)) == ["step_time", "throughput"]
    assert primary_metrics(everything, first) == {"train": "step_time"}


def test_the_stated_primary_metric_stays_where_nothing_was_measured() -> None:
    assert primary_metrics([], declared, {"train": "throughput"}) == {"train": "throughput"}


def test_of_two_benchmarks_the_open_one_leaves_the_verdict_undecided_unless_the_other_is_slower(
    tmp_path: Path,
) -> None:
    for name, throughput, verdict in (("even", 100.0, "undecided"), ("slow", 50.0, "slower")):
        sides = {
            "a": [*ONE_SIDED["a"], *runs_of("a", 100.0, None, benchmark="read")],
            "b": [*ONE_SIDED["b"], *runs_of("b", throughput, None, benchmark="read")],
        }
        root = tmp_path / name
        root.mkdir()
        kept(root, sides)
        found = assay.compare("suite:a", "suite:b", runs=root)
        assert found.verdict == verdict
        assert [one.benchmark for one in found.open] == ["train"]


def test_a_metric_at_other_points_on_each_side_is_said_to_have_no_common_point(tmp_path: Path) -> None:
    sides = {
        "a": [*runs_of("a", 100.0, 0.01), *runs_of("a", None, 0.02, shape="2x1")],
        "b": [*runs_of("b", None, 0.01), *runs_of("b", 190.0, 0.02, shape="2x1")],
    }
    kept(tmp_path, sides)
    found = assay.compare("suite:a", "suite:b", runs=tmp_path)
    assert [one.reason for one in found.open] == [
        "throughput was measured at no common point that has a ratio"
    ]


def test_the_baseline_is_the_stated_one_where_it_is_there_else_the_first() -> None:
    assert baseline_of(["a", "b"], "b") == "b"
    assert baseline_of(["a", "b"], "c") == "a"
    assert baseline_of(["a", "b"], None) == "a"


def test_nothing_at_all_to_compare_is_an_error(tmp_path: Path) -> None:
    kept(tmp_path, {"a": runs_of("a", 100.0, None), "b": runs_of("b", None, 0.01)})
    with pytest.raises(InputError, match="nothing to compare"):
        assay.compare("suite:a", "suite:b", runs=tmp_path)
