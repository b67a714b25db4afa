"""The report of a sweep's sessions: a page about nodes and pairs, not about sides to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem
from assay.inputs import read_json

if TYPE_CHECKING:
    from assay.analyse.sweeps.verdicts import SweepSession
    from assay.questions.evidence import RunSet
    from assay.records import Result
    from assay.view.contents import Recipe
    from assay.view.sweep import SweepReport

Definitions = Mapping[str, Mapping[str, Any]]


def is_sweep(sets: Sequence[RunSet], runs_dir: Path) -> bool:
    """Whether the report is only about a sweep's nodes, pairs and rings; rings alone don't count."""
    from assay.node_sweep import NODES, PAIRS, RINGS

    suites = {result.run.suite for run_set in sets for result in run_set.results}
    if not suites <= {NODES, PAIRS, RINGS} or suites == {RINGS}:
        return False
    return all(_definitions(run_set, runs_dir) for run_set in sets)


def sweep_of(
    sets: Sequence[RunSet], runs_dir: Path, margin: float | None, recipes: Sequence[Recipe]
) -> SweepReport:
    """The sweep, judged again: of two sessions of nodes, or of pairs, the first is the baseline.

    margin  tolerated loss relative to it, as a share. Raises InputError for more sessions than it can
            combine.
    """
    from assay.analyse.sweeps.verdicts import BORNE_BEFORE, judge_sweep
    from assay.node_sweep import NODES, PAIRS, RINGS, keep_off_methods
    from assay.view.contents import failures
    from assay.view.sweep import SweepReport

    definitions = {
        name: definition for run_set in sets for name, definition in _definitions(run_set, runs_dir).items()
    }
    alone, together, rings = (
        [_measured(run_set, definitions) for run_set in sets if _suite(run_set) == suite]
        for suite in (NODES, PAIRS, RINGS)
    )
    if len(alone) > 2 or len(together) > 2:
        raise InputError("a sweep's report takes a session of nodes and one of pairs, each with its baseline")
    shared = _shared(runs_dir, together[-1].session) if together else {}
    before = {
        **(alone[0].figures if len(alone) > 1 else {}),
        **(together[0].figures if len(together) > 1 else {}),
    }
    verdicts = judge_sweep(
        alone[-1] if alone else None,
        together[-1] if together else None,
        rings,
        hosts=_hosts(definitions),
        groups=shared,
        nodes_before=before if len(alone) > 1 else None,
        pairs_before=before,
        margin=margin or BORNE_BEFORE,
    )
    results = [result for run_set in sets for result in run_set.results]
    slow = verdicts.losses
    off = keep_off_methods(next(iter(definitions.values())), slow) if slow else ()
    return SweepReport(
        title=f"Sweep of {len(_nodes(definitions))} nodes",
        verdicts=verdicts,
        runs=len(results),
        about=_about(definitions, results),
        keep_off={f"{way.form}: {way.does}": _commands(way.apply, way.undo) for way in off},
        failures=[failed for run_set in sets for failed in failures(run_set.reference, run_set.results)],
        unfinished=sum(not result.run.state.final for result in results),
        recipes=[_without_systems(recipe) for recipe in recipes],
    )


def slow_systems(session: str, runs_dir: Path) -> Mapping[str, str]:
    """System of a node → what the page of this sweep's session says of it, if it says that the node is slow.

    session  `<suite>/<session>`; empty if it is no sweep. Raises InputError if it can't be judged.
    """
    from assay.questions.evidence import run_set
    from assay.view.sentences.sweep import told_apart

    sets = [run_set(runs_dir, session)]
    if not is_sweep(sets, runs_dir):
        return {}
    verdicts = sweep_of(sets, runs_dir, None, ()).verdicts
    slow_nodes = dict(told_apart(verdicts.nodes, verdicts.pairs, verdicts.hosts))
    return {name: slow_nodes[hosts[0]] for name, hosts in verdicts.hosts.items() if hosts[0] in slow_nodes}


def _suite(run_set: RunSet) -> str:
    return run_set.results[0].run.suite


def _definitions(run_set: RunSet, runs_dir: Path) -> Definitions:
    """Each system that was swept, as its session recorded it; empty for a user's own suite."""
    from assay.node_sweep import bound

    run = run_set.results[-1].run
    path = runs_dir / run.suite / run.session / "systems.yaml"
    try:
        entries = read_json(path)  # `assay sweep` writes no other YAML
        return {name: entries[name] for name in run_set.by_system() if bound(entries[name])}
    except (InputError, KeyError, TypeError):
        return {}


def _shared(runs_dir: Path, session: str) -> Mapping[str, str]:
    """Node → what it shares with others, from the sweep's --by; {} without --by."""
    from assay.node_sweep import GROUPS_FILE, PAIRS

    path = runs_dir / PAIRS / session / GROUPS_FILE
    if not path.exists():
        return {}
    shared = read_json(path)
    if not isinstance(shared, dict):
        raise InputError([Problem(str(path), "not what `assay sweep` writes: expected an object of texts")])
    return shared


def _hosts(definitions: Definitions) -> dict[str, tuple[str, ...]]:
    from assay.node_sweep import bound

    return {name: bound(definition) for name, definition in definitions.items()}


def _nodes(definitions: Definitions) -> set[str]:
    return {node for hosts in _hosts(definitions).values() for node in hosts}


def _measured(run_set: RunSet, definitions: Definitions) -> SweepSession:
    from assay.analyse.sweeps.verdicts import SweepSession, figures_of

    figures = figures_of(run_set.results, run_set.metrics())
    return SweepSession(run_set.results[0].run.session, figures, _hosts(definitions))


def _about(definitions: Definitions, results: Sequence[Result]) -> list[tuple[str, str]]:
    from assay.view.sentences.history import when

    begun = [result.run.created_at for result in results]
    launchers = dict.fromkeys(definition["launcher"] for definition in definitions.values())
    return [
        ("Nodes", str(len(_nodes(definitions)))),
        ("Reached through", ", ".join(launchers)),
        ("Runs", str(len(results))),
        ("When", f"{when(min(begun))} to {when(max(begun))} UTC"),
    ]


def _commands(apply: Sequence[str], undo: Sequence[str]) -> str:
    return "\n".join([*apply, *(f"# {line}" for line in undo)])


def _without_systems(recipe: Recipe) -> Recipe:
    """A sweep creates a system for each pair: thousands, which follow from the one that was swept."""
    files = {name: text for name, text in recipe.files.items() if name == "suite.yaml"}
    return replace(recipe, files=files, commands={})
