"""The split of time to train as people see it: terminal, JSON, page and Markdown say the same."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.analyse.mlperf.decompose import Decomposition
from assay.cli import assay
from assay.records import Metric, Result
from assay.view import report
from assay.view.charts import charts
from assay.view.contents import Contents, gather
from assay.view.sentences import split
from trained_results import trained

PACES = [1.0, 1.002, 1.001, 0.999, 0.998]


def contents(b: list[Result], a: list[Result] | None = None) -> Contents:
    a = a or trained([38, 40, 42, 39, 41], PACES)
    nothing: dict[str, Metric] = {}
    return gather({"here": a, "there": b}, lambda _run: nothing)


def slower(**options: object) -> list[Result]:
    paces = [1.1 * pace for pace in PACES]
    return trained([48, 50, 52, 49, 51], paces, system="there", **options)  # type: ignore[arg-type]


def test_page_and_markdown_show_factors_minutes_causes_and_the_claim() -> None:
    found = contents(slower(batch=512))
    for text in (report.html_page(found), report.markdown_text(found)):
        assert "there trains slower than here, apart from epochs" in text
        assert "Not like for like: no verdict on the systems alone." in text
        assert "global batch size 256 and 512" in text
        for caption in (
            "factors",
            "where the time goes, min per run",
            "what makes the difference",
            "not like for like",
        ):
            assert f"resnet, there compared with here: {caption}" in text


def test_the_tables_minutes_add_up_to_what_is_printed_under_them() -> None:
    [d] = contents(slower()).splits
    rows = [
        [float(cell.replace("−", "-")) for cell in row.cells[1:]] for row in split.minutes(d).bodies[0].rows
    ]
    *phases, whole = rows
    for column, total in enumerate(whole):
        assert sum(row[column] for row in phases) == pytest.approx(total, abs=0.003)


def test_the_waterfall_leads_from_one_side_to_the_other_without_a_gap() -> None:
    found = contents(slower())
    [chart] = [c for c in charts(found) if c.kind == "waterfall"]
    rows = chart.spec["datasets"]["rows"]
    for before, after in pairwise(rows):
        assert after["from"] == pytest.approx(before["to"])
    [d] = found.splits
    assert rows[-1]["to"] == pytest.approx(d.b.mean.minutes)
    assert "epochs to the target +10.511 min" in chart.words


def test_without_convergence_there_is_no_waterfall_and_it_is_said() -> None:
    found = contents(slower(converged=[False, True, True, True, True]))
    assert not [c for c in charts(found) if c.kind == "waterfall"]
    text = report.markdown_text(found)
    assert "Convergence is undecided: 1 of 5 runs of there did not converge" in text
    assert "4 of 5 converged" in text


def test_a_short_training_is_shown_in_seconds() -> None:
    seconds = [pace / 600 for pace in PACES]
    both = (trained([10, 11, 12, 10, 11], seconds, system=name) for name in ("here", "there"))
    found = gather(dict(zip(("here", "there"), both, strict=True)), lambda _run: {})
    assert split.minutes(found.splits[0]).caption.endswith("where the time goes, s per run")


def _unequal_sessions() -> Decomposition:
    """A's first session is slow and has most of its runs: each session counts once."""
    a = trained([40] * 6, [1.3, 1.31, 1.29, 1.3, 1.32, 1.28]) + trained([41] * 2, [1.0, 1.01], session="2nd")
    b = trained([40] * 3, [1.1, 1.12, 1.11], system="there") + trained(
        [46] * 3, [1.2, 1.22, 1.21], system="there", session="2nd"
    )
    [d] = contents(b, a).splits
    return d


def test_the_quotient_of_the_shown_times_is_the_shown_ratio() -> None:
    [times, *_] = split.factors(_unequal_sessions()).bodies[0].rows
    a, b, ratio = (float(cell.split()[0]) for cell in times.cells[1:4])
    assert b / a == pytest.approx(ratio, abs=0.51 * 10.0 ** -len(times.cells[3].partition(".")[2]))


def test_factors_that_are_no_quotients_and_a_ratio_of_other_means_say_why() -> None:
    [d] = contents(slower()).splits
    assert "are therefore not the quotients of epochs and of time per epoch" in split.convergence_sentence(d)
    words = split.convergence_sentence(_unequal_sessions())
    assert "This is the ratio of mean times, which are additive; the ratio of geometric means is " in words
    [alike] = contents(trained([38, 40, 42, 39, 41], PACES, system="there")).splits
    assert split.convergence_sentence(alike).endswith(".")
    assert "quotients" not in split.convergence_sentence(alike)
    assert "geometric" not in split.convergence_sentence(alike)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, mlperf_logs: Path) -> str:
    """Both ResNet sets of the same server, imported."""
    root = str(tmp_path_factory.mktemp("split") / "runs")
    openshift = mlperf_logs / "v3.1" / "Supermicro-RedHat" / "AS-4125GS-TNRT-RedHat-OpenShift" / "resnet"
    for name, logs in (("ubuntu", mlperf_logs / "v3.0"), ("openshift", openshift)):
        done = CliRunner().invoke(assay, ["import", str(logs), "--name", name, "--runs", root])
        assert done.exit_code == 0, done.output
    return root


def test_compare_shows_the_split_below_the_verdicts(runs: str) -> None:
    said = " ".join(
        CliRunner().invoke(assay, ["compare", "ubuntu", "openshift", "--runs", runs]).output.split()
    )
    assert said.index("margin ±2 %") < said.index("where the time goes")
    assert "global batch size 3200 3520 work" in said
    assert "no verdict on the systems alone" in said
    assert "of a grid of 4 (11 %)" in said


def test_compares_json_holds_the_split_and_the_references(runs: str) -> None:
    command = ["compare", "ubuntu", "openshift", "--runs", runs, "--json", "--reference", "ubuntu"]
    said = json.loads(CliRunner().invoke(assay, command).stdout)
    [found] = said["time_to_train"]
    assert found["system"]["value"] * found["convergence"]["value"] == pytest.approx(found["time"]["value"])
    assert found["likeness"]["stands"] == "limited"
    assert {c["speed"] for c in said["convergence"]} == {"as the references", "unknown"}


def test_score_says_of_every_set_how_far_it_trained_and_where_the_time_went(mlperf_logs: Path) -> None:
    one = str(mlperf_logs / "v2.1" / "HPE" / "HPE-ProLiant-XL675d-Gen10-Plus_A100-SXM-80GB_2N_pytorch")
    said = " ".join(CliRunner().invoke(assay, ["score", one]).output.split())
    assert "time to train 52.65 min = 5 epochs × 10.53 min per epoch (geometric means)" in said
    assert "training 97 %, evaluation 3.4 %, rest 0.00064 %; evaluation in open epochs 40.88 s" in said
    [run, *_] = json.loads(CliRunner().invoke(assay, ["score", one, "--json"]).stdout)["sets"][0]["runs"]
    phases = [run["phases"][f"{name}_minutes"] for name in ("start", "training", "evaluation", "rest")]
    assert sum(phases) == pytest.approx(run["minutes"], abs=1e-6)


def test_a_metric_that_the_split_does_not_explain_is_shown_without_it(runs: str) -> None:
    command = ["compare", "ubuntu", "openshift", "--runs", runs, "--metric", "throughput"]
    assert "where the time goes" not in CliRunner().invoke(assay, command).output
