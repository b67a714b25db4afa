"""How often a matrix of pairs blames what is slow, and how often anything else, as stated."""

from __future__ import annotations

import math

import pytest

from assay.analyse.sweeps.links import blame
from assay.analyse.sweeps.slow_parts import Pair
from conftest import long_rows_but, tries
from pair_matrices import across, matrix, racks, slowed

WRONG = 0.05
LAWS = ("normal", "t3")


def spread(share: float, times: int) -> float:
    """Three standard deviations of a share that was seen in so many simulations."""
    return 3 * math.sqrt(share * (1 - share) / times)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("nodes", "met", "of"),
    long_rows_but(
        2,
        [
            *((16, 3, 0), (12, 5, 4)),
            *((4, 3, 0), (8, 3, 0), (16, 7, 0), (24, 5, 8), (32, 5, 8), (64, 3, 0), (64, 5, 0), (64, 5, 16)),
        ],
    ),
)
def test_in_a_healthy_matrix_anything_is_named_no_more_often_than_stated(
    law: str, nodes: int, met: int, of: int
) -> None:
    times, groups = tries(200), racks(nodes, of) if of else None
    named = sum(
        bool(blame(matrix(nodes, met, seed, law), "higher", groups=groups).parts) for seed in range(times)
    )
    assert named / times <= WRONG + spread(WRONG, times)


Matrix = dict[Pair, list[float]]


def with_fault(kind: str, figures: Matrix, groups: dict[str, str]) -> tuple[Matrix, tuple[str, ...]]:
    """The matrix when something lost a fifth, and the name of that."""
    if kind == "node":
        return slowed(figures, "n1", 0.8), ("n1",)
    if kind == "link":
        pair = list(figures)[1]
        return figures | {pair: [0.8 * value for value in figures[pair]]}, pair
    behind = tuple(sorted(node for node, rack in groups.items() if rack == "r1"))
    return across(figures, groups, "r1", to=0.8), ("r1",) if kind == "uplink" else behind


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("kind", "nodes", "met", "of", "stated"),
    long_rows_but(
        4,
        [
            ("node", 16, 3, 0, 0.95),
            ("link", 16, 7, 0, 0.95),
            ("uplink", 12, 5, 4, 0.9),
            ("uplink of an unknown rack", 64, 3, 8, 0.9),
            ("node", 8, 3, 0, 0.95),
            ("node", 64, 3, 0, 0.95),
            ("node", 64, 5, 16, 0.95),
            ("link", 16, 3, 0, 0.8),
            ("link", 64, 5, 0, 0.9),
            ("uplink", 24, 5, 8, 0.95),
            ("uplink", 64, 5, 16, 0.95),
            ("uplink of an unknown rack", 32, 5, 8, 0.7),
            ("uplink of an unknown rack", 64, 5, 8, 0.9),
        ],
    ),
)
def test_what_lost_a_fifth_is_named_as_often_as_stated_and_anything_else_seldom(
    kind: str, nodes: int, met: int, of: int, stated: float, law: str
) -> None:
    times, right, wrong = tries(60), 0, 0
    groups = racks(nodes, of) if of else {}
    known = groups if groups and "unknown" not in kind else None
    for seed in range(times):
        healthy = matrix(nodes, met, seed, law)
        figures, guilty = with_fault(kind, healthy, groups)
        seen = blame(figures, "higher", groups=known)
        named = {part.who for part in (*seen.groups, *seen.together, *seen.nodes, *seen.links)}
        right += guilty in named
        wrong += bool(named - {guilty} - {pair for pair in figures if figures[pair] != healthy[pair]})
    assert right / times >= stated - spread(stated, times)
    assert wrong / times <= WRONG + spread(WRONG, times)
