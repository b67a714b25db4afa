"""Inputs that would mislead a busy reader: what they raise, and the one sentence that comes first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.analyse.judgement import compare_with_doubts
from assay.cli import assay
from assay.records import Comparison
from assay.view import terminal, verdicts
from assay.view.sentences import sentences
from assay.view.sentences.recommendation import advised
from stated_runs import metrics, side

DICE = random.Random(5)
MEASURED = [7100 * (1 + DICE.gauss(0, 0.005)) for _ in range(10)]
OTHERS = [7150 * (1 + DICE.gauss(0, 0.005)) for _ in range(10)]


def compared(
    a: Sequence[float | None], b: Sequence[float | None], better: str | None = "higher", **same: Any
) -> Comparison:
    declared = metrics(better)  # type: ignore[arg-type]
    sides = side(a, **same), side(b, system="b", **same)
    [found] = compare_with_doubts(*sides, margin=0.02, names=("A", "B"), metrics=declared).comparisons
    return found


def codes(c: Comparison) -> set[str]:
    return {doubt.code for doubt in c.doubts}


@pytest.mark.parametrize(
    ("a", "b", "evidence"),
    [
        (MEASURED, MEASURED, "A and B together have 10 distinct values"),
        ([*MEASURED[:3] * 3, MEASURED[0]], OTHERS, "the 10 runs of A have 3 distinct values"),
        (MEASURED[:5] * 2, OTHERS, "the 10 runs of A have 5 distinct values"),
    ],
)
def test_copies_are_invalid_and_the_first_sentence_says_so(
    a: list[float], b: list[float], evidence: str
) -> None:
    found = compared(a, b)
    advice = advised([found])
    assert "copied-values" in codes(found)
    assert advice.action == "Fix first"
    assert evidence in advice.sentence
    assert "Look for files or rows that were copied" in advice.sentence


def test_a_thousand_copied_runs_are_found_although_their_chance_is_below_any_float() -> None:
    dice = random.Random(7)
    many = [7100 * (1 + dice.gauss(0, 0.005)) for _ in range(1000)]
    assert "copied-values" in codes(compared(many, many))


def test_figures_that_agree_by_their_resolution_are_no_copies() -> None:
    whole = [float(round(value, -1)) for value in MEASURED]
    assert "copied-values" not in codes(compared(whole, [float(round(v, -1)) for v in OTHERS]))
    assert "copied-values" not in codes(compared([7100.0] * 5, [7100.0] * 5))
    milliseconds = [
        60000 / (7000 + at) for at in (0, 1, 1, 2, 3, 1, 2, 2, 0, 1)
    ]  # a rate from a coarse timer
    assert "copied-values" not in codes(compared(milliseconds, milliseconds[::-1]))
    minutes = [(56859 + at) / 60000 for at in (0, 130, 415, 415, 1075, 2400, 2901, 3300, 3502, 3507)]
    assert "copied-values" not in codes(compared(minutes, [m * 1.01 for m in minutes]))
    epochs = [2.7466, 2.9521] * 5
    assert "copied-values" not in codes(compared(epochs, epochs, unit="epochs"))


def test_runs_measured_apart_are_taken_for_copies_in_no_case_of_two_hundred() -> None:
    dice = random.Random(1)
    for _ in range(200):
        decimals, n = dice.choice([-1, 0, 1, 2]), dice.randint(2, 10)
        a, b = ([round(100 * dice.lognormvariate(0, 0.01), decimals) for _ in range(n)] for _ in range(2))
        assert "copied-values" not in codes(compared(a, b))


def _of_timer(
    dice: random.Random, n: int, slower: float, tick: float, offset: float, *, rates: bool
) -> list[float]:
    times = (offset + tick * round(10 * slower * dice.lognormvariate(0, 0.02) / tick) for _ in range(n))
    return [round(1000 / t, 4) if rates else round(t, 2) for t in times]


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("offsets", [(0.0, 0.0), (0.17, 0.17), (0.17, 0.0)], ids=["none", "one", "two"])
def test_honest_values_of_a_coarse_timer_are_no_copies(offsets: tuple[float, float], rates: bool) -> None:
    """Times of about 20 and 100 ticks, and rates from them: it was 80 to 100 % of sets."""
    dice, sets, raised = random.Random(2), 200, 0
    for at in range(sets):
        n, tick, slower = (5, 8, 20)[at % 3], (0.5, 0.1)[at % 2], dice.uniform(0.98, 1.02)
        a, b = (
            _of_timer(dice, n, side, tick, offset, rates=rates)
            for side, offset in zip((1.0, slower), offsets, strict=True)
        )
        raised += "copied-values" in codes(compared(a, b, unit="images/s" if rates else "s"))
    assert raised <= 0.02 * sets


def test_values_in_thousands_of_the_unit_that_is_stated_are_doubted() -> None:
    found = compared(MEASURED, [value / 1000 for value in OTHERS])
    assert "a factor of about 1,000 apart" in advised([found]).sentence
    assert "suspect-unit" not in codes(compared(MEASURED, [value / 100 for value in OTHERS]))


def test_failed_runs_are_in_the_first_sentence_with_their_possible_effect() -> None:
    found = compared([*MEASURED[:5], *[None] * 5], OTHERS)
    said = advised([found]).sentence
    assert "A: 5 of 10 runs gave no result" in said
    assert "if these were its worst, its mean would be" in said


def test_what_the_worst_runs_would_have_changed_is_what_leaving_them_out_changes() -> None:
    """Half of a normal's runs, the lower one, are lost: the estimate is near the truth."""
    dice = random.Random(3)
    runs = sorted(100 * dice.lognormvariate(0, 0.02) for _ in range(400))
    [doubt] = [d for d in compared([*runs[200:], *[None] * 200], runs).doubts if d.code.startswith("failed")]
    assert "if these were its worst, its mean would be 1.6 % worse" in doubt.evidence  # 0.02 × 0.80


@pytest.mark.parametrize(
    ("unit", "whole"),
    [
        ("%", 100),
        ("percent", 100),
        ("Percent", 100),
        ("pct", 100),
        ("fraction", 1),
        ("ratio", 1),
        ("share", 1),
    ],
)
def test_a_share_in_whatever_unit_is_judged_by_what_is_missing_too(unit: str, whole: float) -> None:
    first, second = (
        [value * whole / 100 for value in side] for side in ([99.5, 99.52, 99.49], [98.01, 98.03, 98.02])
    )
    found = compared(first, second, unit=unit)
    assert "the difference to 100 % is 0.497 % and 1.98 %" in advised([found]).sentence
    assert "share-of-whole" not in codes(compared(first, second, unit="points"))


def test_percentages_are_judged_by_what_is_missing_too() -> None:
    found = compared([99.5, 99.52, 99.49, 99.51, 99.5], [98.0, 98.02, 97.99, 98.01, 98.0], unit="%")
    assert found.verdict == "equivalent"
    assert "the difference to 100 % is 0.496 % and 2" in advised([found]).sentence
    assert "as good" in sentences.headline(sentences.questions([found]))
    alike = compared([40.0, 40.4, 40.1], [40.2, 40.3, 40.0], unit="%")
    assert "share-of-whole" not in codes(alike)


def test_counts_are_better_or_worse_not_fast_or_slow() -> None:
    found = compared([3.0, 2, 4, 3, 1], [6.0, 9, 7, 4, 8], "lower", unit="")
    assert found.verdict == "slower"
    assert advised([found]).sentence.startswith("B is worse than A in the only comparison.")
    assert "worse in the only comparison" in sentences.headline(sentences.questions([found]))


def test_a_batch_that_one_side_states_is_doubted_and_compare_begins_with_what_to_do(tmp_path: Path) -> None:
    rows = ["system,workload,shape,metric,unit,run,session,value,global_batch_size,precision"]
    for system, values, stated in (("a", MEASURED[:5], "2048,fp16"), ("b", OTHERS[:5], ",")):
        rows += [
            f"{system},w,1x8,throughput,images/s,{run},{system},{value},{stated}"
            for run, value in enumerate(values)
        ]
    sheet = tmp_path / "half.csv"
    sheet.write_text("\n".join(rows))
    where = ["--runs", str(tmp_path / "runs")]
    assert CliRunner().invoke(assay, ["import", str(sheet), *where]).exit_code == 0
    said = CliRunner().invoke(assay, ["compare", "half:a", "half:b", *where]).stdout
    assert said.startswith("Accept for now. In these two sessions, b is")
    assert "stated-once" in said
    assert "only a states global_batch_size 2048" in " ".join(said.split())


def test_the_first_line_of_the_terminal_is_the_page_s_sentence() -> None:
    from rich.console import Console

    found = compared(MEASURED, OTHERS)
    console = Console(width=400, no_color=True)
    with console.capture() as captured:
        console.print(terminal.shown([verdicts.advice([found])]))
    advice = advised([found])
    assert captured.get().startswith(f"{advice.action}. {advice.sentence}")


def test_more_runs_are_not_advised_where_the_metric_has_no_direction() -> None:
    found = compared(MEASURED[:5], [1.5 * value for value in OTHERS[:5]], None)
    advice = advised([found])
    assert advice.action == "State which direction is better"
    assert "the metric has no declared direction" in advice.sentence
