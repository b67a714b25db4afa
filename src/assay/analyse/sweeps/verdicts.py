"""What a sweep measured by node and by pair, and which nodes, links, switches and rings are slow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from assay.analyse.points.groups import group
from assay.analyse.sweeps.links import blame
from assay.analyse.sweeps.nodes import (
    BaselineChange,
    Crowd,
    NodeGroup,
    Ring,
    slow_nodes,
    slow_rings,
    slower_than_before,
)
from assay.analyse.sweeps.slow_parts import Blame, Pair, called, explained, slow_with
from assay.errors import InputError
from assay.records import Better, Metric, Point, Result, Run
from assay.units import all_of

Values = Mapping[Pair, Sequence[float]]


def pairs_before(
    now: Values, before: Values, better: Better, margin: float
) -> tuple[tuple[BaselineChange, ...], Blame]:
    """Each pair's change, named as `slow_parts.called` does, and what the slower ones identify.

    A pair is fine if it lost no more than the margin; `slow_parts.explained` says the rest.

    margin  tolerated loss, as a share above 0. If no healthy pair lost more, anything is reported in at
            most 5 %. Raises ValueError as `slower_than_before`
    """
    names = {called(pair): pair for pair in now}
    values = {name: now[pair] for name, pair in names.items()}
    old = {name: before[pair] for name, pair in names.items()}
    changes = slower_than_before(values, old, better, margin)
    ratios = {names[change.node]: change.ratio.value for change in changes}
    slower = [names[change.node] for change in changes if change.slower]
    fine = [pair for pair, ratio in ratios.items() if ratio >= 1 - margin]
    return changes, explained(ratios, slower, fine)


BORNE_BEFORE = 0.05  # tolerated loss relative to a baseline, as a share, for differences between sessions


@dataclass(frozen=True)
class SweepFigure:
    """A benchmark's primary metric: each system's values."""

    point: Point
    better: Better
    values: dict[str, list[float]]


Figures = Mapping[str, SweepFigure]
"""By benchmark."""


@dataclass(frozen=True)
class SweepSession:
    """What a session of a sweep measured: its values, and the hosts of each of its systems."""

    session: str
    figures: Figures
    hosts: Mapping[str, tuple[str, ...]]


def figures_of(results: Sequence[Result], metrics: Callable[[Run], Mapping[str, Metric]]) -> Figures:
    """Each benchmark's primary metric."""
    figures: dict[str, SweepFigure] = {}
    for key, point_group in group(results, metrics).items():
        if key.place.benchmark in figures or point_group.point.better is None:
            continue  # the primary metric comes first; a metric without a direction can't be slow
        values: dict[str, list[float]] = {}
        for sample in point_group.samples:
            values.setdefault(sample.result.run.trial.system, []).append(sample.value)
        figures[key.place.benchmark] = SweepFigure(point_group.point, point_group.point.better, values)
    return figures


@dataclass(frozen=True)
class Nodes:
    """One measurement of every node, compared with each other, or each with itself if there are too few."""

    point: Point
    crowd: Crowd
    changes: Sequence[BaselineChange]

    @property
    def slow(self) -> list[str]:
        """Nodes that are named."""
        return [*self.crowd.slow, *(change.node for change in self.changes if change.slower)]

    @property
    def slow_group(self) -> NodeGroup | None:
        """The smaller of two populations if it is slower, else None: its nodes are not named one by one."""
        group = self.crowd.group
        return group if group is not None and group.slower else None

    @property
    def judged(self) -> bool:
        """Whether a node could have been named."""
        return not self.crowd.reason or any(not change.reason for change in self.changes)


def judged_nodes(alone: SweepSession, before: Figures | None, margin: float) -> list[Nodes]:
    """Each measurement's verdict: among the nodes, or compared with `before` if there are too few.

    margin  tolerated loss relative to the baseline, as a share. Raises InputError for one that is out of
            range.
    """
    verdicts = []
    for benchmark, now in alone.figures.items():
        old = None if before is None else _of_these(before, benchmark, now)
        (crowd,) = slow_nodes(now.values, now.better, before=old, figures=len(alone.figures))
        changes: Sequence[BaselineChange] = ()
        if crowd.reason and old is not None:
            known = {node: now.values[node] for node in old}
            changes = slower_than_before(known, old, now.better, margin)
        verdicts.append(Nodes(now.point, crowd, changes))
    return verdicts


def _of_these(before: Figures, benchmark: str, now: SweepFigure) -> dict[str, list[float]]:
    """The baseline's values of nodes that are here. Raises InputError if it has none of them."""
    stored = before.get(benchmark)
    if stored is None or stored.point != now.point:
        raise InputError(f"the baseline has no {benchmark} measured like this: {now.point.labels}")
    known = {node: figures for node, figures in stored.values.items() if node in now.values}
    if not known:
        here, there = ", ".join(now.values), ", ".join(stored.values)
        raise InputError(f"the baseline has none of the nodes {here}; it has {there}")
    return known


@dataclass(frozen=True)
class Pairs:
    """The all-reduce between nodes, and what is slow.

    ratios   each pair's speed relative to the median of those that nothing slow affects
    groups   node → what it shares with others, if requested
    changes  each pair compared with itself in a baseline, if there are too few nodes to compare
    """

    ratios: Mapping[Pair, float]
    blame: Blame
    groups: Mapping[str, str] = field(default_factory=dict)
    changes: Sequence[BaselineChange] = ()

    @property
    def relative(self) -> Mapping[Pair, float]:
        """Pair → its speed as it was judged: relative to the baseline if there are too few nodes."""
        changes = {change.node: change.ratio.value for change in self.changes}
        if not changes:
            return self.ratios
        return {pair: changes[name] for pair in self.ratios if (name := called(pair)) in changes}


def judged_pairs(
    together: SweepSession,
    groups: Mapping[str, str] | None = None,
    *,
    before: Figures | None = None,
    margin: float = BORNE_BEFORE,
) -> Pairs | None:
    """What the pairs identify as slow; None if no pair was measured.

    groups  node → its switch, rack or zone; without, none is identified
    before  of a baseline, of which one pair may have been kept; margin  tolerated loss relative to it
    """
    for benchmark, figure in together.figures.items():
        met = _met(together, figure.values)
        blamed = blame(met, figure.better, groups=groups)
        ratios = _ratios(met, blamed.affected(met, groups or {}), figure.better)
        if before is None or benchmark not in before or blamed.node_loss is not None:
            return Pairs(ratios, blamed, groups or {})
        old = _met(together, _of_these(before, benchmark, figure))
        changes, blamed = pairs_before({pair: met[pair] for pair in old}, old, figure.better, margin)
        return Pairs(ratios, blamed, groups or {}, changes)
    return None


def _ratios(met: Mapping[Pair, Sequence[float]], slow: Collection[Pair], better: Better) -> dict[Pair, float]:
    middles = {pair: median(values) for pair, values in met.items()}
    middle = median([value for pair, value in middles.items() if pair not in slow] or middles.values())
    return {pair: value / middle if better == "higher" else middle / value for pair, value in middles.items()}


def _met(together: SweepSession, by_system: Mapping[str, list[float]]) -> dict[Pair, list[float]]:
    by_pair = {}
    for system, values in by_system.items():
        a, b = together.hosts[system]
        by_pair[a, b] = values
    return by_pair


def judged_rings(
    rings: Sequence[SweepSession], together: SweepSession, groups: Mapping[str, str]
) -> tuple[Ring, ...]:
    """Each ring compared with its slowest pair; one whose nodes share a group has the group's name."""
    judged: tuple[Ring, ...] = ()
    for benchmark, paired in together.figures.items():
        values = {
            measured.hosts[system]: values
            for measured in rings
            if benchmark in measured.figures
            for system, values in measured.figures[benchmark].values.items()
        }
        names = {nodes: _ring_name(nodes, groups) for nodes in values}
        judged += slow_rings(values, _met(together, paired.values), paired.better, names=names)
    return judged


def _ring_name(nodes: Sequence[str], groups: Mapping[str, str]) -> str:
    (shared, *others) = {groups.get(node, "") for node in nodes}
    return shared if shared and not others else all_of(len(nodes), "node")


@dataclass(frozen=True)
class Suspect:
    """One node that is slow in some measurement.

    alone     measurement of the node by itself → its speed relative to comparable nodes, or to its baseline
    together  the same for its pairs with other nodes; None if they don't show it as slow
    partners  with how many partners it is then slow, and how many it has
    """

    node: str
    alone: Mapping[str, float] = field(default_factory=dict)
    together: float | None = None
    partners: tuple[int, int] = (0, 0)

    @property
    def losses(self) -> dict[str, float]:
        """Everything it is slow in, by measurement."""
        return {**self.alone, **({} if self.together is None else {"pairs": self.together})}


def suspects(
    nodes: Sequence[Nodes], pairs: Pairs | None, hosts: Mapping[str, Sequence[str]]
) -> tuple[Suspect, ...]:
    """The slow nodes, the slowest first. Links and racks are not included: no node causes them.

    hosts  system, whose name stands for a node measured alone → the node, as the only entry of a list
    """
    alone: dict[str, dict[str, float]] = {}
    for measurement in nodes:
        for system, ratio in _slow(measurement).items():
            alone.setdefault(hosts[system][0], {})[measurement.point.benchmark] = ratio
    together = {} if pairs is None else {slow.who[0]: slow.ratio for slow in pairs.blame.nodes}
    partners = {} if pairs is None else {n: slow_with(pairs.relative, n, r) for n, r in together.items()}
    slow_nodes = [
        Suspect(node, alone.get(node, {}), together.get(node), partners.get(node, (0, 0)))
        for node in dict.fromkeys([*alone, *together])
    ]
    return tuple(sorted(slow_nodes, key=lambda suspect: min(suspect.losses.values())))


def _slow(measurement: Nodes) -> dict[str, float]:
    """System → ratio of those that this measurement reports as slow."""
    among = {standing.node: standing.ratio for standing in measurement.crowd.standings if standing.slow}
    before = {change.node: change.ratio.value for change in measurement.changes if change.slower}
    return among | before


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
