"""MLPerf results, scored by the rules of their round."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.questions.question import (
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function_of_many,
    option,
    progress_line,
    question,
    read_value,
)

if TYPE_CHECKING:
    from assay.analyse.mlperf.score import ScoredSet
    from assay.formats.result_sets import ResultSet
    from assay.records import InferenceRun, TrainingRun
    from assay.store.layout import FileStamp
    from assay.view.blocks import Block

Progress = Callable[[int, int], None]
"""Takes the number of sets read so far and in total."""


def round_of(text: str) -> str:
    """A round as MLCommons writes it. Raises ValueError on anything else."""
    if not re.fullmatch(r"v\d+\.\d+", text):
        raise ValueError(f"{text!r} is not a round; write it as v3.1")
    return text


@question
class Score(Question):
    """Score MLPerf logs: time to train by the rules of benchmark and round, inference by its scenario.

    PATH is a folder with result_*.txt (.gz, .xz) anywhere below it, or a log file. Every folder with result
    files is a set. Its score is the mean of its runs without the fastest and the slowest, if it has as
    many runs as the rules require; otherwise it has no score, and the doubts state why. Nothing is written.

    --stated compares the published score with the one that follows from the logs, including the scaling
    factor, after rounding; if they differ, the doubt `score-contradicts` is raised.

    A folder with LoadGen's mlperf_log_summary.txt or mlperf_log_detail.txt is an inference run; so is a
    log that you name directly and that contains the result line of MLPerf's reference app.

    \b
    Examples:
      assay score training_results_v3.1/NVIDIA
      assay score my-logs --round v4.0
      assay score my-logs --rules
      assay score my-logs/ssd --stated 22.36
      assay score my-logs --stated published.csv
      assay score result_0.txt --json
      assay score resnet50/Server/performance/run_1 --rules

    \b
    Exit codes: 0 every file is a complete log; 1 a file is not (empty, cut short, without run_stop, …),
    an inference run is not a valid result, a check fails (--rules), or a stated score does not follow;
    4 a path doesn't exist or contains no results.
    A run that did not converge is a complete log.
    """

    paths: tuple[Reference, ...] = argument(parameters=("path", "paths"))
    round: Annotated[str, Reads(round_of, "ROUND")] | None = option(
        "Round, if neither log nor folder states it, such as v3.1.", default=None
    )
    stated: float | Reference | None = option(
        "A published score: of the only set, in minutes, or of several in a CSV of system,benchmark,minutes.",
        default=None,
        metavar="MIN|CSV",
        local=True,
    )
    runs_table: bool = option(
        "Show individual runs.  [default: runs-table]",
        default=True,
        names=("--runs-table/--no-runs-table",),
        output=True,
    )
    rules: bool = option("Show the rules used and each check: of the set, of each log.", default=False)
    progress: Progress | None = progress_line(lambda read, sets: f"{read} of {sets} sets read", default=None)

    def answer(self) -> Scores:
        """Every set and inference run below the paths."""
        from assay.formats.mlperf_inference import inference_runs, told_apart

        of_round = read_value("round", self.round, round_of)
        training, inference = told_apart([Path(path) for path in self.paths])
        sets = scored_sets(training, of_round, rules=self.rules, progress=self.progress)
        sets = _with_published(None if self.stated is None else str(self.stated), sets)
        return Scores(tuple(sets), tuple(inference_runs(inference)), self.rules, self.runs_table)


score = function_of_many(Score, Score.answer)


@dataclass(frozen=True)
class Scores(Answer):
    """The result of `score`; iterating gives the sets of training logs, each with its score and its doubts.

    sets       sets of training logs
    inference  inference runs
    checked    whether the rules of their rounds were checked
    with_runs  whether the runs of each set are shown too
    """

    sets: tuple[ScoredSet, ...]
    inference: tuple[InferenceRun, ...] = ()
    checked: bool = False
    with_runs: bool = True

    def __iter__(self) -> Iterator[ScoredSet]:
        return iter(self.sets)

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def sound(self) -> bool:
        """Whether every log is complete and valid, no check fails and every stated score follows."""
        from assay.analyse.mlperf.inference_rules import check_inference
        from assay.analyse.mlperf.score_doubts import SCORE_CONTRADICTS

        checks = [check for scored in self.sets for check in scored.checks]
        checks += [check for run in self.inference if self.checked for check in check_inference(run)]
        incomplete = any(
            run.status in ("unfinished", "invalid") for scored in self.sets for run in scored.runs
        )
        no_result = any(run.problem and not (run.mode or "").startswith("Accuracy") for run in self.inference)
        contradicted = any(
            doubt.code == SCORE_CONTRADICTS.code for scored in self.sets for doubt in scored.doubts
        )
        return not (incomplete or no_result or contradicted or any(c.state == "fail" for c in checks))

    @property
    def exit_code(self) -> int:
        """Whether all is sound."""
        return EXIT_OK if self.sound else EXIT_WORSE

    def view(self) -> Iterator[Block]:
        """Each set and each inference run with its score, its doubts, and its checks if requested."""
        from assay.view import scores

        return scores.scores(self.sets, self.inference, with_runs=self.with_runs, checked=self.checked)

    def document(self) -> dict[str, Any]:
        """The document, as its schema describes it."""
        from assay.analyse.mlperf.rules import NOT_VERIFIED

        return {
            "schema": "assay.score/1",
            "label": NOT_VERIFIED,
            "sets": [_set_as_data(scored) for scored in self.sets],
            "inference": [_inference_as_data(run, rules=self.checked) for run in self.inference],
        }


def scored_sets(
    paths: Sequence[Path],
    round_: str | None = None,
    *,
    rules: bool = False,
    progress: Progress | None = None,
) -> list[ScoredSet]:
    """Every set of result files below the paths, scored. Raises InputError if a path contains none.

    rules     also check each set against the rules of its round: every log is read once more
    progress  called before each set with the number of those read and in total
    """
    from assay.formats.result_sets import find_sets

    results = []
    sets = find_sets(paths)
    for index, result_set in enumerate(sets):
        if progress is not None:
            progress(index, len(sets))
        scored = score_result_set(result_set, round_)
        results.append(_checked(result_set, scored) if rules else scored)
    return results


def _with_published(stated: str | None, sets: list[ScoredSet]) -> list[ScoredSet]:
    """The sets with their published scores, and a doubt if a score doesn't follow from their logs.

    stated  minutes of the only set, or the path of a sheet

    Raises InputError if it is neither, if one value is given for several sets, or if no row of a
    sheet is about a set here.
    """
    from assay.analyse.mlperf.score_doubts import score_contradicts
    from assay.formats.stated_scores import of_set, stated_scores

    if stated is None:
        return sets
    published_scores = stated_scores(stated)
    if any(s.system is None for s in published_scores) and len(sets) != 1:
        raise InputError(
            f"stated: one value is given for {len(sets)} sets; score one set, or give a CSV of "
            "system,benchmark,minutes"
        )
    held = []
    for scored in sets:
        published = of_set(published_scores, scored.system, scored.benchmark)
        if published is None:
            held.append(scored)
            continue
        what = f"{scored.benchmark or 'unknown benchmark'} on {scored.system or 'an unknown system'}, minutes"
        doubt = score_contradicts(
            published.minutes, scored.score.scaled, decimals=published.decimals, what=what
        )
        doubts = scored.doubts if doubt is None else (doubt, *scored.doubts)
        held.append(replace(scored, stated_minutes=published.minutes, doubts=doubts))
    if all(scored.stated_minutes is None for scored in held):
        here = ", ".join(f"{scored.system},{scored.benchmark}" for scored in held[:5])
        raise InputError(f"stated: no row of the sheet is about a set here; the sets are {here}")
    return held


def _checked(result_set: ResultSet, scored: ScoredSet) -> ScoredSet:
    from assay.analyse.mlperf.rounds import rules_of
    from assay.analyse.mlperf.rules import check_set
    from assay.formats.outline import outline

    rules = rules_of(scored.benchmark, scored.round)
    outlines = [outline(file) for file in result_set.files]
    checks = check_set(scored.runs, outlines, rules, scaling_factor=scored.scaling_factor)
    return replace(scored, rules=rules, checks=checks)


def score_result_set(result_set: ResultSet, round_: str | None = None) -> ScoredSet:
    """A set with its score; its logs are read again only when one of them has changed.

    round_  for logs that don't state it
    """
    around = repr((result_set.name, result_set.system_facts, result_set.scaling_factor, result_set.problems))
    stamps = tuple((str(log), _stamp(log)) for log in result_set.files)
    return _scored(_StampedSet(around, stamps, result_set), round_)


@dataclass(frozen=True)
class _StampedSet:
    """A set that is equal to itself only while its logs and what is around them stay as they are."""

    around: str
    logs: tuple[tuple[str, FileStamp | None], ...]
    result_set: ResultSet = field(compare=False)


def _stamp(log: Path) -> FileStamp | None:
    from assay.store.layout import file_stamp

    try:
        return file_stamp(log)
    except OSError:  # reading it says why
        return None


@lru_cache(maxsize=1024)  # more than a round has
def _scored(stamped: _StampedSet, round_: str | None) -> ScoredSet:
    from assay.analyse.doubts.result_sets import UNREADABLE_FILE, doubts_of_set
    from assay.analyse.mlperf.score import ScoredSet, score
    from assay.formats.mlperf import training_runs

    result_set = stamped.result_set
    runs = tuple(training_runs(result_set, round_=round_))
    benchmark = _most_common(run.benchmark for run in runs) or result_set.benchmark
    of_round = _most_common(run.round for run in runs) or result_set.round or round_
    result = score(runs, benchmark=benchmark, round_=of_round, scaling_factor=result_set.scaling_factor)
    beside = (UNREADABLE_FILE.doubt(f"{p.where}: {p.what}") for p in result_set.problems)
    return ScoredSet(
        name=result_set.name,
        benchmark=benchmark,
        round=of_round,
        system=result_set.system,
        runs=runs,
        scaling_factor=result_set.scaling_factor,
        score=result,
        doubts=(
            *result.doubts,
            *doubts_of_set(runs, system=result_set.system, system_facts=result_set.system_facts),
            *beside,
        ),
    )


def _most_common(names: Iterable[str | None]) -> str | None:
    known = Counter(name for name in names if name is not None)
    return known.most_common(1)[0][0] if known else None


def _set_as_data(scored: ScoredSet) -> dict[str, Any]:
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
        **_rules_as_data(scored),
        "runs": [_run_as_data(run) for run in scored.runs],
        "doubts": [asdict(doubt) for doubt in scored.doubts],
    }


def _rules_as_data(scored: ScoredSet) -> dict[str, Any]:
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


def _run_as_data(run: TrainingRun) -> dict[str, Any]:
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


def _inference_as_data(run: InferenceRun, *, rules: bool) -> dict[str, Any]:
    """A run as plain data: its score and values, its settings, doubts and checks."""
    from assay.analyse.doubts.inference import doubts_of_inference
    from assay.analyse.mlperf.inference_rules import check_inference

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
        "accuracy": _accuracy_as_data(run),
        "settings": {
            key: setting.value for key, setting in run.stated.items() if key.startswith("effective_")
        },
        "doubts": [asdict(doubt) for doubt in doubts_of_inference(run)],
    }
    if rules:
        document["checks"] = [asdict(check) for check in check_inference(run)]
    return document


def _accuracy_as_data(run: InferenceRun) -> dict[str, Any] | None:
    """The accuracy run next to a run: its values, or why it states none; None if there is none."""
    if run.accuracy is None:
        return None
    figures = {metric: stated.value for metric, stated in run.accuracy.figures.items()}
    return {"figures": figures, "problem": run.accuracy.problem or None}
