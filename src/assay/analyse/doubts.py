"""Reasons not to take a figure at its face, each with its evidence in figures and what to do about it.

A doubt is a function from a case to a `Doubt` or None, and a line in `DOUBTS`. It looks only at the case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.analyse.groups import Group, cause
from assay.analyse.intervals import constant
from assay.records import Doubt, Estimate, Result

FEW_RUNS = 5  # with fewer a side, equivalence shows in 31 % of cases at a spread of 1 % and a margin of 2 %
MOST_SHOWN = 6
SOFTWARE = ("kernel", "os", "gpu.driver", "gpu.cuda", "container", "python.", "package.", "env.")
NOT_SOFTWARE = ("python.executable", "python.packages_digest")


@dataclass(frozen=True)
class Side:
    """What one side of a claim rests on, under its name."""

    name: str
    group: Group

    @property
    def sessions(self) -> list[str]:
        """Sessions that its runs come from, as `suite/session`."""
        return sorted({f"{s.result.run.suite}/{s.result.run.session}" for s in self.group.samples})


@dataclass(frozen=True)
class Case:
    """A claim that doubts are held against: about one set of runs, or about two against each other.

    estimate  the interval that the claim rests on; a ratio where there are two sides
    margin    what counts as equal; None where nothing is compared
    paired    the sides were run in the same shuffled blocks
    dropped   blocks left out because they lack a side
    """

    sides: tuple[Side, ...]
    estimate: Estimate
    margin: float | None = None
    paired: bool = False
    dropped: int = 0


def of(case: Case) -> tuple[Doubt, ...]:
    """Every doubt that the case raises, in the order of `DOUBTS`."""
    return tuple(doubt for raised in DOUBTS.values() if (doubt := raised(case)) is not None)


def too_few_runs(case: Case) -> Doubt | None:
    """Fewer than five runs a side: valid intervals, but wide, and one odd run can't be told from the rest."""
    few = [side for side in case.sides if len(side.group.samples) < FEW_RUNS]
    if not few:
        return None
    evidence = " and ".join(f"{side.name} has {_count(len(side.group.samples), 'run')}" for side in few)
    return Doubt(
        "too-few-runs",
        f"{evidence}: too few to see whether one of them is off",
        f"Raise `repeats` to {FEW_RUNS} or more and run the suite again",
    )


def wider_than_margin(case: Case) -> Doubt | None:
    """An interval so wide that it could not lie within the margin; no matter where it lies outside."""
    low, high = case.estimate.low, case.estimate.high
    if case.margin is None or low is None or high is None:
        return None
    half = math.log(high / low) / 2
    if half <= math.log1p(case.margin) or low > 1 + case.margin or high < 1 / (1 + case.margin):
        return None
    return Doubt(
        "wider-than-margin",
        f"the interval is ±{percent(math.expm1(half))} wide, the margin ±{percent(case.margin)}: "
        "so many runs can't show that the sides are equal",
        "More runs, quieter ones (longer trials, nothing else on the machine), or a wider margin",
    )


def not_interleaved(case: Case) -> Doubt | None:
    """Sides that were not run in the same shuffled blocks: whatever changed in between falls on one side."""
    if len(case.sides) < 2 or case.paired:
        return None
    a, b = case.sides
    evidence = (
        f"{a.name} ran in {_listed(a.sessions)}, {b.name} in {_listed(b.sessions)}"
        if a.sessions != b.sessions
        else "the sides were not shuffled together within blocks"
    )
    return Doubt(
        "not-interleaved",
        f"{evidence}: a drift of the machine in between looks like a difference "
        "(one of ±1 spread leaves 72 % coverage at 5 runs a side)",
        "One suite with both, so that each block holds both",
    )


def one_session(case: Case) -> Doubt | None:
    """All runs of a side share one session's luck: allocation, temperature, day."""
    if any(len(side.sessions) != 1 for side in case.sides):
        return None
    sessions = sorted({session for side in case.sides for session in side.sessions})
    return Doubt(
        "one-session",
        f"all runs {'of each side ' if len(sessions) > 1 else ''}come from one session ({_listed(sessions)})",
        "The claim holds for that session; to claim it of the system, repeat the suite on other days",
    )


def pooled_sessions(case: Case) -> Doubt | None:
    """Runs of several sessions treated as if they were independent."""
    pooled = [side for side in case.sides if len(side.sessions) > 1]
    if not pooled:
        return None
    evidence = "; ".join(f"{side.name}: {_listed(side.sessions)}" for side in pooled)
    return Doubt(
        "pooled-sessions",
        f"runs of several sessions count as independent ({evidence}), though those of a session are alike",
        "Compare session by session too, as suite/session:system",
    )


def failed_runs_left_out(case: Case) -> Doubt | None:
    """Runs at this point that gave no result: the ones that did may be the lucky ones."""
    parts = []
    for side in case.sides:
        lost = len(side.group.left_out) + side.group.lacking
        if lost:
            tried = lost + len(side.group.samples)
            parts.append(f"{side.name}: {lost} of {_count(tried, 'run')} gave none{_why(side.group)}")
    if not parts:
        return None
    return Doubt(
        "failed-runs-left-out",
        "; ".join(parts),
        "Mend the cause (`assay show`) and run the suite again: failed trials are done anew",
    )


def dropped_blocks(case: Case) -> Doubt | None:
    """Blocks that lack a side, left out of the pairs."""
    if not case.dropped:
        return None
    return Doubt(
        "dropped-blocks",
        f"{_count(case.dropped, 'block')} without one of the sides left out of the pairs",
        "Run the suite again, so that the missing trials are done",
    )


def different_software(case: Case) -> Doubt | None:
    """Versions or settings that are steady on each side and differ between the sides."""
    if len(case.sides) < 2:
        return None
    tables = [_steady_facts([s.result for s in side.group.samples]) for side in case.sides]
    if not all(tables):
        return None
    a, b = tables
    differing = sorted(name for name in a.keys() | b.keys() if _software(name) and a.get(name) != b.get(name))
    differing = [name for name in differing if _UNSTEADY not in (a.get(name), b.get(name))]
    if not differing:
        return None
    shown = ", ".join(f"{name} {_fact(a, name)} against {_fact(b, name)}" for name in differing[:MOST_SHOWN])
    more = f" and {len(differing) - MOST_SHOWN} more" if len(differing) > MOST_SHOWN else ""
    return Doubt(
        "different-software",
        f"{shown}{more}",
        "The difference may be theirs and not the system's: give both sides the same (`assay diff A B`)",
    )


def different_parameters(case: Case) -> Doubt | None:
    """Parameters that differ between the sides although the points bear the same name."""
    if len(case.sides) < 2:
        return None
    a, b = (_parameters(side) for side in case.sides)
    differing = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    if not differing:
        return None
    shown = [f"{name} {_either(a, name)} against {_either(b, name)}" for name in differing[:MOST_SHOWN]]
    return Doubt(
        "different-parameters",
        ", ".join(shown),
        "The sides may not have done the same work: run one suite on both",
    )


def identical_values(case: Case) -> Doubt | None:
    """Several runs with one and the same value: the figure's resolution hides their spread."""
    alike = [
        side
        for side in case.sides
        if len(side.group.samples) > 1
        and min(side.group.values) > 0
        and constant([math.log(value) for value in side.group.values])
    ]
    if not alike:
        return None
    evidence = "; ".join(
        f"all {len(side.group.samples)} runs of {side.name} gave "
        f"{side.group.values[0]:.6g} {side.group.point.unit}".rstrip()
        for side in alike
    )
    return Doubt(
        "identical-values",
        f"{evidence}: a spread of zero is more likely a coarse timer or a rounded print",
        "Print more digits or measure for longer; a count that can't vary needs no interval",
    )


DOUBTS: dict[str, Callable[[Case], Doubt | None]] = {
    "too-few-runs": too_few_runs,
    "wider-than-margin": wider_than_margin,
    "not-interleaved": not_interleaved,
    "one-session": one_session,
    "pooled-sessions": pooled_sessions,
    "failed-runs-left-out": failed_runs_left_out,
    "dropped-blocks": dropped_blocks,
    "different-software": different_software,
    "different-parameters": different_parameters,
    "identical-values": identical_values,
}

_UNSTEADY = object()


def percent(share: float) -> str:
    """A share as a person reads it: `2 %`, `0.35 %`."""
    return f"{100 * share:.2g} %" if abs(share) < 1 else f"{100 * share:.0f} %"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _why(group: Group) -> str:
    causes = Counter(cause(result) or "no cause stated" for result in group.left_out)
    if group.lacking:
        causes[f"{group.point.metric} not reported"] += group.lacking
    listed = "; ".join(f"{times} × {why}" for why, times in causes.most_common(2))
    return f" ({listed})" if listed else ""


def _software(name: str) -> bool:
    if name in NOT_SOFTWARE:
        return False
    return any(name == stem or name.startswith(stem.rstrip(".") + ".") for stem in SOFTWARE)


def _steady_facts(results: Sequence[Result]) -> dict[str, object]:
    """Each fact's one value over all nodes of all runs; a mark where it varies. Empty where none is known."""
    found: dict[str, object] = {}
    distinct = {id(r.provenance): r.provenance for r in results if r.provenance is not None}
    for provenance in distinct.values():
        for table in provenance.nodes:
            for name, value in table.items():
                if found.setdefault(name, value) != value:
                    found[name] = _UNSTEADY
    return found


def _fact(table: dict[str, object], name: str) -> object:
    return table.get(name, "absent")


def _parameters(side: Side) -> dict[str, set[str]]:
    """Each parameter's values on this side, as text; what is swept is equal by the choice of the point."""
    distinct = {s.result.run.trial.digest: s.result.run.trial.params for s in side.group.samples}
    found: dict[str, set[str]] = {}
    for params in distinct.values():
        for name, value in params.items():
            found.setdefault(name, set()).add(str(value))
    return found


def _either(parameters: dict[str, set[str]], name: str) -> str:
    return "/".join(sorted(parameters.get(name, {"absent"})))
