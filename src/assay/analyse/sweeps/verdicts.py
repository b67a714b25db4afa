"""The verdicts on a whole sweep: its nodes, its pairs and its rings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.analyse.sweeps.figures import (
    BORNE_BEFORE,
    Figures,
    Nodes,
    Pairs,
    SweepSession,
    judged_nodes,
    judged_pairs,
    judged_rings,
)
from assay.analyse.sweeps.rings import Ring
from assay.analyse.sweeps.suspects import Suspect, suspects


@dataclass(frozen=True)
class SweepVerdicts:
    """What is slow in a sweep.

    margin  tolerated loss relative to a baseline, as a share
    hosts   system, whose name stands for a node measured alone → the node, as the only entry of a list
    """

    nodes: Sequence[Nodes]
    pairs: Pairs | None
    rings: Sequence[Ring]
    margin: float
    hosts: Mapping[str, Sequence[str]]

    @property
    def slow(self) -> bool:
        """Whether anything is reported as slow."""
        blame = None if self.pairs is None else self.pairs.blame
        blamed = blame is not None and blame.parts
        nodes = any(measurement.slow or measurement.slow_group for measurement in self.nodes)
        return bool(blamed) or nodes or any(ring.slower for ring in self.rings)

    @property
    def judged(self) -> bool:
        """Whether every measurement of the nodes could be judged."""
        return all(measurement.judged for measurement in self.nodes)

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """The slow nodes with everything they are slow in, the slowest first."""
        return suspects(self.nodes, self.pairs, self.hosts)

    @property
    def losses(self) -> dict[str, dict[str, float]]:
        """Slow node → what it is slow in, and how; the slowest first."""
        return {suspect.node: suspect.losses for suspect in self.suspects}


def judge_sweep(
    nodes: SweepSession | None,
    pairs: SweepSession | None,
    rings: Sequence[SweepSession],
    *,
    hosts: Mapping[str, Sequence[str]],
    groups: Mapping[str, str] | None = None,
    nodes_before: Figures | None = None,
    pairs_before: Figures | None = None,
    margin: float = BORNE_BEFORE,
) -> SweepVerdicts:
    """What the sessions of a sweep show as slow; rings only together with pairs.

    hosts         system, whose name stands for a node measured alone → the node, as the only entry of a list
    groups        node → what it shares with others, which can be the common cause
    nodes_before  of a baseline, for nodes that are too few to compare with each other; also `pairs_before`
    margin        tolerated loss relative to it, as a share

    Raises InputError for a baseline that does not match.
    """
    shared = groups or {}
    return SweepVerdicts(
        nodes=judged_nodes(nodes, nodes_before, margin) if nodes else [],
        pairs=judged_pairs(pairs, shared or None, before=pairs_before, margin=margin) if pairs else None,
        rings=judged_rings(rings, pairs, shared) if pairs else (),
        margin=margin,
        hosts=hosts,
    )
