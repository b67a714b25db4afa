"""Pairs that are slower than before blame a node, a link, or say that they can't tell."""

from __future__ import annotations

import random
from itertools import combinations

from assay.analyse.sweeps.slow_parts import Pair
from assay.analyse.sweeps.verdicts import pairs_before

SIX = [*combinations("abcdef", 2)]


def drawn(pairs: list[Pair], seed: int, **losses: float) -> dict[Pair, list[float]]:
    """Three runs of each pair at a spread of 3 %; `a=0.5`: all of a's pairs lose half, `ab` this one."""
    order = random.Random(seed)
    found = {}
    for pair in pairs:
        speed = 100.0
        for name, loss in losses.items():
            if {*name} <= {*pair}:
                speed = min(speed, 100 * (1 - loss))
        found[pair] = [speed * (1 + order.gauss(0, 0.03)) for _ in range(3)]
    return found


def blamed(pairs: list[Pair], **losses: float) -> tuple[list[str], list[str], list[str]]:
    _, found = pairs_before(drawn(pairs, 1, **losses), drawn(pairs, 2), "higher", 0.05)
    return tuple(["".join(sorted(s.who)) for s in slows] for slows in (found.nodes, found.links, found.pairs))  # type: ignore[return-value]


def test_a_node_slow_with_all_a_link_between_two_and_both_at_once_are_told_apart() -> None:
    assert blamed(SIX, b=0.6) == (["b"], [], [])
    assert blamed(SIX, de=0.6) == ([], ["de"], [])
    assert blamed(SIX, b=0.6, c=0.8, de=0.7) == (["c", "b"], ["de"], [])


def test_the_one_pair_of_two_nodes_can_not_tell_which() -> None:
    changes, found = pairs_before(
        {("a", "b"): [50.0, 51, 49]}, {("a", "b"): [100.0, 101, 99]}, "higher", 0.05
    )
    assert [(change.node, change.slower) for change in changes] == [("a – b", True)]
    assert (found.nodes, found.links, [slow.who for slow in found.pairs]) == ((), (), [("a", "b")])
    assert found.pairs[0].one_of == ("a", "b")


def test_what_a_slow_node_explains_names_no_other_whose_pairs_it_is_in() -> None:
    few = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c")]
    assert blamed(few, a=0.5, bc=0.5) == (["a"], [], ["bc"])


def test_of_six_healthy_nodes_anything_is_blamed_in_at_most_five_per_cent() -> None:
    named = 0
    for seed in range(0, 800, 2):
        _, found = pairs_before(drawn(SIX, seed), drawn(SIX, seed + 1), "higher", 1e-6)
        named += bool(found.nodes or found.links or found.pairs)
    assert named <= 31  # of 400; at 5 % more come in 1 of 100 cases
