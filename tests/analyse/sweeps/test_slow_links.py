"""A slow node, a slow link and a slow rack are told apart; what the rounds can't tell is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.analyse.sweeps.links import Pair, blame
from assay.cluster import rounds
from conftest import long_rows_but, tries

SEED = 20260301


def matrix(nodes: int, met: int, seed: int = SEED, law: str = "normal") -> dict[Pair, list[float]]:
    """Bandwidths of about 100: nodes add 1 % of spread to their pairs, each pair has 1 % of its own."""
    random = np.random.default_rng(seed)
    draw = random.standard_normal if law == "normal" else lambda size: random.standard_t(3, size) / 3**0.5
    effects = {f"n{at}": 0.01 * effect for at, effect in enumerate(draw(nodes).tolist())}
    pairs = [(a, b) for one in rounds.pairs(list(effects), met, seed=seed) for a, b in one]
    own = draw(len(pairs)).tolist()
    return {
        (a, b): [100 * math.exp(effects[a] + effects[b] + 0.01 * noise)]
        for (a, b), noise in zip(pairs, own, strict=True)
    }


def slowed(figures: dict[Pair, list[float]], node: str, to: float) -> dict[Pair, list[float]]:
    return {pair: [v * (to if node in pair else 1) for v in values] for pair, values in figures.items()}


def racks(nodes: int, of: int) -> dict[str, str]:
    return {f"n{at}": f"r{at // of}" for at in range(nodes)}


@pytest.mark.parametrize("law", ["normal", "t3"])
@pytest.mark.parametrize(
    ("nodes", "met", "of"), long_rows_but(2, [(16, 3, 0), (64, 5, 8), (16, 4, 0), (64, 5, 0)])
)
def test_in_a_healthy_matrix_nothing_is_blamed_more_often_than_stated(
    law: str, nodes: int, met: int, of: int
) -> None:
    times, named = tries(200), 0
    for seed in range(times):
        seen = blame(matrix(nodes, met, seed, law), "higher", groups=racks(nodes, of) if of else None)
        named += bool(seen.groups or seen.nodes or seen.links)
    assert named / times < 0.05 + 3 * math.sqrt(0.05 * 0.95 / times)


def test_a_node_that_is_slow_with_every_partner_is_blamed_and_its_links_are_not() -> None:
    figures = matrix(64, 5)
    seen = blame(slowed(figures, "n7", 0.6), "higher")
    assert [(slow.who, round(slow.ratio, 1)) for slow in seen.nodes] == [(("n7",), 0.6)]
    assert (seen.groups, seen.links) == ((), ())
    assert "5 links of slow nodes: they can't be faster than their nodes" in seen.untold


def test_a_link_that_is_slow_between_two_healthy_nodes_is_blamed_alone() -> None:
    figures = matrix(64, 5)
    pair = list(figures)[40]
    seen = blame(figures | {pair: [60.0]}, "higher")
    assert [slow.who for slow in seen.links] == [pair]
    assert (seen.groups, seen.nodes) == ((), ())


def test_a_link_that_lost_a_fifth_is_found_however_heavy_the_tails_are() -> None:
    found = 0
    for seed in range(40):
        figures = matrix(16, 7, seed, "t3")
        pair = list(figures)[seed]
        seen = blame(figures | {pair: [0.8 * value for value in figures[pair]]}, "higher")
        found += [slow.who for slow in seen.links] == [pair]
    assert found >= 38


def test_links_that_the_rounds_do_not_separate_from_their_nodes_are_not_judged() -> None:
    seen = blame(matrix(8, 3), "higher")
    assert seen.links == ()
    assert seen.link_loss is None
    assert seen.node_loss is not None
    assert (
        "links: 12 pairs separate 4 links from their nodes; at least 8 are needed: run more rounds"
        in seen.untold
    )


def test_a_node_and_a_link_elsewhere_are_found_beside_each_other() -> None:
    figures = matrix(64, 5)
    pair = next(pair for pair in figures if "n7" not in pair)
    seen = blame(slowed(figures, "n7", 0.6) | {pair: [60.0]}, "higher")
    assert [slow.who for slow in (*seen.nodes, *seen.links)] == [("n7",), pair]


def test_times_are_blamed_as_rates_are() -> None:
    figures = slowed(matrix(64, 5), "n7", 0.6)
    times = {pair: [1 / value for value in values] for pair, values in figures.items()}
    by_rate, by_time = blame(figures, "higher"), blame(times, "lower")
    assert by_time.nodes[0].ratio == pytest.approx(by_rate.nodes[0].ratio)


def test_an_uplink_is_blamed_rather_than_the_nodes_behind_it() -> None:
    groups = racks(64, 8)
    figures = {
        (a, b): [v * (0.8 if (groups[a] == "r2") != (groups[b] == "r2") else 1) for v in values]
        for (a, b), values in matrix(64, 20).items()
    }
    seen = blame(figures, "higher", groups=groups)
    assert [slow.who for slow in seen.groups] == [("r2",)]
    assert seen.groups[0].ratio == pytest.approx(0.8, abs=0.02)
    assert (seen.nodes, seen.links) == ((), ())
    assert seen.untold == ("group r2: not slow within, so the cause is somewhere on its way to the others",)


def test_a_rack_that_is_slow_within_too_is_told_from_a_slow_uplink() -> None:
    groups = racks(64, 8)
    figures = {
        (a, b): [v * (0.8 if "r2" in (groups[a], groups[b]) else 1) for v in values]
        for (a, b), values in matrix(64, 20).items()
    }
    seen = blame(figures, "higher", groups=groups)
    assert [slow.who for slow in seen.groups] == [("r2",)]
    assert seen.untold == ("group r2: slow within, too; its switch or all its nodes",)


def test_racks_that_differ_by_less_than_the_margin_are_not_blamed() -> None:
    groups = racks(64, 8)
    figures = {
        (a, b): [v * (0.985 if (groups[a] == "r2") != (groups[b] == "r2") else 1) for v in values]
        for (a, b), values in matrix(64, 9).items()
    }
    assert blame(figures, "higher", groups=groups).groups == ()
    assert blame(figures, "higher", groups=groups, margin=0.005).groups != ()


def test_two_racks_share_every_pair_between_them_and_neither_is_blamed() -> None:
    groups = racks(16, 8)
    seen = blame(matrix(16, 5), "higher", groups=groups)
    assert seen.groups == ()
    assert "groups: 2 have pairs with others; 3 are needed to identify a slow one" in seen.untold


def test_with_two_rounds_a_slow_pair_is_named_and_neither_node_nor_link_blamed() -> None:
    figures = matrix(64, 2)
    pair = list(figures)[10]
    seen = blame(figures | {pair: [30.0]}, "higher")
    assert [slow.who for slow in seen.pairs] == [pair]
    assert (seen.nodes, seen.links) == ((), ())
    assert seen.untold == (
        "a node has 2 partners: a slow pair may be due to either of its nodes or the link; 3 rounds can "
        "distinguish them",
    )


def test_the_one_pair_of_two_nodes_is_not_judged() -> None:
    seen = blame({("a", "b"): [10.0, 11.0]}, "higher")
    assert (seen.pairs, seen.nodes, seen.links) == ((), (), ())
    assert seen.untold[0] == "there are 1; from 8 on, slow ones can be identified"


def test_a_matrix_without_pairs_says_so() -> None:
    assert blame({}, "higher").untold == ("no pair was measured",)


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({("a", "a"): [1.0]}, "not a pair"),
        ({("a", "b"): [1.0], ("b", "a"): [1.0]}, "a duplicate"),
        ({("a", "b"): []}, "the values are"),
        ({("a", "b"): [0.0]}, "the values are"),
        ({("a", "b"): [math.nan]}, "the values are"),
    ],
)
def test_what_is_no_pair_or_no_figure_is_an_error(figures: dict[Pair, list[float]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        blame(figures, "higher")


def test_a_node_without_group_is_an_error() -> None:
    with pytest.raises(ValueError, match="n15 has no group"):
        blame(matrix(16, 3), "higher", groups=racks(15, 5))
