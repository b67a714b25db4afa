"""What a sweep found, in words for the terminal and for the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from assay.analyse.sweeps.figures import Nodes, Pairs
from assay.analyse.sweeps.links import Blame, SlowPart, called
from assay.analyse.sweeps.nodes import Crowd
from assay.analyse.sweeps.rings import Ring
from assay.analyse.sweeps.suspects import Suspect, suspects
from assay.report import figures


def in_order(nodes: Iterable[str]) -> list[str]:
    """Names as people count them.

    >>> in_order(["n10", "n9"])
    ['n9', 'n10']
    """
    return sorted(nodes, key=_counted)


def _counted(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name)  # text and digits in turn
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)]


def about(found: Crowd) -> list[str]:
    """What the nodes' spread lets one figure name, and what weakens that."""
    said = [f"the fastest is {figures.percent(found.fastest)} above the median"] if found.standings else []
    if found.named_from is None or found.found_from is None:
        return [*said, f"no node is called slow or healthy: {found.reason}", *found.warnings]
    named, likely = figures.percent(found.named_from), figures.percent(found.found_from)
    said.append(f"a loss of {named} is named, one of {likely} in 80 of 100 cases; falsely in 5 % of sweeps")
    return [*said, *found.warnings]


def slower_than_before(margin: float) -> str:
    """What it takes to be called slower than a baseline, and what that promises."""
    return f"slower: by more than {figures.percent(margin)}; all intervals hold together in 95 % of cases"


def who(slow: SlowPart) -> str:
    """Who is to blame, and at what speed: `a – b (0.52 of its like)`."""
    return f"{called(slow.who)} ({slow.ratio:.2f} of its like)"


def blamed(found: Blame) -> list[tuple[str, SlowPart]]:
    """What the pairs blame, each with what it is."""
    kinds = (("group", found.groups), ("node", found.nodes), ("link", found.links), ("pair", found.pairs))
    return [(kind, slow) for kind, slows in kinds for slow in slows]


def told_apart(
    nodes: Sequence[Nodes], pairs: Pairs | None, hosts: Mapping[str, Sequence[str]]
) -> list[tuple[str, str]]:
    """Each slow node, and which part of it is slow; `hosts` as `suspects` takes them."""
    alone = any(one.judged for one in nodes)
    return [
        (one.node, where(one, alone=alone, together=_paired(one.node, pairs)))
        for one in suspects(nodes, pairs, hosts)
    ]


def _paired(node: str, pairs: Pairs | None) -> bool:
    """Whether its pairs could have named a node, and leave none of its own open."""
    if pairs is None or not (pairs.changes or pairs.blame.node_loss is not None):
        return False
    return all(node not in slow.who for slow in pairs.blame.pairs)


def where(suspect: Suspect, *, alone: bool, together: bool) -> str:
    """Which part of a slow node it is, as far as the figures tell.

    alone, together  whether that could have named it, too
    """
    slow = [f"{what} at {ratio:.2f}" for what, ratio in suspect.alone.items()]
    if suspect.together is None:
        said = f"slow alone ({', '.join(slow)})"
        return f"{said}, and not in its pairs: not its network" if together else said
    said = f"slow with every partner ({suspect.together:.2f})"
    if slow:
        return (
            f"{said}, and alone ({', '.join(slow)}): the node itself; its network can't be told beside that"
        )
    return f"{said}, and not alone: its way into the network" if alone else said


def lead(slow_nodes: Sequence[Suspect], found: Blame | None, rings: Sequence[Ring], *, judged: bool) -> str:
    """The whole in a sentence or two."""
    parts = []
    if slow_nodes:
        nodes = ", ".join(suspect.node for suspect in slow_nodes)
        parts.append(f"Slow: {nodes}." if len(slow_nodes) > 1 else f"{nodes} is slow.")
    others = [] if found is None else [at for at in blamed(found) if at[0] != "node"]
    parts += [f"The {kind} {who(slow)} is slow." for kind, slow in others]
    parts += [f"The ring of {ring.name} is slow." for ring in rings if ring.slower]
    if parts:
        return " ".join(parts)
    return "Nothing is slow." if judged else "Too little was measured to call anything slow or healthy."


def names(slow_nodes: Sequence[Suspect]) -> Mapping[str, Sequence[str]]:
    """Figure → the nodes that it names."""
    found: dict[str, list[str]] = {}
    for suspect in slow_nodes:
        for what in suspect.losses:
            found.setdefault(what, []).append(suspect.node)
    return found
