"""Which nodes of a system are slow, which links between them, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import runs_directory
from assay.questions.sweep_runs import Sweep, SweepRequest, SweepRuns, stored
from assay.questions.systems import system_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from assay.analyse.sweeps.verdicts import Pairs, SweepVerdicts
    from assay.launch.platform import KeepOffMethod
    from assay.run.progress import Tell
    from assay.suite.model import System


@dataclass(frozen=True)
class SweepResult:
    """The result of `sweep`.

    runs      what was measured so far, and what remains for the next call
    verdicts  what is slow
    keep_off  ways to keep jobs off the slow nodes, as commands that Assay did not run
    """

    runs: SweepRuns
    verdicts: SweepVerdicts
    keep_off: tuple[KeepOffMethod, ...]

    def document(self, system: str) -> dict[str, Any]:
        """The output of `--json`; a number that does not exist is null."""
        from assay.analyse.points.groups import cause
        from assay.records import to_plain

        runs = self.runs
        return {
            "schema": "assay.sweep/1",
            "system": system,
            "sessions": [measured.session for measured in runs.measured],
            "complete": runs.complete,
            "left_out": [{"node": node, "why": why} for node, why in sorted(runs.left_out.items())],
            **_verdicts_as_data(self.verdicts),
            "keep_off": to_plain(self.keep_off),
            "failures": [{"trial": result.run.trial.id, "cause": cause(result)} for result in runs.failures],
        }


def sweep(
    system: str | System,
    *,
    systems: str | PathLike[str] | None = None,
    rounds: int = 5,
    repeats: int = 3,
    seconds: float = 1.0,
    device: str = "auto",
    nodes: Sequence[str] = (),
    idle: bool = False,
    share: float = 0.25,
    for_s: float | None = None,
    by: str = "",
    disk: str = "",
    baseline: str | Sequence[str] = (),
    margin: float | None = None,
    new: bool = False,
    runs: str | PathLike[str] | None = None,
    progress: Tell | None = None,
    noted: Callable[[str], None] | None = None,
    command_line: Sequence[str] = (),
) -> SweepResult:
    """Each node alone, then pairs in rounds, then rings, judged, like `assay sweep SYSTEM`.

    system        its name, or the system itself
    systems       the file with a system of this name; None: systems.yaml here
    rounds        of pairs; 0: neither pairs nor rings
    repeats       runs of each
    seconds       measured in each run
    device        auto, cpu or cuda
    nodes         only these; empty: all
    idle          start nothing on nodes that others are using
    share         maximum share of the nodes to use at once, above 0 to 1
    for_s         start no trial after this many seconds; None: no limit
    by            label of what nodes share, to judge that and its rings, too; "": none
    disk          directory on each node, from which reading is measured; "": none
    baseline      runs of an earlier sweep of the same nodes, of one name or several
    margin        tolerated loss relative to it, as a share; None means 5 %
    new           start again even if a sweep is unfinished
    runs          directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    progress      creates the receiver of each session's events; None: nobody
    noted         takes messages about the sweep as a whole; None: nobody
    command_line  as typed, recorded in the sessions

    Raises InputError if the system can't be swept or a baseline does not match, and what `run` raises.
    """
    from assay.analyse.sweeps.verdicts import BORNE_BEFORE, judge_sweep
    from assay.node_sweep import keep_off_methods
    from assay.run.progress import Silence

    where = system_named(system, systems) if isinstance(system, str) else system
    directory = runs_directory(runs)
    references = (baseline,) if isinstance(baseline, str) else tuple(baseline)
    before, sessions = stored(directory, references)
    request = SweepRequest(
        where=where,
        runs_dir=directory,
        repeats=repeats,
        device=device,
        seconds=seconds,
        rounds=rounds,
        share=share,
        named=tuple(nodes),
        idle=idle,
        by=by,
        disk=disk,
        for_s=for_s,
        new=new,
        command_line=command_line,
    )
    measured = Sweep(request, progress or Silence, noted or _nobody).run()
    if sessions & {session.session for session in measured.measured}:
        raise InputError(
            f"--baseline {', '.join(references)} is the sweep that was resumed here; add --new, or name "
            "another"
        )
    alone, *together = measured.measured
    verdicts = judge_sweep(
        alone,
        together[0] if together else None,
        together[1:],
        hosts=alone.hosts,
        groups=measured.groups,
        nodes_before=before,
        pairs_before=before,
        margin=BORNE_BEFORE if margin is None else margin,
    )
    return SweepResult(measured, verdicts, keep_off_methods(where.definition, verdicts.losses))


def _nobody(_words: str) -> None:
    """Ignores messages."""


def _verdicts_as_data(verdicts: SweepVerdicts) -> dict[str, Any]:
    from assay.records import to_plain

    return {
        "nodes": [
            {
                "benchmark": measurement.point.benchmark,
                "metric": measurement.point.metric,
                "unit": measurement.point.unit,
                "slow": measurement.slow,
                "judged": measurement.judged,
                "crowd": to_plain(measurement.crowd),
                "changes": to_plain(measurement.changes),
            }
            for measurement in verdicts.nodes
        ],
        "pairs": None if verdicts.pairs is None else _pairs_as_data(verdicts.pairs),
        "rings": to_plain(verdicts.rings),
    }


def _pairs_as_data(pairs: Pairs) -> dict[str, Any]:
    from assay.records import to_plain

    ratios = [{"nodes": [*pair], "ratio": ratio} for pair, ratio in pairs.ratios.items()]
    changes = to_plain(pairs.changes)
    return {
        "ratios": ratios,
        "groups": dict(pairs.groups),
        "blame": to_plain(pairs.blame),
        "changes": changes,
    }


def judged_sweep_document(run: str, verdicts: SweepVerdicts) -> dict[str, Any]:
    """What is slow in the sweep of these runs, with the keys of `assay sweep --json`."""
    return {"schema": "assay.judged-sweep/1", "run": run, **_verdicts_as_data(verdicts)}
