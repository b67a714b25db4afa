"""Many systems at once: their order, which may be the best, and how surely."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Ended

from assay.analyse.judgement import ranking_with_doubts
from assay.analyse.rankings import Ranking, rankings
from assay.cli import assay
from assay.records import Result
from assay.view.sentences import ranking as ranking_words
from stated_runs import metrics, side

TENTHS = [-0.1, 0.1, 0.0, 0.05, -0.05]


def runs_of(name: str, mean: float, shape: str = "1x8", spread: float = 1.0) -> list[Result]:
    """Five runs of a rate."""
    return side([mean + spread * off for off in TENTHS], system=name, shape=shape, interleaved=False)


def of(*sides: list[Result]) -> Ranking:
    """The one ranking of these systems."""
    (found,) = [
        ranking_with_doubts(ranked)
        for ranked in rankings({runs[0].run.trial.system: runs for runs in sides}, metrics())
    ]
    return found


def test_systems_are_in_order_in_total_and_per_accelerator() -> None:
    ranking = of(
        runs_of("small", 90, "1x8"), runs_of("large", 160, "2x8"), runs_of("other", 80, "1x8"),
        runs_of("slow", 50, "1x8"), runs_of("slower", 40, "1x8"),
    )  # fmt: skip
    assert [s.name for s in ranking.systems] == ["large", "small", "other", "slow", "slower"]
    assert [s.each.place for s in ranking.systems] == [2, 1, 3, 4, 5]
    assert [s.name for s in ranking.may_lead()] == ["large"]
    assert ranking.best("accelerator").name == "small"
    assert [s.total.group for s in ranking.systems] == [1, 2, 3, 4, 5]
    behind = ranking.systems[1].total.behind
    assert behind.low is not None
    assert behind.high is not None
    assert behind.low < 160 / 90 < behind.high


def test_systems_that_may_be_as_good_as_the_best_are_named_and_share_its_group() -> None:
    ranking = of(*(runs_of(f"s{at}", 100 - 0.01 * at) for at in range(4)), runs_of("slow", 50))
    assert [s.name for s in ranking.may_lead()] == ["s0", "s1", "s2", "s3"]
    assert [s.total.group for s in ranking.systems] == [1, 1, 1, 1, 2]
    words = ranking_words.headline(ranking)
    assert "given these runs, s1 (1x8), s2 (1x8), s3 (1x8) may be as good or better (95 % for all 5" in words
    assert words.count(". ") <= 2


def test_a_system_without_a_spread_is_in_the_order_and_in_no_test() -> None:
    alone = side([200.0], system="alone", interleaved=False, shape="1x8")
    ranking = of(alone, *(runs_of(f"s{at}", 100 - at) for at in range(4)))
    assert ranking.best().name == "alone"
    assert ranking.best().total.may_lead is None
    assert "s0" in [s.name for s in ranking.may_lead()]
    assert "its runs show no spread, so its lead is not tested" in ranking_words.headline(ranking)


def drawn(rng: random.Random, k: int, n: int, ladder: float) -> tuple[Ranking, list[float]]:
    """k systems, each of its own spread, `ladder` apart; and their true rates."""
    true = [100 * 1.01 ** (ladder * at) for at in range(k)]
    sides = {}
    for at, rate in enumerate(true):
        spread = rng.choice((0.003, 0.01, 0.03))
        values = [rate * (1 + rng.gauss(0, spread)) for _ in range(n)]
        sides[f"s{at}"] = side(values, system=f"s{at}", interleaved=False)
    (found,) = [ranking_with_doubts(ranked) for ranked in rankings(sides, metrics())]
    return found, true


def held(rng: random.Random, k: int, n: int, ladder: float) -> tuple[bool, bool]:
    """Whether the best is among those that may be, and all intervals behind the best hold."""
    ranking, true = drawn(rng, k, n, ladder)
    rate = dict(zip((f"s{at}" for at in range(k)), true, strict=True))
    best = max(rate, key=rate.__getitem__)
    right = True
    for s in ranking.systems:
        behind = max(rate[other] for other in rate if other != s.name) / rate[s.name]
        low, high = s.total.behind.low, s.total.behind.high
        right = (
            right
            and low is not None
            and high is not None
            and low <= behind * 1.0001
            and behind <= high * 1.0001
        )
    return best in [s.name for s in ranking.may_lead()], right


@pytest.mark.parametrize(
    ("sets", "k", "n"),
    [
        (60, 6, 5),
        *(
            pytest.param(400, k, n, marks=[pytest.mark.slow, pytest.mark.long])
            for k in (6, 12)
            for n in (3, 5, 10)
        ),
    ],
)
@pytest.mark.parametrize("ladder", [0.0, 1.0])
def test_the_best_is_among_those_that_may_be_and_all_intervals_hold_in_95_per_cent(
    sets: int, k: int, n: int, ladder: float
) -> None:
    rng = random.Random(f"{k} {n} {ladder}")
    found = [held(rng, k, n, ladder) for _ in range(sets)]
    assert sum(named for named, _ in found) / sets >= 0.93
    assert sum(right for _, right in found) / sets >= 0.93


def equal_systems(k: int, n: int, sets: int, rng: random.Random) -> list[Ranking]:
    """Rankings of systems that are all as good."""
    found = []
    for _ in range(sets):
        sides = [
            side([100 * math.exp(rng.gauss(0, 0.01)) for _ in range(n)], system=f"s{at}", interleaved=False)
            for at in range(k)
        ]
        found.append(of(*sides))
    return found


@pytest.mark.parametrize(
    ("k", "n", "sets"), [(10, 10, 60), pytest.param(20, 5, 400, marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_of_equal_systems_one_is_excluded_in_5_per_cent_at_most_and_the_first_says_how_flattered_it_is(
    k: int, n: int, sets: int
) -> None:
    made = equal_systems(k, n, sets, random.Random(f"{k} {n}"))
    assert sum(len(ranking.may_lead()) < k for ranking in made) <= 0.05 * sets + 2 * math.sqrt(0.0475 * sets)
    too_good = [ranking.systems[0].value.value / 100 - 1 for ranking in made]
    stated = [ranking.flattered for ranking in made]
    assert sum(stated) / sets == pytest.approx(sum(too_good) / sets, rel=0.2)
    assert f"it looks up to {100 * stated[0]:.2g} % too good on average" in ranking_words.headline(made[0])


def test_a_first_that_no_other_equals_is_not_flattered() -> None:
    ranking = of(runs_of("first", 200), *(runs_of(f"s{at}", 100 - at) for at in range(4)))
    assert [s.name for s in ranking.may_lead()] == ["first"]
    assert ranking.flattered == 0
    assert "too good" not in ranking_words.headline(ranking)


def sheet(path: Path, systems: int) -> Path:
    """A spreadsheet of this many systems with names that are too long for a column."""
    rows = ["system,metric,run,value,shape,unit,better"]
    for at in range(systems):
        name = f"{chr(97 + at)}-system-with-a-name-that-no-column-of-a-terminal-holds"
        rows += [f"{name},time,{run},{100 + 10 * at + off},1x8,s,lower" for run, off in enumerate(TENTHS, 1)]
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def six_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """The command, where `round` holds six systems without a baseline."""
    monkeypatch.chdir(tmp_path)
    sheet(tmp_path / "round.csv", 6)

    def run(*words: str, **how: Any) -> Ended:
        return CliRunner().invoke(assay, words, **how)

    assert run("import", "round.csv").exit_code == 0
    return run


def test_many_imported_systems_are_ranked_and_a_named_baseline_is_compared_with(
    six_systems: Callable[..., Ended],
) -> None:
    told = six_systems("compare", "round", env={"COLUMNS": "100"})
    assert told.exit_code == 0, told.output
    assert "has the shortest time of 6 systems" in " ".join(told.output.split())
    assert "a-system-with-a-" in told.output
    assert max(map(len, told.output.splitlines())) <= 100
    document = json.loads(six_systems("compare", "round", "--json").output)
    (ranking,) = document["rankings"]
    assert [s["total"]["place"] for s in ranking["systems"]] == [1, 2, 3, 4, 5, 6]
    shown = six_systems("show", "round").output
    assert "has the shortest time of 6 systems" in " ".join(shown.split())
    assert json.loads(six_systems("show", "round", "--json").output)["rankings"] == [ranking]
    baseline = ranking["systems"][2]["name"]
    paired = json.loads(six_systems("compare", "round", "--baseline", baseline, "--json").output)
    assert {c["a"] for c in paired["comparisons"]} == {baseline}
    unknown = six_systems("compare", "round", "--baseline", "z")
    assert "--baseline z: not a system of round" in str(unknown.exception or unknown.output)


def test_a_page_of_many_systems_begins_with_rankings_and_has_whole_names_as_titles(
    six_systems: Callable[..., Ended], tmp_path: Path
) -> None:
    told = six_systems("report", "round", "-o", "page.html")
    assert told.exit_code == 0, told.output
    page = (tmp_path / "page.html").read_text()
    assert "6 systems, ranked by benchmark" in page
    assert "numbers time: 6 systems in order" in page
    assert " compared with a-system" not in page
    assert '<span title="f-system-with-a-name-that-no-column-of-a-terminal-holds">f-system-with-a-na…' in page
    markdown = six_systems("report", "round", "--format", "markdown", "-o", "-").output
    assert "Choose from the rankings" in markdown
    assert "numbers time: 6 systems in order" in markdown


@pytest.mark.long
def test_a_page_of_many_systems_compares_with_a_baseline_that_is_named(
    six_systems: Callable[..., Ended], tmp_path: Path
) -> None:
    names = [f"{letter}-system-with-a-name-that-no-column-of-a-terminal-holds" for letter in "abcdef"]
    ranked = json.loads(six_systems("report", "round", "-o", "page.html", "--json").output)
    assert [[s["name"] for s in ranking["systems"]] for ranking in ranked["rankings"]] == [names]
    words = ["report", "round", "-o", "page.html", "--json", "--baseline"]
    paired = json.loads(six_systems(*words, names[3]).output)
    assert paired["rankings"] == []
    page = (tmp_path / "page.html").read_text()
    assert [name for name in names if f" compared with {name}" in page] == [names[3]]
    unknown = six_systems(*words, "z")
    assert "--baseline: there is no system z; choose from a-system" in str(unknown.exception)


def test_no_best_is_named_while_systems_with_zeros_are_not_ranked() -> None:
    counts = {
        "good": [0, 0, 0, 1],
        "s3": [3, 4, 3, 4],
        "s4": [5, 6, 5, 6],
        "s5": [9, 8, 9, 9],
        "s6": [11, 12, 10, 12],
    }
    ranking = of(
        *(side([*map(float, values)], system=name, interleaved=False) for name, values in counts.items())
    )
    assert ranking.best() is None
    assert [(s.name, s.value.value, s.reason) for s in ranking.not_ranked] == [
        ("good", 0.25, "3 of 4 values are not above 0")
    ]
    assert {s.total.may_lead for s in ranking.systems} <= {None, False}
    words = ranking_words.headline(ranking)
    assert "which system has the highest throughput is unknown: good (1x1): 3 of 4 values are" in words
    assert "no other system is the best" not in words
    (plain,) = ranking_words.plain([ranking])
    assert plain["best"] is None
    assert plain["not_ranked"][0]["name"] == "good"
    rows = ranking_words.table(ranking).bodies[0].rows
    assert [row.cells[:2] for row in rows][-1] == ("–", "good")
    assert "1 not ranked" in ranking_words.table(ranking).caption


def test_a_ranking_of_systems_that_all_have_zeros_names_them_all() -> None:
    ranking = of(*(side([0.0, 1.0], system=f"s{at}", interleaved=False) for at in range(5)))
    assert ranking.systems == ()
    assert "5 systems of 5 are not ranked" in ranking_words.headline(ranking)
    assert "s0" in ranking_words.headline(ranking)


def test_copies_are_named_before_the_best() -> None:
    copied = [10.123, 10.231, 10.174, 10.317, 10.086]
    others = [runs_of(f"s{at}", 8 - at, spread=0.731) for at in range(4)]
    ranking = of(
        *(side(copied, system=name, interleaved=False, shape="1x8") for name in ("one", "two")), *others
    )
    assert [doubt.code for doubt in ranking.doubts] == ["copied-values"]
    words = ranking_words.headline(ranking)
    assert words.startswith("train: fix before you choose: copied-values: the 10 runs of one (1x8) and two")
    assert words.index("copied-values") < words.index("has the highest")
    (plain,) = ranking_words.plain([ranking])
    assert plain["doubts"][0]["code"] == "copied-values"


def test_percentages_of_a_whole_are_named_before_the_best() -> None:
    levels = (99.9, 99.5, 99.0, 98.9, 98.8)
    ranking = of(
        *(
            side(
                [level + 0.01 * off for off in TENTHS],
                system=f"s{at}",
                unit="%",
                interleaved=False,
            )
            for at, level in enumerate(levels)
        )
    )
    assert "share-of-whole" in ranking_words.headline(ranking).partition("has the")[0]


def test_how_far_a_system_is_behind_has_the_digits_of_its_interval() -> None:
    ranking = of(*(runs_of(f"s{at}", 100 - 0.1 * at, spread=0.1) for at in range(5)))
    behind = [row.cells[5] for row in ranking_words.table(ranking).bodies[0].rows]
    sure = [cell for s, cell in zip(ranking.systems, behind, strict=True) if s.total.may_lead is False]
    assert sure
    assert all(cell.startswith((">1.", "1.0")) and not cell.startswith("1.00 ") for cell in sure)
    assert "1.00 to 1.00" not in behind


def test_systems_that_are_surely_equal_may_all_be_the_best() -> None:
    values = [100.0, 101.0, 99.0]
    ranking = of(*(side(values, system=f"s{at}") for at in range(5)))
    assert all(s.total.may_lead for s in ranking.systems)


def test_rankings_of_several_labels_say_which_they_are_of() -> None:
    sides: dict[str, list[Result]] = {}
    for at in range(5):
        for dataset in "AB":
            sides.setdefault(f"s{at}", []).extend(
                side(
                    [100.0 - at + off for off in TENTHS],
                    system=f"s{at}",
                    labels={"dataset": dataset},
                    interleaved=False,
                )
            )
    found = [ranking_with_doubts(ranked) for ranked in rankings(sides, metrics())]
    assert [ranking_words.headline(r).partition(":")[0] for r in found] == [
        "train (dataset A)",
        "train (dataset B)",
    ]
    assert ranking_words.table(found[0]).caption.startswith("train (dataset A) throughput")
    assert [r["labels"] for r in ranking_words.plain(found)] == [{"dataset": "A"}, {"dataset": "B"}]
