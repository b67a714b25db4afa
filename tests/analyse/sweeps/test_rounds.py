"""Rounds of pairs: in each a node has one partner, over all of them each two meet once."""

from __future__ import annotations

import doctest
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cluster import sweep
from assay.cluster.sweep import each_alone, pair_rounds

names = st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=30)


@given(names, st.integers(0, 5))
def test_every_two_nodes_meet_once_and_nobody_has_two_partners_at_a_time(nodes: list[str], seed: int) -> None:
    met: list[frozenset[str]] = []
    for one in pair_rounds(nodes, seed=seed):
        busy = [node for pair in one for node in pair]
        assert len(busy) == len(set(busy))
        assert len(nodes) - len(busy) <= 1
        met += map(frozenset, one)
    assert sorted(map(sorted, met)) == sorted(sorted(pair) for pair in combinations(nodes, 2))


@given(st.integers(0, 9))
def test_an_odd_one_rests_and_never_the_same_twice(seed: int) -> None:
    nodes = ["a", "b", "c", "d", "e"]
    resting = [set(nodes) - {n for pair in one for n in pair} for one in pair_rounds(nodes, seed=seed)]
    assert sorted(min(rest) for rest in resting) == nodes


def test_the_same_seed_gives_the_same_rounds_and_another_gives_others() -> None:
    nodes = [f"node-{number}" for number in range(100)]
    first = [*pair_rounds(nodes, 3, seed=1)]
    assert first == [*pair_rounds(nodes, 3, seed=1)]
    assert first != [*pair_rounds(nodes, 3, seed=2)]


def test_more_rounds_than_there_are_and_a_node_named_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 3 rounds"):
        pair_rounds(["a", "b", "c", "d"], 4)
    with pytest.raises(ValueError, match="listed twice: a"):
        each_alone(["a", "b", "a"])


def test_the_examples_hold() -> None:
    assert doctest.testmod(sweep).failed == 0
