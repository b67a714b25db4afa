"""The probe's facts about each node, made comparable: parse, compare side by side, digest.

Names are grouped by their meaning to a reader. Two groups never make configurations
differ: `identity` (which of many equal machines it was) and `momentary` (load, clocks, free space).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from assay.records import Provenance, Scalar, digest_of

MARK = ":::ASSAY-PROBE "
_NAME = re.compile(r"[\w.:@+-]{1,200}", re.ASCII)
_PROBED = "probe.version"  # the fact that every table of the probe has
_STATED = "mlperf."  # facts that a published result states about its system, in its JSON or its log
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

# group → its heading, in reading order
GROUPS: dict[str, str] = {
    "declared": "Set by the systems (systems.yaml)",
    "parameters": "Set by the suite",
    "programs": "Programs that its command lines name, by their content",
    "probe": "The probe itself",
    "suite": "Suite and Assay",
    "hardware": "Hardware",
    "system": "Kernel, drivers and settings",
    "limits": "Limits of the job",
    "libraries": "Python and libraries",
    "environment": "Environment",
    "packages": "Other packages",
    "identity": "Which machine",
    "momentary": "At that moment",
}
INCIDENTAL = frozenset({"identity", "momentary"})

# The first pattern that matches the beginning of a name determines its group; unknown names are `system`.
_GROUP_OF: tuple[tuple[str, str], ...] = (
    ("probe", r"unreadable$|probe\.version$"),
    ("identity", r"mlperf\.(submitter|system_name)$"),
    ("suite", r"mlperf\.(division|status|git_commit)$"),
    ("system", r"mlperf\.(operating_system|software\.\w*(driver|kernel)\w*)$"),
    ("libraries", r"mlperf\.(framework|software)"),
    ("hardware", r"mlperf\.(number_of_nodes|host_|accelerator|cooling|hw_notes)"),
    ("momentary", r"probe\.|load\.|boot_id$|.*_now(_|$)|.*(free|available)_bytes$|.*\.temperature_c$"),
    ("momentary", r"clock\.offset"),
    ("identity", r"ssh\.host$"),
    ("identity", r"host$|gpu\..*\.uuid$|env\.SLURM_(JOB|STEP)_?(ID|UID|NAME|NODELIST|START_TIME|END_TIME)$"),
    ("identity", r"env\.SLURM_(STEPID|JOBID|SUBMIT_HOST|LAUNCH_\w+|SRUN_COMM_\w+|STEP_LAUNCHER_PORT)$"),
    ("probe", r"(kubernetes|openshift)\.\w*unreadable$"),
    ("momentary", r"kubernetes\.\w+_s$"),
    ("identity", r"kubernetes\.(pod|node|namespace)$|kubernetes\.label\.(kubernetes\.io:hostname|topology)"),
    ("libraries", r"kubernetes\.image(_id)?$"),
    ("limits", r"kubernetes\.(qos|priority)$"),
    ("suite", r"suite\.|assay\."),
    ("packages", r"(package|build|conda)\."),
    ("libraries", r"python\."),
    ("environment", r"env\."),
    ("limits", r"limits\.|cpu\.(allowed|quota)|memory\.limit_bytes$|shm\.|disk\."),
    ("system", r"gpu\.(driver|cuda)$|gpu\.[^.]+\.(ecc|mig|persistence|compute_mode|power_limit_w|vbios)$"),
    ("system", r"cpu\.(governor|smt|boost|microcode)$|memory\.(transparent_)?hugepages$|.*\.firmware$"),
    ("hardware", r"cpu\.|memory\.|numa\.|gpu\.|pci\.|infiniband\.|net\.|machine\."),
)
# Facts that older probes don't report: how their names begin, and the probe's first version that does.
_SINCE = {"build.": 2, "conda.": 2, "cpu.isa": 2, "libc": 2}
_DERIVED = frozenset({"python.packages_digest"})  # the packages themselves are compared
# The kernel reserves a slightly different amount at each boot, so equal machines have nearly equal sizes.
_NEARLY = frozenset({"memory.total_bytes", "shm.size_bytes"})


def group_of(name: str) -> str:
    """The group of a fact, a key of `GROUPS`."""
    for group, pattern in _GROUP_OF:
        if re.match(pattern, name):
            return group
    return "system"


def parse(texts: Sequence[str], also: Mapping[str, Scalar] | None = None) -> Provenance:
    """The tables of all nodes from what the probe printed on each, one text per node.

    also  facts known only where Assay runs (the suite's git state), added to each node

    Never raises on a text: a node whose probe printed nothing usable has one fact, `unreadable`, that states
    why; entries of a table that are not plain values are left out and counted there.
    """
    return Provenance(tuple({**_node(text), **(also or {})} for text in texts))


def _node(text: str) -> dict[str, Scalar]:
    problem = "the probe printed no line that begins with " + MARK.strip()
    for line in text.splitlines():
        _, mark, body = line.partition(MARK)
        if not mark:
            continue
        try:
            table = json.loads(body, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            problem = f"the probe's line is not JSON: {error}"
            continue
        if isinstance(table, dict):
            return _only_facts(table)
        problem = "the probe's line is not a table of facts"
    last = _CONTROL.sub(" ", "".join(text.splitlines()[-1:]))[:200]
    return {"unreadable": problem + (f"; its last line: {last}" if last else "")}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a value")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is too large")
    return value


def _only_facts(table: Mapping[str, Any]) -> dict[str, Scalar]:
    """The entries that are facts. Control characters are removed, because text is printed on terminals."""
    facts: dict[str, Scalar] = {}
    for name, value in table.items():
        if not _NAME.fullmatch(name):
            continue
        if isinstance(value, str):
            facts[name] = _CONTROL.sub(" ", value).encode("utf-8", "replace").decode()
        elif isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63):
            facts[name] = value
    refused = len(table) - len(facts)
    if refused:
        earlier = facts.get("unreadable")
        note = f"{refused} of the probe's entries are not plain facts"
        facts["unreadable"] = f"{earlier}; {note}" if earlier else note
    return facts


def known(provenance: Provenance) -> bool:
    """Whether at least one node's probe could be read, or a published result states its system."""
    return any(_says(node) for node in provenance.nodes)


def _says(node: Mapping[str, object]) -> bool:
    return _PROBED in node or any(name.startswith(_STATED) for name in node)


@dataclass(frozen=True)
class Fact:
    """One fact on two sides, each with its distinct values over nodes, runs and GPUs; None is absent."""

    name: str
    group: str
    a: tuple[Scalar, ...]
    b: tuple[Scalar, ...]

    @property
    def differs(self) -> bool:
        """Whether the two sides have different values."""
        return self.a != self.b

    @property
    def matters(self) -> bool:
        """Whether it differs in a relevant way: not only in which machine it was, or momentarily."""
        return self.differs and self.group not in INCIDENTAL


def side_by_side(a: Iterable[Provenance], b: Iterable[Provenance]) -> tuple[Fact, ...]:
    """Every fact that either side knows, in the order of `GROUPS`, then by name.

    The GPUs of a node become one fact, `gpu.*.name`, with all their values. A node whose probe failed adds
    no values, so a side without known facts (`known`) differs in everything. Facts that the probe of
    a run did not report yet in its version are left out.
    """
    a, b = tuple(a), tuple(b)
    left, right = _values(a), _values(b)
    oldest = _oldest_probe((*a, *b))
    order = {group: place for place, group in enumerate(GROUPS)}
    facts = (
        Fact(name, group_of(name), left.get(name, (None,)), right.get(name, (None,)))
        for name in left.keys() | right.keys()
        if name not in _DERIVED and _first_probe(name) <= oldest
    )
    return tuple(sorted(facts, key=lambda fact: (order[fact.group], fact.name)))


def _oldest_probe(provenances: Iterable[Provenance]) -> int:
    """The lowest version of the probes that reported."""
    versions = (node.get(_PROBED) for provenance in provenances for node in provenance.nodes)
    return min((version for version in versions if isinstance(version, int)), default=1)


def _first_probe(name: str) -> int:
    """The version of the probe that is the first to report this fact."""
    return next((version for beginning, version in _SINCE.items() if name.startswith(beginning)), 1)


def settings_side_by_side(
    group: str, a: Sequence[Mapping[str, Scalar]], b: Sequence[Mapping[str, Scalar]], *, prefix: str = ""
) -> tuple[Fact, ...]:
    """What the user set on both sides, by name; empty if either side has no table.

    a, b  tables of settings; a name that one of them lacks is absent there

    >>> settings_side_by_side("declared", [{"env.BATCH": "4"}], [{"env.BATCH": "32"}])
    (Fact(name='env.BATCH', group='declared', a=('4',), b=('32',)),)
    """
    if not a or not b:
        return ()

    def values(tables: Sequence[Mapping[str, Scalar]], name: str) -> tuple[Scalar, ...]:
        value_by_json = {json.dumps(table.get(name)): table.get(name) for table in tables}
        return tuple(value_by_json[key] for key in sorted(value_by_json))

    names = sorted({name for table in (*a, *b) for name in table})
    return tuple(Fact(f"{prefix}{name}", group, values(a, name), values(b, name)) for name in names)


def differences(a: Iterable[Provenance], b: Iterable[Provenance]) -> tuple[Fact, ...]:
    """Those of `side_by_side` that differ."""
    return tuple(fact for fact in side_by_side(a, b) if fact.differs)


def _values(provenances: Iterable[Provenance]) -> dict[str, tuple[Scalar, ...]]:
    nodes = [_gpus_as_one(node) for provenance in provenances for node in provenance.nodes]
    values: dict[str, tuple[Scalar, ...]] = {}
    for name in {name for node in nodes for name in node}:
        value_by_json = {
            json.dumps(value): value for node in nodes for value in node.get(name, _missing(node))
        }
        values[name] = tuple(value_by_json[key] for key in sorted(value_by_json))
    return values


def _missing(node: Mapping[str, object]) -> tuple[None, ...]:
    return (None,) if _says(node) else ()  # a failed probe does not show that something is absent


def _gpus_as_one(node: Mapping[str, Scalar]) -> dict[str, set[Scalar]]:
    values: dict[str, set[Scalar]] = {}
    for name, value in node.items():
        values.setdefault(re.sub(r"^gpu\.\d+\.", "gpu.*.", name), set()).add(_compared(name, value))
    return values


def _compared(name: str, value: Scalar) -> Scalar:
    """The value as it is compared: sizes that vary from boot to boot, to three digits."""
    if name in _NEARLY and isinstance(value, int | float):
        return float(f"{value:.3g}")
    return value


def digest(provenance: Provenance) -> str:
    """Digest of the configuration, without which machine it was, when, and how many nodes."""
    nodes = {
        digest_of({name: _compared(name, value) for name, value in node.items() if _counts(name)})
        for node in provenance.nodes
    }
    return digest_of(sorted(nodes))


def _counts(name: str) -> bool:
    return name not in _DERIVED and group_of(name) not in INCIDENTAL and group_of(name) != "probe"
