"""The sessions of a sweep, run like any other suite: nodes alone, pairs, then rings of each size."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.inputs import read_json
from assay.questions.evidence import RunSet, reindex, run_sets

if TYPE_CHECKING:
    from assay.analyse.sweeps.verdicts import Figures, SweepFigure, SweepSession
    from assay.launch.platform import Member
    from assay.node_sweep import Group
    from assay.records import Metric, Result, Run
    from assay.run.drive import CompletedSession
    from assay.run.progress import Tell
    from assay.run.request import RunRequest
    from assay.suite.model import System

_MOST_NAMED = 8  # nodes in a line of text


@dataclass(frozen=True)
class SweepRequest:
    """What to sweep.

    where         the system whose nodes are swept
    repeats       runs of each
    seconds       measured in each run
    rounds  of pairs; 0: neither pairs nor rings
    share   maximum share of the nodes to use at once, above 0 to 1
    named   only these nodes; empty: all
    by      label of what nodes share; "": none
    disk    directory on each node, from which reading is measured; "": none
    for_s   start no trial after this many seconds; None: no limit
    new     start again even if a sweep is unfinished
    """

    where: System
    runs_dir: Path
    repeats: int
    device: str
    seconds: float
    rounds: int
    share: float
    named: tuple[str, ...] = ()
    idle: bool = False
    by: str = ""
    disk: str = ""
    for_s: float | None = None
    new: bool = False
    command_line: Sequence[str] = ()


@dataclass(frozen=True)
class SweepPart:
    """One session of a sweep: a suite on groups of nodes, those of a round before those of the next."""

    suite: Callable[[Sequence[str], int, str, float], dict[str, Any]]
    groups: Sequence[Group]
    rounds: Mapping[Group, int] = field(default_factory=dict)


@dataclass
class SweepRuns:
    """The results of a sweep so far, including those of earlier calls.

    groups    node → what it shares with others, by the requested label
    measured  nodes alone; then, as far as there was time, pairs, and rings of each size
    failures  runs without a result
    left_out  node → why no trials were started on it
    too_wide  rings that are not run, and why
    complete  whether everything was tried: the next call starts a new sweep
    """

    nodes: Sequence[str]
    groups: Mapping[str, str]
    measured: list[SweepSession] = field(default_factory=list)
    failures: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    too_wide: list[str] = field(default_factory=list)
    complete: bool = True


class SweepInProgress:
    """One call of `sweep`.

    tell   creates the receiver of each session's events
    noted  takes messages about the sweep as a whole
    """

    def __init__(self, request: SweepRequest, tell: Tell, noted: Callable[[str], None]) -> None:
        from assay.node_sweep import member_list

        where = request.where
        self._request, self._tell_session, self._noted = request, tell, noted
        self._ask = member_list(
            where.launcher, where.options, named=request.named, idle=request.idle, by=request.by
        )
        self._definition = {
            "launcher": where.launcher,
            # Values left out have their defaults: a sweep has thousands of systems, and each is read again.
            **where.options.model_dump(mode="json", exclude_defaults=True),
        }
        self._until = None if request.for_s is None else time.monotonic() + request.for_s
        self._groups: Mapping[str, str] = {}
        self._away: Mapping[str, str] = {}

    def run(self) -> SweepRuns:
        """All parts, as far as there is time. Raises as `run_suite`, InputError if no node accepts jobs."""
        from assay.run.drive import finish, run_suite

        there = {member.name: member for member in self._ask()}
        nodes = (None if self._request.new else self._begun(there)) or [
            name for name, member in there.items() if not member.away
        ]
        away = {name: member.away for name, member in there.items() if member.away}
        if not nodes:
            why = "; ".join(by_reason(away)) or "there is none"
            raise InputError(f"{self._request.where.name}: no node accepts jobs now ({why})")
        joined = dict.fromkeys(there.keys() - {*nodes} - away.keys(), "not there when this sweep began")
        self._groups = _groups(nodes, there, self._request.by)
        runs = SweepRuns(nodes, self._groups, left_out=away | joined)
        self._note(runs)
        completed: list[CompletedSession] = []
        for part in self._parts(runs):
            if completed and self._late():
                runs.complete = False
                break
            since = completed[0].session.header.created_at if completed else 0.0
            completed.append(run_suite(self._request_for(part, nodes, since), self._tell_session))
            self._take(runs, part, completed[-1])
        if runs.complete:
            for session in completed:
                finish(session)
        reindex(self._request.runs_dir)
        return runs

    def _begun(self, there: Mapping[str, Member]) -> list[str] | None:
        """The nodes of the newest unfinished sweep of the same kind, which this call resumes."""
        from assay import node_sweep as sweep
        from assay.run.request import plan_of
        from assay.rundir.session import sessions_of

        for session in reversed(sessions_of(self._request.runs_dir, sweep.NODES)):
            if session.header.finished_at is not None or session.header.content:
                continue
            try:
                kept = read_json(session.path / "systems.yaml")
                nodes = [node for definition in kept.values() for node in sweep.bound(definition)]
            except (InputError, AttributeError, KeyError, TypeError):  # a user's own suite of this name
                continue
            if self._request.named and {*nodes} != {*there}:
                continue
            if (
                plan_of(self._request_for(self._alone(nodes), nodes)).plan.digest
                == session.header.plan_digest
            ):
                return nodes
        return None

    def _parts(self, runs: SweepRuns) -> Iterator[SweepPart]:
        from assay import node_sweep as sweep
        from assay.node_sweep import most_rounds, pair_rounds, ring_groups

        nodes = runs.nodes
        yield self._alone(nodes)
        if not self._request.rounds or len(nodes) < 2:
            return
        met = pair_rounds(nodes, min(self._request.rounds, most_rounds(len(nodes))))
        rounds = {pair: number for number, round_pairs in enumerate(met) for pair in round_pairs}
        yield SweepPart(sweep.pairs_suite, [*rounds], rounds)
        fitting = [ring for ring in ring_groups(nodes, runs.groups) if self._fits(ring, runs)]
        for size, rings in groupby(fitting, key=len):
            yield SweepPart(partial(sweep.rings_suite, nodes=size), [*rings])

    def _alone(self, nodes: Sequence[str]) -> SweepPart:
        from assay import node_sweep as sweep
        from assay.node_sweep import each_alone

        return SweepPart(partial(sweep.nodes_suite, disk=self._request.disk), each_alone(nodes))

    def _fits(self, ring: Group, runs: SweepRuns) -> bool:
        """Whether no more nodes are in use than allowed; what does not fit is noted."""
        if len(ring) <= self._most_nodes(runs.nodes):
            return True
        share = math.ceil(100 * len(ring) / len(runs.nodes))
        runs.too_wide.append(f"the ring of {len(ring)} nodes; it takes --share {share}%")
        return False

    # One part

    def _request_for(self, part: SweepPart, nodes: Sequence[str], begun_since: float = 0.0) -> RunRequest:
        """The part as `run_suite` takes it.

        nodes        of the whole sweep
        begun_since  a session that started before the sweep's first belongs to another sweep
        """
        from assay.node_sweep import GROUPS_FILE, systems
        from assay.run.concurrency import Concurrency
        from assay.run.request import RunRequest, make_suite

        request = self._request
        definitions = systems(self._definition, part.groups)
        groups = dict(zip(definitions, part.groups, strict=True))
        together = Concurrency(
            nodes={name: frozenset(group) for name, group in groups.items()},
            most_nodes=self._most_nodes(nodes),
            rounds={name: part.rounds.get(group, 0) for name, group in groups.items()},
            away=lambda: self._reasons_against(nodes),
            begin_until=self._until,
        )
        content = part.suite([*definitions], request.repeats, request.device, request.seconds)
        suite, where = make_suite(content, definitions)
        return RunRequest(
            suite,
            request.runs_dir,
            where,
            new=request.new,
            together=together,
            begun_since=begun_since,
            command_line=request.command_line,
            beside={GROUPS_FILE: json.dumps(self._groups)} if self._groups else {},
        )

    def _take(self, runs: SweepRuns, part: SweepPart, completed: CompletedSession) -> None:
        """The part's results, and which of its trials remain for the next call."""
        from assay.analyse.sweeps.verdicts import SweepSession, figures_of
        from assay.node_sweep import systems

        groups = dict(zip(systems(self._definition, part.groups), part.groups, strict=True))
        figures = figures_of(completed.results, _metrics(completed))
        runs.measured.append(SweepSession(completed.session.id, figures, groups))
        runs.failures.extend(r for r in completed.results if not r.counts)
        met = {trial.id for trial in completed.left}  # on a node that can't run them, which is its finding
        for trial in (trial for trial in completed.unbegun if trial.id not in met):
            runs.complete = False
            runs.left_out |= {node: self._away[node] for node in groups[trial.system] if node in self._away}

    def _reasons_against(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Why no job can be started on some of the nodes right now."""
        there = {member.name: member for member in self._ask()}
        why = {name: _why_not(there.get(name)) for name in nodes}
        self._away = {name: reason for name, reason in why.items() if reason}
        return self._away

    def _most_nodes(self, nodes: Sequence[str]) -> int:
        return max(1, math.floor(self._request.share * len(nodes) + 1e-9))

    def _late(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _note(self, runs: SweepRuns) -> None:
        most = self._most_nodes(runs.nodes)
        alone = ", a pair alone" if most < 2 else ""
        busy = f"at most {most} busy at once{alone} (--share {self._request.share:.0%})"
        out = "".join(f"\n  left out, {line}" for line in by_reason(runs.left_out))
        self._noted(f"{self._request.where.name}: {len(runs.nodes)} nodes, {busy}{out}")


def _why_not(member: Member | None) -> str:
    return "it no longer exists" if member is None else member.away or member.used


def by_reason(why: Mapping[str, str]) -> list[str]:
    """Node → reason, one line per reason: `not ready: n1, n2 and 30 more`."""
    nodes: dict[str, list[str]] = {}
    for node, reason in sorted(why.items()):
        nodes.setdefault(reason, []).append(node)
    return [f"{reason}: {_few(members)}" for reason, members in nodes.items()]


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _groups(nodes: Sequence[str], there: Mapping[str, Member], by: str) -> dict[str, str]:
    """Node → what it shares. Raises InputError if the label does not exist on each."""
    if not by:
        return {}
    lacking = [node for node in nodes if node not in there or by not in there[node].shared]
    if lacking:
        what = "have no such label; give them one, or name the others by --nodes"
        raise InputError(f"--by {by}: {_few(lacking)} {what}")
    return {node: there[node].shared[by] for node in nodes}


def _metrics(completed: CompletedSession) -> Callable[[Run], Mapping[str, Metric]]:
    return RunSet(completed.session.id, completed.results, completed.plan).metrics()


def stored(runs_dir: Path, references: Sequence[str]) -> tuple[Figures | None, set[str]]:
    """The combined results of a baseline's sessions, and these sessions; None if none is named.

    Raises InputError if one has no results.
    """
    from assay.analyse.sweeps.verdicts import figures_of

    figures: dict[str, SweepFigure] = {}
    sessions: set[str] = set()
    for run_set in run_sets(runs_dir, references):
        its = figures_of(run_set.results, run_set.metrics())
        if not its:
            raise InputError(f"--baseline {run_set.reference}: none of its runs has a result")
        figures |= its
        sessions |= {f"{result.run.suite}/{result.run.session}" for result in run_set.results}
    return figures or None, sessions
