"""A slow node, a slow link and a slow rack are told apart; what the rounds can't tell is said."""

from __future__ import annotations

import math

import pytest

from assay.analyse.sweeps.links import blame
from assay.analyse.sweeps.slow_parts import Pair
from pair_matrices import across, matrix, racks, slowed


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


@pytest.mark.parametrize("nodes", [6, 8])
def test_where_few_pairs_are_left_to_separate_links_from_nodes_a_link_at_half_is_found(nodes: int) -> None:
    figures = matrix(nodes, 3)
    pair = list(figures)[1]
    seen = blame(figures | {pair: [50.0]}, "higher")
    assert [slow.who for slow in seen.links] == [pair]
    assert (seen.nodes, seen.pairs) == ((), ())


def test_a_node_that_is_fast_with_two_of_its_five_partners_is_not_blamed_but_its_slow_links_are() -> None:
    figures = matrix(64, 5)
    slow = [pair for pair in figures if "n7" in pair][:3]
    seen = blame(figures | {pair: [85.0 * value / 100 for value in figures[pair]] for pair in slow}, "higher")
    assert {part.who for part in seen.links} == {*slow}
    assert (seen.groups, seen.nodes, seen.pairs) == ((), (), ())


def test_a_node_that_one_of_ten_partners_contradicts_is_blamed_nevertheless() -> None:
    figures = slowed(matrix(64, 10), "n7", 0.8)
    fast = next(pair for pair in figures if "n7" in pair)
    assert [slow.who for slow in blame(figures | {fast: [100.0]}, "higher").nodes] == [("n7",)]


def test_a_node_that_is_slow_with_two_partners_of_two_may_be_slow_or_its_links() -> None:
    seen = blame(slowed(matrix(16, 2), "n7", 0.5), "higher")
    assert [slow.one_of for slow in seen.pairs] == [("n7",), ("n7",)]
    assert (seen.nodes, seen.links) == ((), ())
    assert "the cause may be the node or its links; 3 rounds can distinguish them" in seen.untold[0]


@pytest.mark.parametrize("of", [4, 8])
def test_of_three_racks_the_one_with_a_slow_uplink_is_blamed_after_five_rounds(of: int) -> None:
    groups = racks(3 * of, of)
    for seed in range(10):
        seen = blame(across(matrix(3 * of, 5, seed), groups, "r1"), "higher", groups=groups)
        assert [slow.who for slow in seen.groups] == [("r1",)]
        assert (seen.together, seen.nodes, seen.links, seen.pairs) == ((), (), (), ())


def test_the_way_between_two_racks_is_one_cause_and_neither_rack_is_blamed() -> None:
    groups = racks(24, 8)
    seen = blame(across(matrix(24, 5), groups, "r0", "r1"), "higher", groups=groups)
    assert [slow.who for slow in seen.groups] == [("r0", "r1")]
    assert (seen.together, seen.nodes, seen.links, seen.pairs) == ((), (), (), ())


def test_nodes_of_an_unknown_rack_are_one_set_with_those_that_met_none_of_it() -> None:
    groups = racks(64, 8)
    for seed in range(10):
        seen = blame(across(matrix(64, 5, seed), groups, "r2"), "higher")
        (side,) = seen.together
        assert {*side.who} == {node for node, rack in groups.items() if rack == "r2"}
        assert {*side.one_of} <= {*side.who}
        assert (seen.nodes, seen.links, seen.pairs) == ((), (), ())


def test_four_slow_nodes_that_never_met_may_share_something_and_three_are_slow_nodes() -> None:
    figures = matrix(64, 3)
    apart: list[str] = []
    for pair in figures:
        if not any({pair[0], node} in map(set, figures) for node in apart):
            apart.append(pair[0])
    for node in apart[:3]:
        figures = slowed(figures, node, 0.7)
    assert {slow.who for slow in blame(figures, "higher").nodes} == {(node,) for node in apart[:3]}
    (side,) = blame(slowed(figures, apart[3], 0.7), "higher").together
    assert side.who == side.one_of == tuple(sorted(apart[:4]))


def test_slow_nodes_of_different_racks_share_nothing() -> None:
    figures, groups = matrix(64, 3), racks(64, 8)
    for node in ("n1", "n9", "n17", "n25"):
        figures = slowed(figures, node, 0.7)
    seen = blame(figures, "higher", groups=groups)
    assert {slow.who[0] for slow in seen.nodes} == {"n1", "n9", "n17", "n25"}
    assert seen.together == ()


def test_two_slow_nodes_that_were_slow_with_each_other_are_two_slow_nodes() -> None:
    figures = matrix(64, 5)
    a, b = next(iter(figures))
    seen = blame(slowed(slowed(figures, a, 0.7), b, 0.7), "higher")
    assert ({slow.who[0] for slow in seen.nodes}, seen.together) == ({a, b}, ())


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
        (a, b): [v * (0.96 if (groups[a] == "r2") != (groups[b] == "r2") else 1) for v in values]
        for (a, b), values in matrix(64, 20).items()
    }
    assert blame(figures, "higher", groups=groups, margin=0.06).groups == ()
    assert blame(figures, "higher", groups=groups).groups != ()


def test_two_racks_share_every_pair_between_them_and_neither_is_blamed() -> None:
    groups = racks(16, 8)
    seen = blame(matrix(16, 5), "higher", groups=groups)
    assert seen.groups == ()
    assert "groups: 2 have pairs with others; 3 are needed to identify a slow one" in seen.untold


def test_after_one_round_a_slow_pair_may_be_either_node_or_the_link() -> None:
    figures = matrix(64, 1)
    pair = list(figures)[10]
    seen = blame(figures | {pair: [30.0]}, "higher")
    assert [(slow.who, slow.one_of) for slow in seen.pairs] == [(pair, pair)]
    assert (seen.nodes, seen.links) == ((), ())


def test_after_two_rounds_a_pair_of_nodes_that_are_fast_with_others_is_a_slow_link() -> None:
    figures = matrix(64, 2)
    pair = list(figures)[10]
    seen = blame(figures | {pair: [30.0]}, "higher")
    assert [slow.who for slow in seen.links] == [pair]
    assert (seen.nodes, seen.pairs) == ((), ())


def test_the_one_pair_of_two_nodes_is_not_judged() -> None:
    seen = blame({("a", "b"): [10.0, 11.0]}, "higher")
    assert (seen.pairs, seen.nodes, seen.links) == ((), (), ())
    assert "pairs: there are 1; from 8 on, slow ones can be identified" in seen.untold


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
