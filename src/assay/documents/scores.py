"""`assay score --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.analyse.doubts.inference import doubts_of_inference
from assay.analyse.mlperf.inference_rules import check_inference
from assay.analyse.mlperf.rules import NOT_VERIFIED

if TYPE_CHECKING:
    from assay.analyse.mlperf.score import ScoredSet
    from assay.questions.score import Scores
    from assay.records import InferenceRun, TrainingRun


def document(scores: Scores, *, rules: bool) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.score/1",
        "label": NOT_VERIFIED,
        "sets": [_set(scored) for scored in scores.sets],
        "inference": [_inference(run, rules=rules) for run in scores.inference],
    }


def _set(scored: ScoredSet) -> dict[str, Any]:
    score = scored.score
    return {
        "set": scored.name,
        "benchmark": scored.benchmark,
        "round": scored.round,
        "system": scored.system,
        "score_minutes": score.minutes,
        "official_rule_minutes": score.official,
        "scaled_score_minutes": score.scaled,
        "scaling_factor": scored.scaling_factor,
        "stated_minutes": scored.stated_minutes,
        "mean_minutes": score.mean,
        "std_minutes": score.std,
        "runs_required": score.rule.runs if score.rule else None,
        **_rules(scored),
        "runs": [_run(run) for run in scored.runs],
        "doubts": [asdict(doubt) for doubt in scored.doubts],
    }


def _rules(scored: ScoredSet) -> dict[str, Any]:
    """The rules and their checks, if requested."""
    if scored.rules is None:
        return {}
    rule = scored.rules.runs
    return {
        "rule": str(scored.rules),
        "runs_dropped_each_side": rule.dropped if rule else None,
        "failures_allowed": rule.failures if rule else None,
        "targets": [asdict(target) for target in scored.rules.targets],
        "checks": [asdict(check) for check in scored.checks],
    }


def _run(run: TrainingRun) -> dict[str, Any]:
    return {
        "file": run.file,
        "status": run.status,
        "problem": run.problem or None,
        "minutes": run.minutes,
        "epochs": run.epochs,
        "minutes_per_epoch": run.minutes_per_epoch,
        "samples": run.samples,
        "samples_per_s": run.samples_per_s,
        "global_batch_size": run.global_batch_size,
        "train_samples": run.train_samples,
        "data_set_samples": run.data_set_samples,
        "target_reached": run.target_reached,
        "training_samples_per_s": run.training_samples_per_s,
        "tracked_samples_per_s": run.tracked_samples_per_s,
        "init_minutes": run.init_minutes,
        "phases": None if run.phases is None else asdict(run.phases),
        "evaluations": [list(point) for point in run.evaluations],
        "notes": list(run.notes),
    }


def _inference(run: InferenceRun, *, rules: bool) -> dict[str, Any]:
    """A run as plain data: its score and values, its settings, doubts and checks."""
    document = {
        "run": run.name,
        "files": list(run.files),
        "place": asdict(run.place) if run.place else None,
        "scenario": run.scenario,
        "mode": run.mode,
        "validity": run.validity,
        "problem": run.problem or None,
        "score": asdict(run.score) if run.score else None,
        "figures": [asdict(figure) for figure in run.figures],
        "accuracy": _accuracy(run),
        "settings": {
            key: setting.value for key, setting in run.stated.items() if key.startswith("effective_")
        },
        "doubts": [asdict(doubt) for doubt in doubts_of_inference(run)],
    }
    if rules:
        document["checks"] = [asdict(check) for check in check_inference(run)]
    return document


def _accuracy(run: InferenceRun) -> dict[str, Any] | None:
    """The accuracy run next to a run: its values, or why it states none; None if there is none."""
    if run.accuracy is None:
        return None
    figures = {metric: stated.value for metric, stated in run.accuracy.figures.items()}
    return {"figures": figures, "problem": run.accuracy.problem or None}
