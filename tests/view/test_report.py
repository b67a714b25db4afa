from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import altair
import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console

import made_results
from assay import redact, store
from assay.cli import assay
from assay.errors import InputError
from assay.records import (
    Comparison,
    Doubt,
    Estimate,
    Family,
    Point,
    Reading,
    Result,
    RunsNeeded,
    RunsRange,
    RunState,
    Scaling,
    ScalingPoint,
    Series,
    Shape,
)
from assay.rundir import session as rundir
from assay.rundir.files import Header
from assay.view import charts, document, figures, report, runs, terminal, verdicts
from assay.view.blocks import Block
from assay.view.charts.runs import over_time
from assay.view.charts.scaling import scaling
from assay.view.contents import Contents, Recipe, ReportedFact, gather
from assay.view.sentences import sentences
from assay.view.sentences.recommendation import about, lead
from made_results import by_system, failed, quickstart


def made(ratios: dict[str, float] | None = None, **more: object) -> Contents:
    plan, results = quickstart(ratios=ratios, **more)  # type: ignore[arg-type]
    return gather(by_system(results), made_results.metrics, plan=plan)


def compared(
    verdict: str = "equivalent",
    ratio: tuple[float, float | None, float | None] = (0.996, 0.984, 1.008),
    unit: str = "images/s",
    better: str | None = "higher",
    doubts: tuple[Doubt, ...] = (),
    **labels: int,
) -> Comparison:
    value, low, high = ratio
    return Comparison(
        point=Point("resnet50", "2x1", "throughput", unit, better, labels),  # type: ignore[arg-type]
        a="bare-metal",
        b="openshift",
        mean_a=100.0,
        mean_b=100.0 * value,
        ratio=Estimate(value, low, high, 8, ""),
        n=(4, 4),
        method="paired",
        margin=0.02,
        verdict=verdict,  # type: ignore[arg-type]
        reason="the reason",
        smallest_visible=0.012,
        doubts=doubts,
    )


def plain(renderable: object, width: int = 80) -> str:
    console = Console(width=width, no_color=True, force_terminal=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def printed(blocks: Iterable[Block], width: int = 80) -> str:
    return plain(terminal.shown(blocks), width)


def test_figures_of_one_column_share_prefix_and_decimals() -> None:
    assert figures.column([9.213e10, 1.31e11], "FLOP/s") == ("GFLOP/s", ["92.13", "131.00"])
    assert figures.column([0.00421, 0.00518], "s") == ("ms", ["4.210", "5.180"])
    assert figures.column([26.43, 49.2], "images/s") == ("images/s", ["26.43", "49.20"])


def test_figures_that_spread_over_decades_share_the_unit_of_their_middle() -> None:
    assert figures.column([4.878e6, 4.923e9], "B/s") == ("MB/s", ["4.878", "4,923"])


def test_a_verdict_is_one_sentence_with_its_ratio_and_interval() -> None:
    (question,) = sentences.questions([compared()])
    assert sentences.answer(question) == (
        "openshift is as fast as bare-metal at resnet50 throughput on 2 workers: 0.996 (0.984 to 1.008), "
        "within ±2 %."
    )


def test_a_slower_side_beyond_the_margin_is_said_to_be_so() -> None:
    (question,) = sentences.questions([compared("slower", (0.9, 0.88, 0.92))])
    assert sentences.answer(question).endswith("0.900 (0.880 to 0.920), by more than ±2 %.")
    (question,) = sentences.questions([compared("slower", (0.98, 0.97, 0.99))])
    assert sentences.answer(question).endswith("possibly by less than ±2 %.")


@pytest.mark.parametrize(
    ("ratio", "better", "said"),
    [
        ((0.99, 0.95, 1.03), "higher", "openshift may be faster or slower than bare-metal at"),
        ((0.99, 0.97, 1.01), "higher", "openshift is as fast as bare-metal or slower at"),
        ((1.01, 0.99, 1.03), "higher", "openshift is as fast as bare-metal or faster at"),
        ((1.01, 0.99, 1.03), "lower", "openshift is as fast as bare-metal or slower at"),
        ((0.99, 0.95, 1.03), None, "openshift may differ from bare-metal at"),
        ((0.99, None, None), "higher", "It is undecided whether openshift is as fast as bare-metal at"),
    ],
)
def test_an_undecided_answer_says_what_its_interval_leaves_open(
    ratio: tuple[float, float | None, float | None], better: str | None, said: str
) -> None:
    (question,) = sentences.questions([compared("undecided", ratio, better=better)])
    assert sentences.answer(question).startswith(said)


def test_where_there_is_no_interval_the_evidence_says_why() -> None:
    (question,) = sentences.questions([compared("undecided", (0.99, None, None))])
    assert "the reason" in sentences.evidence(question)


def test_points_that_disagree_are_undecided_as_a_whole_and_counted() -> None:
    mixed = [compared(size=1), compared("slower", (0.9, 0.88, 0.92), size=2)]
    (question,) = sentences.questions(mixed)
    assert question.verdict == "undecided"
    assert "as fast at 1, slower at 1 of 2 points; ratios 0.900 to 0.996" in sentences.answer(question)


def test_an_interval_too_wide_to_mean_anything_is_not_written_to_its_last_digit() -> None:
    assert figures.ratio(Estimate(0.597, 0.00001234, 190862.489, 4, "")) == "0.60 (<0.01 to >100)"
    assert figures.percent(319724.28) == "over 1000 %"


@pytest.mark.parametrize(
    ("estimate", "written"),
    [
        ((1.642, 0.296, 9.096), "1.6 (0.30 to 9.1)"),
        ((0.8049, 0.6382, 1.0139), "0.80 (0.64 to 1.01)"),
        ((0.9961, 0.9842, 1.0081), "0.996 (0.984 to 1.008)"),
        ((0.92, 0.85, 0.998), "0.920 (0.850 to 0.998)"),
    ],
)
def test_a_ratio_has_the_digits_of_its_interval_and_no_end_is_rounded_onto_1(
    estimate: tuple[float, float, float], written: str
) -> None:
    assert figures.ratio(Estimate(*estimate, 8, "")) == written


def test_labels_that_all_points_share_stand_once_in_the_heading() -> None:
    both = [compared(size=1024, workers_seen=1), compared(size=1024, workers_seen=2)]
    said = printed(verdicts.verdicts(both))
    assert said.count("size 1024") == 1
    (body,) = verdicts.verdict_table(both, on_page=True).bodies
    assert "size 1024" in body.heading
    assert [row.cells[0] for row in body.rows] == ["2 workers, workers seen 1", "2 workers, workers seen 2"]


def test_a_row_has_the_doubts_of_its_own_and_not_those_that_all_rows_share() -> None:
    shared, own = Doubt("one-session", "e", "r"), Doubt("one-far-off", "e", "r")
    rows = [compared(doubts=(shared, own), size=1), compared(doubts=(shared,), size=2)]
    found = verdicts.verdict_table(rows, on_page=True)
    assert found.columns[-1] == "specific doubts"
    assert [row.cells[-1] for row in found.bodies[0].rows] == ["one-far-off", ""]
    alone = verdicts.verdict_table([compared(doubts=(shared,))], on_page=True)
    assert "specific doubts" not in alone.columns


def test_a_narrow_interval_is_not_rounded_to_a_point() -> None:
    assert figures.ratio(Estimate(1.0002, 0.9998, 1.0006, 20, "")) == "1.00020 (0.99980 to 1.00060)"


def test_a_ratio_that_does_not_exist_is_not_a_number() -> None:
    assert figures.ratio(Estimate(float("nan"), None, None, 2, "")) == "no ratio"


def test_a_report_with_no_runs_is_an_error_not_a_zero() -> None:
    with pytest.raises(InputError, match="a report needs runs"):
        gather({}, made_results.metrics)
    with pytest.raises(InputError, match="a report needs runs"):
        gather({"here": []}, made_results.metrics)


def test_an_a_a_check_finds_no_system_faster() -> None:
    verdicts = {question.verdict for question in made().questions}
    assert verdicts <= {"equivalent", "undecided"}
    assert "equivalent" in verdicts


def test_a_system_that_is_a_tenth_slower_is_called_slower() -> None:
    found = made({"here-again": 0.9}, benchmarks=("resnet50",))
    assert {question.verdict for question in found.questions} == {"slower"}
    assert "here-again compared with here: slower in both comparisons." in sentences.headline(found.questions)


def test_the_baseline_of_the_plan_is_what_others_are_held_against() -> None:
    plan, results = quickstart(systems=("here", "there"))
    sides = by_system(list(reversed(results)))
    found = gather(sides, made_results.metrics, plan=replace(plan, baseline="there"))
    assert {(c.a, c.b) for c in found.comparisons} == {("there", "here")}


@pytest.mark.long
def test_one_side_alone_is_reported_without_a_comparison() -> None:
    plan, results = quickstart(systems=("here",))
    found = gather(by_system(results), made_results.metrics, plan=plan)
    assert found.comparisons == ()
    assert "There is only one side" in report.html_page(found)


def test_a_failed_run_counts_in_no_figure_and_is_named_with_its_cause() -> None:
    plan, results = quickstart()
    results[0] = failed(results[0], "rank 1 exited 137: killed")
    found = gather(by_system(results), made_results.metrics, plan=plan)
    assert [(f.run, f.cause) for f in found.failures] == [(results[0].run.id, "rank 1 exited 137: killed")]
    assert all(results[0].run.id not in summary.runs for summary in found.summaries)
    assert "rank 1 exited 137: killed" in report.html_page(found)
    assert "rank 1 exited 137: killed" in report.markdown_text(found)


@pytest.mark.long
def test_a_run_that_has_not_ended_is_unfinished_and_not_failed() -> None:
    plan, results = quickstart()
    running = replace(results[0].run, state=RunState.RUNNING, ended_at=None)
    results[0] = Result(running, Reading())
    found = gather(by_system(results), made_results.metrics, plan=plan)
    assert (found.failures, found.unfinished) == ((), 1)
    assert dict(about(found))["Runs"] == f"{len(results)}, 1 unfinished"
    for text in (report.html_page(found), report.markdown_text(found)):
        assert re.search(rf"1 of {len(results)} runs (is )?unfinished", text)
        assert not re.search(r"of \d+ runs? failed|Failures|1 failed", text)


def test_a_doubt_that_concerns_every_answer_is_told_once() -> None:
    _, claims = report.reported_claims(made())[0]
    assert "too-few-runs" in claims.doubts
    assert all("too-few-runs" not in claim.doubts for claim in claims.claims)


def test_the_first_words_name_the_doubts_to_be_fixed_before_you_decide() -> None:
    plan, results = quickstart()
    sides = by_system(results)
    assert "before you decide" not in lead(gather(sides, made_results.metrics, plan=plan))
    for benchmarks, words in (
        (made_results.BENCHMARKS, " 2 of the 10 must be fixed before you decide: different-work."),
        (("resnet50",), " Fix before you decide: different-work."),
    ):
        plan, results = quickstart(benchmarks=benchmarks)
        sides = by_system([_with_facts(r, global_batch_size=16) for r in results])
        sides["here-again"] = [_with_facts(r, global_batch_size=32) for r in sides["here-again"]]
        assert words in lead(gather(sides, made_results.metrics, plan=plan))


def _with_facts(result: Result, **facts: int) -> Result:
    """The same result; where it trained ResNet-50 it stated these facts."""
    if result.run.trial.benchmark != "resnet50":
        return result
    reading = replace(result.reading, facts={**result.reading.facts, **facts})
    return Result(result.run, reading, result.provenance)


@pytest.mark.long
def test_the_gravest_doubt_stands_first_on_the_page() -> None:
    found = made()
    noted, grave = Doubt("cannot-tell", "so few", "none"), Doubt("learns-nothing", "loss rose", "look")
    first = replace(found.comparisons[0], doubts=(noted, grave))
    html = report.html_page(replace(found, comparisons=(first,), requirements=(), curves=(), questions=()))
    assert html.index('id="doubt-learns-nothing"') < html.index('id="doubt-cannot-tell"')
    assert '<span class="severity note">note</span>' in html


@pytest.mark.parametrize("width", [80, 60, 200])
def test_the_tables_stay_within_the_terminal(width: int) -> None:
    found = made()
    for renderable in (
        terminal.shown(verdicts.verdicts(found.comparisons)),
        terminal.shown(verdicts.scaling(found.curves)),
        terminal.shown(verdicts.requirements(found.requirements)),
    ):
        assert max(map(len, plain(renderable, width).splitlines())) <= width


def test_a_verdict_is_a_word_and_a_symbol_where_there_is_no_colour() -> None:
    said = plain(
        terminal.shown(verdicts.verdicts([compared(), compared("slower", (0.9, 0.88, 0.92), size=2)]))
    )
    assert "= equivalent" in said
    assert "▼ slower" in said
    assert "\x1b[" not in said


def test_the_verdict_table_says_what_so_many_runs_can_show() -> None:
    assert "smallest detectable difference 1.2 %" in printed(verdicts.verdicts([compared()]))


@pytest.mark.parametrize(
    ("ratio", "better", "words"),
    [
        ((1.0, 0.95, 1.05), "higher", "the interval 0.950 to 1.050 extends beyond the margin of ±2 %"),
        ((1.2, 1.1, 1.3), None, "the metric has no declared direction: declare `better:`"),
        ((1.2, None, None), "higher", "the reason"),
    ],
)
def test_the_verdict_table_says_why_a_verdict_is_undecided(
    ratio: tuple[float, float | None, float | None], better: str | None, words: str
) -> None:
    found = compared("undecided", ratio, better=better)
    assert f"undecided resnet50 throughput: {words}" in plain(
        terminal.shown(verdicts.verdicts([found])), width=200
    )
    both = plain(
        terminal.shown(verdicts.verdicts([found, compared(size=2), replace(found, b="other")])), width=200
    )
    assert both.count("undecided resnet50 throughput: ") == 2  # once for each pair of sides


def test_one_cause_of_many_undecided_metrics_is_said_once() -> None:
    found = compared("undecided", (1.0, 0.95, 1.05))
    several = [replace(found, point=replace(found.point, metric=metric)) for metric in ("a", "b", "c", "d")]
    shown = printed(verdicts.verdicts(several), width=200)
    assert shown.count("extend beyond the margin") == 1
    assert "undecided in all 4 comparisons: " in shown


def test_the_verdict_table_says_how_far_the_rank_estimates_lie_and_the_farthest() -> None:
    def with_rank(value: float | None, size: int) -> Comparison:
        rank = None if value is None else Estimate(value, value - 0.01, value + 0.01, 8, "")
        return replace(compared(size=size), rank=rank)

    assert sentences.by_ranks([with_rank(None, 1)]) == ""
    assert (
        sentences.by_ranks([with_rank(0.99, 1)]) == "by ranks (Hodges–Lehmann) B/A is 0.990 (0.980 to 1.000)"
    )
    several = [with_rank(0.996, 1), with_rank(0.986, 2), with_rank(None, 3)]
    words = (
        "by ranks (Hodges–Lehmann) B/A is within 1 % of these; farthest at "
        "resnet50 throughput, 2 workers, size 2: 0.986 (0.976 to 0.996)"
    )
    assert sentences.by_ranks(several) == words
    assert "by ranks" in printed(verdicts.verdicts(several))


def test_a_doubt_stands_once_below_the_table_with_how_far_it_reaches() -> None:
    doubt = Doubt("one-session", "all runs are of one session", "repeat it tomorrow")
    said = printed(verdicts.verdicts([compared(doubts=(doubt,)), compared(size=1)]))
    assert said.count("one-session") == 1
    assert "1 of 2)" in said


def test_what_a_log_says_reaches_the_terminal_as_text_alone() -> None:
    doubt = Doubt("one-session", "[red]evidence[/red]\x1b]0;title\x07", "remedy")
    hostile = replace(compared(doubts=(doubt,)), a="[bold]a[/bold]", b="\x1b[31mb")
    said = printed(verdicts.verdicts([hostile]), width=160)
    assert "[red]evidence[/red]" in said
    assert "\x1b" not in said
    assert "\x07" not in said


def test_each_pair_of_sides_has_one_table_whatever_the_order() -> None:
    pairs = [replace(compared(), b=b) for b in ("x", "y", "x", "y")]
    assert printed(verdicts.verdicts(pairs)).count(" compared with bare-metal") == 2


def test_nothing_to_compare_is_said() -> None:
    assert "Nothing to compare" in printed(verdicts.verdicts([]))
    assert "No scaling to show" in printed(verdicts.scaling([]))


def with_everything() -> Contents:
    plan, results = quickstart()
    return gather(
        by_system(results),
        made_results.metrics,
        plan=plan,
        facts=[
            ReportedFact(
                "python.torch", "Python and libraries", ("2.8.0", "2.7.1"), differs=True, matters=True
            ),
            ReportedFact("cpu.model", "Hardware", ("EPYC", "EPYC"), differs=False, matters=False),
        ],
        recipes=[
            Recipe(
                "quickstart/s1",
                "assay run suite.yaml",
                seed=1,
                plan_digest="aa",
                suite_digest="bb",
                assay_version="0.1.0",
                files={"suite.yaml": "suite: quickstart\n"},
                commands={"resnet50-1x1-here-r01": "python3 resnet50.py --steps 40"},
            )
        ],
    )


def test_the_page_asks_for_nothing_outside_itself() -> None:
    html = report.html_page(with_everything())
    markup = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert not re.findall(r"""(?:src|href|action|data)\s*=\s*["']?(?:https?:)?//""", markup)
    assert "url(" not in markup
    assert "@import" not in markup
    assert "<link" not in markup
    assert "<img" not in markup


@pytest.mark.long
def test_the_page_stays_under_its_size() -> None:
    assert len(report.html_page(with_everything()).encode()) < 3_000_000


def test_the_page_lets_no_script_run_but_its_own() -> None:
    html = report.html_page(made(benchmarks=("digits",)))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert policy[1].count("sha384-") == 3


def test_no_hash_of_a_style_sheet_is_taken_for_a_secret() -> None:
    policies = [document._policy(f"p {{ margin: {n}px }}", ["a", "b"], pictures=True) for n in range(3000)]
    assert [policy for policy in policies if redact.text(policy) != policy] == []


def test_what_a_log_says_can_not_become_part_of_the_page() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    plan, results = quickstart(systems=("here", evil), benchmarks=("digits",))
    results[0] = failed(results[0], evil)
    found = gather(
        by_system(results),
        made_results.metrics,
        plan=plan,
        facts=[ReportedFact(evil, evil, (evil, "x"), differs=True, matters=True)],
        recipes=[Recipe(evil, evil, None, evil, evil, evil, evil, files={evil: evil}, commands={evil: evil})],
    )
    html = report.html_page(found)
    own_scripts = r'<script type="module">.*?</script>'
    assert "<script>alert" not in html
    assert "<img" not in re.sub(own_scripts, "", html, flags=re.S)
    assert html.count("</script>") == 2 + len(charts.charts(found))
    said = report.markdown_text(found)
    outside_code = re.sub(r"```.*?```|`[^`\n]*`", "", said, flags=re.S)
    assert "<script" not in outside_code
    assert "<img" not in outside_code


def test_every_chart_has_a_caption_its_figures_in_words_and_units_on_its_axes() -> None:
    vega_lite = jsonschema.Draft7Validator(altair.load_schema())
    drawn = charts.charts(made())
    assert {chart.kind for chart in drawn} == {"forest", "runs", "scaling", "series", "timeline"}
    for chart in drawn:
        assert chart.caption
        assert re.search(r"\d", chart.words)
        json.dumps(chart.spec, allow_nan=False)
        assert not [*vega_lite.iter_errors(chart.spec)]
    titles = json.dumps([chart.spec for chart in drawn if chart.kind == "runs"])
    assert '"throughput, GFLOP/s"' in titles
    assert '"time to train, s"' in titles


def test_a_line_of_points_has_its_names_once_because_a_page_of_many_runs_carries_them() -> None:
    (result, *_) = quickstart(benchmarks=("digits",), blocks=1)[1]
    series = Series("loss", "", "step", tuple(map(float, range(40))), tuple(x / 3 for x in range(40)))
    shown = replace(result, reading=replace(result.reading, series=(series,)))
    (drawn,) = over_time({"here": [shown]})
    (row,) = drawn.spec["datasets"]["rows"]
    assert (len(row["x"]), row["value"][1]) == (40, 0.333333)
    assert json.dumps(drawn.spec).count(result.run.trial.id) == 1


def test_sizes_that_ran_too_rarely_for_an_interval_draw_no_layer_of_intervals() -> None:
    def marks(end: float | None) -> set[str]:
        one = Estimate(1.0, end, end, 1, "")
        points = tuple(ScalingPoint(f"{ranks}x1", ranks, one, one, one, "") for ranks in (1, 2))
        curve = Scaling("here", "digits", "throughput", "images/s", "higher", {}, points)
        return {layer["mark"]["type"] for layer in scaling([curve], ["here"]).spec["layer"]}

    assert marks(1.0) - marks(None) == {"rule"}


def test_a_metric_over_payload_sizes_is_a_curve_on_log_axes() -> None:
    results = made_results.all_reduce()
    found = gather(by_system(results), made_results.metrics)
    (curve,) = [chart for chart in charts.charts(found) if chart.kind == "curve"]
    assert "by payload" in curve.caption
    assert "payload 64 MiB" in curve.words
    assert '"type": "log"' in json.dumps(curve.spec)


def test_an_interval_of_two_runs_does_not_squeeze_the_runs_out_of_sight() -> None:
    plan, results = quickstart(benchmarks=("digits",), blocks=2)
    found = gather(by_system(results), made_results.metrics, plan=plan)
    cut = [c for c in charts.charts(found) if c.kind == "runs" and c.caption.endswith("(interval cut)")]
    assert cut
    for chart in cut:
        values = [row["value"] for row in chart.spec["datasets"]["dots"]]
        low, high = chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
        assert high - low <= 3.001 * (max(values) - min(values))


def test_the_tables_hold_every_point_and_side() -> None:
    found = made()
    summary = runs.summaries(found.summaries)
    rows = [row for body in summary.bodies for row in body.rows]
    assert len(rows) == len(found.summaries)
    assert {row.cells[1] for row in rows} == {"here", "here-again"}


@pytest.mark.slow
@pytest.mark.long
def test_a_report_of_a_thousand_runs_takes_under_five_seconds_and_three_megabytes() -> None:
    plan, results = quickstart(blocks=84)
    assert len(results) > 1000
    begun = time.process_time()  # what else runs here is no part of it
    html = report.html_page(gather(by_system(results), made_results.metrics, plan=plan))
    assert time.process_time() - begun < 5.0
    assert len(html.encode()) < 3_000_000


def test_markdown_leads_with_the_answers_and_ends_with_how_to_reproduce() -> None:
    said = report.markdown_text(with_everything())
    order = [
        "here-again compared with here",
        "#### Is it as fast?",
        "### Doubts",
        "| ratio |",
        "assay run suite",
    ]
    places = [said.index(words) for words in order]
    assert places == sorted(places)


def test_every_row_of_a_markdown_table_has_the_columns_of_its_header() -> None:
    for block in re.findall(r"(?:^\|.*\n)+", report.markdown_text(with_everything()), flags=re.M):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1


def test_a_fence_is_longer_than_any_in_the_file_it_holds() -> None:
    found = with_everything()
    recipe = replace(found.recipes[0], files={"suite.yaml": "a: |\n  ```\n  x\n"})
    assert "````\na: |\n  ```" in report.markdown_text(replace(found, recipes=(recipe,)))


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """A runs directory with an index of made results and a session that says how they came about."""
    root = tmp_path / "runs"
    plan, results = quickstart(blocks=3, benchmarks=("resnet50", "digits"))
    header = Header(
        schema=1,
        assay_version="0.1.0",
        suite=plan.suite,
        suite_digest=plan.suite_digest,
        plan_digest=plan.digest,
        created_at=made_results.STARTED_AT,
        host="node",
        command_line=("assay", "run", "my suite.yaml"),
        git={"commit": "1f0c9ab", "branch": "main", "dirty": True},
    )
    session = rundir.create(root, header, plan, {"suite.yaml": "suite: quickstart\n"})
    own = [
        replace(r, run=replace(r.run, session=session.name, id=f"{session.id}/{r.run.trial.id}"))
        for r in results
    ]
    store.update(root, own)
    return root


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(assay, ["report", *arguments], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_command_writes_a_page_named_by_suite_and_session_and_prints_its_path(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs_dir.parent)
    code, said = invoke("quickstart", "--runs", str(runs_dir))
    assert code == 0
    path = Path(said.strip())
    assert re.fullmatch(r"quickstart-2026-.*\.html", path.name)
    html = path.read_text()
    assert "here-again is as fast as here" in html
    assert "assay run &#x27;my suite.yaml&#x27;" in html
    assert "1f0c9ab on main, with changes" in html
    assert "suite: quickstart" in html


def test_the_command_writes_markdown_to_standard_output(runs_dir: Path) -> None:
    code, said = invoke("quickstart", "--runs", str(runs_dir), "--format", "markdown", "-o", "-")
    assert code == 0
    assert said.startswith("## quickstart\n")


def test_the_command_tells_programs_where_the_report_is(runs_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.md"
    code, said = invoke("quickstart:here", "--runs", str(runs_dir), "-o", str(path), "--json")
    document = json.loads(said)
    assert (code, document["path"], document["format"]) == (0, str(path), "markdown")
    assert path.is_file()


def test_two_references_are_two_sides(runs_dir: Path) -> None:
    references = ("quickstart:here", "quickstart:here-again")
    _, said = invoke(*references, "--runs", str(runs_dir), "--format", "markdown", "-o", "-")
    assert "here-again compared with here" in said


def test_references_that_share_runs_are_refused(runs_dir: Path) -> None:
    with pytest.raises(InputError, match="share no run"):
        invoke("quickstart", "quickstart:here", "--runs", str(runs_dir))


def test_a_reference_to_nothing_is_refused_with_the_nearest_name(runs_dir: Path) -> None:
    with pytest.raises(InputError, match="quickstart"):
        invoke("quikstart", "--runs", str(runs_dir))


def test_a_margin_that_is_no_share_is_refused(runs_dir: Path) -> None:
    code, _ = invoke("quickstart", "--runs", str(runs_dir), "--margin", "two")
    assert code == 2


def test_json_and_the_page_are_not_mixed_on_standard_output(runs_dir: Path) -> None:
    code, said = invoke("quickstart", "--runs", str(runs_dir), "-o", "-", "--json")
    assert (code, said) == (2, "")


def test_undecided_says_how_many_runs_would_decide_at_80_columns() -> None:
    contents = made(ratios={"here-again": 0.985})
    text = printed(verdicts.verdicts(contents.comparisons))
    assert "runs per side would decide if they are equal" in " ".join(text.split())
    assert "if they differ by 4 %" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    [undecided, *_] = [q for q in contents.questions if q.verdict == "undecided"]
    assert "runs per side would decide" in sentences.evidence(undecided)


def test_what_nobody_would_run_is_said_in_words() -> None:
    needs = RunsNeeded(RunsRange(300, 2000, None), RunsRange(None, None, None), 0.3, 0.8)
    words = sentences.needed([replace(compared("undecided", (1.0, 0.7, 1.4)), runs_needed=needs)])
    assert "300 to over 10,000 new runs per side" in words
    assert "--until decided" not in words
    assert "over 10,000 if they differ by 4 %" in words


def test_an_undecided_comparison_of_blocks_names_the_run_that_allows_for_its_looks() -> None:
    needs = RunsNeeded(RunsRange(19, 30, 45), RunsRange(5, 7, 9), 0.02, 0.8)
    open_ = replace(compared("undecided", (1.0, 0.97, 1.03)), runs_needed=needs)
    assert sentences.needed([open_]) == (
        "19 to 45 new runs per side would decide if they are equal, 5 to 9 if they differ by 4 %; "
        "`assay run SUITE --until decided --max-repeats 45` chooses how many"
    )
    assert "--until decided" not in sentences.needed([replace(open_, method="welch")])
    looked = replace(open_, ratio=replace(open_.ratio, confidence=0.987))
    assert sentences.needed([looked]).startswith("19 to 45 runs per side would decide")


def test_a_report_says_that_its_verdicts_hold_together() -> None:
    contents = made(ratios={"here-again": 0.985})
    size = sum(c.family is not None for c in contents.comparisons)
    assert f"hold for all {size} claims jointly (Holm)" in report.markdown_text(contents)
    assert {c.point.metric for c in contents.comparisons if c.family is None} == {"epochs"}
    one = made(ratios={"here-again": 0.985}, benchmarks=("resnet50",), shapes=(Shape(1, 1),))
    assert "Holm" not in report.markdown_text(one)


def test_the_evidence_names_sessions_that_count_ranks_and_what_a_family_takes_away() -> None:
    own = compared("undecided", (0.981, 0.97, 0.995))
    c = replace(
        own,
        replication="sessions",
        sessions=(4, 4),
        rank=Estimate(0.982, 0.971, 0.99, 8, ""),
        family=Family(6, "holm", Estimate(0.981, 0.96, 1.004, 8, ""), "slower"),
    )
    words = sentences.evidence(sentences.questions([c])[0])
    assert "4 + 4 runs in 4 + 4 sessions, each counted once" in words
    assert "by ranks 0.9820 (0.9710 to 0.9900)" in words
    assert "slower if taken alone, not as one of 6 claims" in words
    assert "sessions" not in sentences.evidence(sentences.questions([own])[0])


def test_trials_of_the_same_name_in_different_sessions_are_drawn_as_different_lines() -> None:
    _, first = quickstart(("here",))
    second = [
        replace(one, run=replace(one.run, session="later", id=one.run.id.replace(one.run.session, "later")))
        for one in first
    ]
    [alone, both] = (over_time({"here": results}) for results in (first, [*first, *second]))
    assert alone
    for of_one, of_both in zip(alone, both, strict=True):
        names = [{row["run"] for row in chart.spec["datasets"]["rows"]} for chart in (of_one, of_both)]
        assert len(names[1]) == 2 * len(names[0]) > 0


def test_the_charts_of_a_user_id_without_a_home_directory_can_be_drawn() -> None:
    code = (
        "import os, posixpath; os.environ.pop('HOME'); import pwd\n"
        "def none(user_id): raise KeyError(user_id)\n"
        "pwd.getpwuid = none\n"
        "import assay.view.charts, altair\n"
        "assert 'HOME' not in os.environ"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
