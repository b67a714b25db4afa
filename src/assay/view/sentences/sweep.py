"""The findings of a sweep, as text for the terminal and the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from assay.analyse.sweeps.nodes import Crowd, NodeGroup
from assay.analyse.sweeps.slow_parts import Blame, SlowPart, called, slow_with
from assay.analyse.sweeps.verdicts import Nodes, Pairs, Suspect, SweepVerdicts, suspects
from assay.units import all_of
from assay.view import figures

TOGETHER = "set of nodes"  # the kind of nodes that share something slow


def in_order(nodes: Iterable[str]) -> list[str]:
    """Names in natural order.

    >>> in_order(["n10", "n9"])
    ['n9', 'n10']
    """
    return sorted(nodes, key=_counted)


def _counted(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name)  # text and digits alternate
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)]


def about(crowd: Crowd) -> list[str]:
    """What loss a single measurement can detect given the nodes' spread, and what weakens that."""
    lines = [f"the fastest is {figures.percent(crowd.fastest)} above the median"] if crowd.standings else []
    if crowd.group is not None:
        lines.append(two_groups(crowd.group, len(crowd.standings)))
    if crowd.named_from is None or crowd.found_from is None:
        return [*lines, f"no node is called slow or healthy: {crowd.reason}", *crowd.warnings]
    named, likely = figures.percent(crowd.named_from), figures.percent(crowd.found_from)
    lines.append(
        f"a loss of {named} is reported, and a loss of {likely} is found in 80 of 100 cases; "
        "5 % of sweeps report a false one"
    )
    return [*lines, *crowd.warnings]


def two_groups(group: NodeGroup, nodes: int) -> str:
    """The smaller of two populations of nodes, its ratio, and what that means."""
    few = ", ".join(in_order(group.nodes))
    return (
        f"the nodes are two groups: {few} ({len(group.nodes)} of {nodes}) are at "
        f"{group.ratio:.3f} of the others; firmware, settings, hardware or a rack that they share may be the "
        "cause, and each node is compared with its own group"
    )


def slower_than_before(margin: float) -> str:
    """The threshold for being slower than a baseline, and its confidence."""
    return f"slower: by more than {figures.percent(margin)}; all intervals hold together with 95 % confidence"


def name(kind: str, slow: SlowPart) -> str:
    """Who is slow: a node, `a – b` of a pair, `a, b` of nodes that share something."""
    return ", ".join(in_order(slow.who)) if kind == TOGETHER else called(slow.who)


def details(kind: str, slow: SlowPart, pairs: Pairs) -> str:
    """How slow it is, and what the pairs of its nodes show.

    `0.52 of comparable ones; a is slow with 1 of its 5 partners, b with 2 of 5`
    """
    speed = _speed(slow)
    if kind == "group":
        return f"{speed}, towards all other groups" if len(slow.who) == 1 else f"{speed}, between the two"
    if kind == TOGETHER:
        return f"{speed} with all others{_shared(slow)}"
    if kind == "node":
        return f"{speed}; {_partners(*slow_with(pairs.relative, slow.who[0], slow.ratio))}"
    (a, b), (first, second) = slow.who, (slow_with(pairs.relative, node, slow.ratio) for node in slow.who)
    met = f"{a} is {_partners(*first)}, {b} with {second[0]} of {second[1]}"
    if kind == "pair":
        one_of = f"{', '.join(slow.one_of)}, or the link between {a} and {b}"
        return f"{speed}; one of these is slow: {one_of}; {met}"
    return f"{speed}; {met}"


def _shared(slow: SlowPart) -> str:
    """What nodes that are slow with all others may share, and which of them may be slow by themselves."""
    if set(slow.one_of) == set(slow.who):
        return ": something that they share, or each of them; no two of them were measured together"
    cause = ", but not with each other: something that they share"
    if not slow.one_of:
        return cause
    few = ", ".join(in_order(slow.one_of))
    return f"{cause}; {few}: or the node itself, for it was measured with none of the others here"


def _speed(slow: SlowPart) -> str:
    return f"{slow.ratio:.2f} of comparable ones"


def _partners(slow: int, total: int) -> str:
    """`slow with all 5 partners`, or with how many of them."""
    return (
        f"slow with {all_of(total, 'partner')}"
        if slow == total
        else f"slow with {slow} of its {total} partners"
    )


def blamed(blame: Blame) -> list[tuple[str, SlowPart]]:
    """What the pairs identify as slow, each with its kind."""
    kinds = (
        ("group", blame.groups),
        (TOGETHER, blame.together),
        ("node", blame.nodes),
        ("link", blame.links),
        ("pair", blame.pairs),
    )
    return [(kind, slow) for kind, slows in kinds for slow in slows]


def told_apart(
    nodes: Sequence[Nodes], pairs: Pairs | None, hosts: Mapping[str, Sequence[str]]
) -> list[tuple[str, str]]:
    """Each slow node and which part of it is slow; `hosts` as for `suspects`."""
    alone = any(measurement.judged for measurement in nodes)
    return [
        (suspect.node, locate_slowness(suspect, alone=alone, together=_paired(suspect.node, pairs)))
        for suspect in suspects(nodes, pairs, hosts)
    ]


def _paired(node: str, pairs: Pairs | None) -> bool:
    """Whether the pairs could have identified a slow node, and this one is in nothing else that is slow."""
    if pairs is None or not (pairs.changes or pairs.blame.node_loss is not None):
        return False
    return all(node not in slow.who for slow in pairs.blame.parts)


def locate_slowness(suspect: Suspect, *, alone: bool, together: bool) -> str:
    """Which part of a slow node is slow, as far as the measurements show.

    alone, together  whether measurements alone or in pairs could have shown it, too
    """
    slow = [f"{what} at {ratio:.2f}" for what, ratio in suspect.alone.items()]
    if suspect.together is None:
        finding = f"slow alone ({', '.join(slow)})"
        return f"{finding}, but not in its pairs: the network is not the cause" if together else finding
    finding = f"{_partners(*suspect.partners)} ({suspect.together:.2f})"
    if slow:
        return (
            f"{finding}, and alone ({', '.join(slow)}): "
            "the node itself; its network can't be judged separately"
        )
    return f"{finding}, but not alone: its connection to the network" if alone else finding


def lead(verdicts: SweepVerdicts, *, judged: bool) -> str:
    """A summary in one or two sentences."""
    parts = []
    if slow_nodes := verdicts.suspects:
        nodes = ", ".join(suspect.node for suspect in slow_nodes)
        parts.append(f"Slow: {nodes}." if len(slow_nodes) > 1 else f"{nodes} is slow.")
    parts += [
        f"In {measurement.point.benchmark}, a group of {len(group.nodes)} nodes is slow: "
        f"{group.ratio:.2f} of the others."
        for measurement in verdicts.nodes
        if (group := measurement.slow_group) is not None
    ]
    blame = None if verdicts.pairs is None else verdicts.pairs.blame
    others = [] if blame is None else [part for part in blamed(blame) if part[0] != "node"]
    parts += [f"The {kind} {name(kind, slow)} is slow: {_speed(slow)}." for kind, slow in others]
    parts += [f"The ring of {ring.name} is slow." for ring in verdicts.rings if ring.slower]
    if parts:
        return " ".join(parts)
    return "Nothing is slow." if judged else "Too little was measured to call anything slow or healthy."


def names(slow_nodes: Sequence[Suspect]) -> Mapping[str, Sequence[str]]:
    """Measurement → the nodes that it identifies as slow."""
    by_measurement: dict[str, list[str]] = {}
    for suspect in slow_nodes:
        for what in suspect.losses:
            by_measurement.setdefault(what, []).append(suspect.node)
    return by_measurement
