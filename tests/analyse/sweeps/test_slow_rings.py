"""A ring is as fast as its slowest pair, or what its links share is slow."""

from __future__ import annotations

import math
import random

import pytest

from assay.analyse.sweeps.nodes import BORNE, slow_rings
from assay.analyse.sweeps.verdicts import SweepFigure, SweepSession, judged_rings
from assay.records import Point

RACK = ("a", "b", "c", "d")
PAIRS = {("a", "b"): [10.0, 10.1, 9.9], ("c", "d"): [8.0, 8.1, 7.9], ("b", "x"): [1.0, 1.1, 0.9]}
POINT = Point("allreduce", "2x1x2", "busbw", "B/s", "higher", {})


def test_a_ring_is_held_against_the_slowest_pair_within_it() -> None:
    (ring,) = slow_rings({RACK: [7.0, 7.1, 6.9]}, PAIRS, "higher", names={RACK: "rack 1"})
    assert (ring.name, ring.slowest, ring.slower) == ("rack 1", ("c", "d"), False)
    assert ring.ratio is not None
    assert ring.ratio.value == pytest.approx(7 / 8, rel=0.01)


def test_a_ring_that_lost_half_is_slow_by_times_as_by_rates() -> None:
    times = {pair: [1 / value for value in values] for pair, values in PAIRS.items()}
    (by_rate,) = slow_rings({RACK: [4.0, 4.1, 3.9]}, PAIRS, "higher", names={RACK: ""})
    (by_time,) = slow_rings({RACK: [1 / 4, 1 / 4.1, 1 / 3.9]}, times, "lower", names={RACK: ""})
    assert (by_rate.slower, by_time.slower) == (True, True)


def test_a_ring_of_which_nothing_is_known_is_not_judged() -> None:
    unmet, once = ("p", "q", "r"), ("a", "b", "x")
    found = slow_rings({unmet: [1.0], once: [0.1]}, PAIRS, "higher", names={unmet: "", once: ""})
    assert [ring.slower for ring in found] == [False, False]
    assert found[0].reason == "no two of its nodes were measured as a pair"
    assert (found[0].ratio, found[1].reason) == (None, "B has only one run, so its spread is unknown")
    with pytest.raises(ValueError, match="all must be above 0"):
        slow_rings({RACK: [0.0]}, PAIRS, "higher", names={RACK: ""})


def test_of_sweeps_whose_rings_lose_no_more_than_is_borne_at_most_one_in_twenty_names_any() -> None:
    drawn = random.Random(1)
    racks = [tuple(f"r{rack}n{node}" for node in range(8)) for rack in range(6)]

    def runs(speed: float) -> list[float]:
        return [speed * math.exp(drawn.gauss(0, 0.02)) for _ in range(3)]

    named = 0
    for _ in range(200):
        pairs = {(nodes[at], nodes[at + 1]): runs(10.0) for nodes in racks for at in range(0, 8, 2)}
        rings = {nodes: runs(10.0 * (1 - BORNE)) for nodes in racks}
        names = dict.fromkeys(racks, "")
        named += any(ring.slower for ring in slow_rings(rings, pairs, "higher", names=names))
    assert named <= 18, "at 5 %, more than 18 of 200 come by chance in 1 of 200 seeds"


def test_rings_of_a_sweep_are_named_by_what_their_nodes_share() -> None:
    def measured(values: dict[tuple[str, ...], list[float]]) -> SweepSession:
        hosts = {"--".join(nodes): nodes for nodes in values}
        figure = SweepFigure(POINT, "higher", {name: values[nodes] for name, nodes in hosts.items()})
        return SweepSession("", {"allreduce": figure}, hosts)

    pairs = measured({("a", "b"): [10.0, 9.9], ("b", "c"): [10.0, 9.9], ("d", "e"): [10.0, 9.9]})
    rings = [
        measured({("a", "b", "c"): [9.0, 9.1]}),
        measured({tuple("abcde"): [3.0, 3.1]}),
    ]
    zones = {"a": "east", "b": "east", "c": "east", "d": "west", "e": "west"}
    found = judged_rings(rings, pairs, zones)
    assert [(ring.name, ring.slower) for ring in found] == [("east", False), ("all 5 nodes", True)]
    assert [ring.name for ring in judged_rings(rings, pairs, {})] == ["all 3 nodes", "all 5 nodes"]
