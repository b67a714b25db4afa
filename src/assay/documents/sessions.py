"""`assay run --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain
from assay.report.sentences import why as why_words

if TYPE_CHECKING:
    from assay.questions.run import RunResult
    from assay.records import Result
    from assay.run.drive import CompletedSession
    from assay.run.interim_looks import Look


def document(run_result: RunResult) -> dict[str, Any]:
    """The output of `--json`."""
    completed, contents = run_result.completed, run_result.contents

    return {
        "schema": "assay.run/1",
        "session": completed.session.id,
        "path": str(completed.session.path),
        "suite": completed.plan.suite,
        "suite_digest": completed.plan.suite_digest,
        "until": None if completed.look is None else _until(completed.look),
        "trials": [_trial(result, completed) for result in completed.results],
        "failures": [
            {"trial": r.run.trial.id, "cause": r.run.cause or "; ".join(r.reading.problems)}
            for r in completed.failures
        ],
        "held": [
            {"trial": run.trial.id, "extent": run.extent.value, "cause": run.cause} for run in completed.held
        ],
        "left": [trial.id for trial in completed.left],
        "comparisons": [to_plain(comparison) for comparison in contents.comparisons],
        "slower": why_words.plain(run_result.primary, contents.sides, contents.margin),
        "scaling": [to_plain(curve) for curve in contents.curves],
        "requirements": [to_plain(requirement) for requirement in contents.requirements],
        "doubts": [to_plain(doubt) for doubt in run_result.doubts],
        **({} if run_result.gate is None else {"gate": run_result.gate.document()}),
    }


def _until(look: Look) -> dict[str, Any]:
    return {
        "blocks": look.blocks,
        "max_repeats": look.most,
        "looks": list(look.looks),
        "ended": look.ended,
        "open": list(look.open),
    }


def _trial(result: Result, completed: CompletedSession) -> dict[str, Any]:
    run = result.run
    return {
        "trial": run.trial.id,
        "benchmark": run.trial.benchmark,
        "system": run.trial.system,
        "shape": str(run.trial.shape),
        "block": run.trial.block,
        "attempt": run.attempt,
        "lost": [{"attempt": lost.attempt, "cause": lost.cause} for lost in completed.lost(result)],
        "state": run.state.value,
        "adopted": run.adopted,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "measurements": [to_plain(measurement) for measurement in result.reading.measurements],
    }
