"""Bandwidths of pairs of nodes as a sweep measures them, and what makes some of them slow."""

from __future__ import annotations

import math

import numpy as np

from assay.analyse.sweeps.slow_parts import Pair
from assay.node_sweep import pair_rounds

SEED = 20260301


def matrix(nodes: int, met: int, seed: int = SEED, law: str = "normal") -> dict[Pair, list[float]]:
    """Bandwidths of about 100: nodes add 1 % of spread to their pairs, each pair has 1 % of its own."""
    random = np.random.default_rng(seed)
    draw = random.standard_normal if law == "normal" else lambda size: random.standard_t(3, size) / 3**0.5
    effects = {f"n{at}": 0.01 * effect for at, effect in enumerate(draw(nodes).tolist())}
    pairs = [(a, b) for one in pair_rounds(list(effects), met, seed=seed) for a, b in one]
    own = draw(len(pairs)).tolist()
    return {
        (a, b): [100 * math.exp(effects[a] + effects[b] + 0.01 * noise)]
        for (a, b), noise in zip(pairs, own, strict=True)
    }


def slowed(figures: dict[Pair, list[float]], node: str, to: float) -> dict[Pair, list[float]]:
    return {pair: [v * (to if node in pair else 1) for v in values] for pair, values in figures.items()}


def racks(nodes: int, of: int) -> dict[str, str]:
    return {f"n{at}": f"r{at // of}" for at in range(nodes)}


def across(
    figures: dict[Pair, list[float]], groups: dict[str, str], *slow: str, to: float = 0.5
) -> dict[Pair, list[float]]:
    """Slowed: pairs between the slow group and the others, or between the two slow groups."""

    def speed(a: str, b: str) -> float:
        return to if groups[a] != groups[b] and {*slow} <= {groups[a], groups[b]} else 1.0

    return {(a, b): [v * speed(a, b) for v in values] for (a, b), values in figures.items()}
