"""A set of training logs checked against the rules of its benchmark and round, as a set and log by log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from assay.analyse.mlperf.log_rules import RuleCheck, State, check_log
from assay.analyse.mlperf.rounds import RoundRules
from assay.records import LogOutline, Scalar, TrainingRun
from assay.targets import ROUNDS, benchmarks_of, era_of

NOT_VERIFIED = "Result not verified by MLCommons Association"
"""Required next to every result that MLCommons has not published itself."""


def check_set(
    runs: Sequence[TrainingRun],
    outlines: Sequence[LogOutline],
    rules: RoundRules,
    *,
    scaling_factor: float | None,
) -> tuple[RuleCheck, ...]:
    """Every check of a set: those of the set first, then those of each log in the order of the runs.

    outlines  of the same files in the same order
    """
    checks = [
        _known_round(rules),
        _number_of_runs(runs, rules),
        _failures(runs, rules),
        _seeds(runs),
        _one_configuration(runs),
        _scaling(scaling_factor),
    ]
    for run, seen in zip(runs, outlines, strict=True):
        checks += check_log(run, seen, rules)
    return tuple(checks)


def _known_round(rules: RoundRules) -> RuleCheck:
    name = "benchmark is one of the round's"
    if rules.round not in ROUNDS or rules.benchmark is None:
        missing = "the benchmark" if rules.benchmark is None else f"round {rules.round or 'of these logs'}"
        return RuleCheck(
            name, "not applicable", f"{missing} is unknown; state it with --round or by the folder"
        )
    if era_of(rules.benchmark, rules.round):
        return RuleCheck(name, "ok", f"{rules.benchmark} in {rules.round}")
    known = ", ".join(benchmarks_of(rules.round))
    return RuleCheck(name, "fail", f"{rules.round} has no {rules.benchmark}; it has {known}")


def _number_of_runs(runs: Sequence[TrainingRun], rules: RoundRules) -> RuleCheck:
    name = "number of runs"
    if rules.runs is None:
        return RuleCheck(name, "not applicable", "no rule is known for the benchmark")
    needed = rules.runs.runs
    return RuleCheck(name, "ok" if len(runs) == needed else "fail", f"{len(runs)} of {needed} result files")


def _failures(runs: Sequence[TrainingRun], rules: RoundRules) -> RuleCheck:
    name = "runs that did not converge"
    if rules.runs is None:
        return RuleCheck(name, "not applicable", "no rule is known for the benchmark")
    failed = sum(run.status == "aborted" for run in runs)
    state: State = "ok" if failed <= rules.runs.failures else "fail"
    return RuleCheck(name, state, f"{failed} of {len(runs)}; at most {rules.runs.failures} may")


def _seeds(runs: Sequence[TrainingRun]) -> RuleCheck:
    name = "seeds differ"
    by_seed: dict[Scalar, list[str]] = defaultdict(list)
    for run in runs:
        if (seed := run.hyperparameters.get("seed")) is not None:
            by_seed[seed].append(run.file)
    shared = [f"{', '.join(files)} have seed {seed}" for seed, files in by_seed.items() if len(files) > 1]
    if shared:
        return RuleCheck(name, "fail", "; ".join(shared[:5]))
    logged = sum(map(len, by_seed.values()))
    if len(runs) < 2 or logged < len(runs):
        return RuleCheck(name, "not applicable", f"{logged} of {len(runs)} runs log a seed")
    return RuleCheck(name, "ok", f"{len(by_seed)} seeds in {len(runs)} runs")


def _one_configuration(runs: Sequence[TrainingRun]) -> RuleCheck:
    name = "one configuration"
    batches = {run.global_batch_size for run in runs if run.global_batch_size is not None}
    benchmarks = {run.benchmark for run in runs if run.benchmark is not None}
    if len(benchmarks) > 1:
        return RuleCheck(name, "fail", f"benchmarks {', '.join(sorted(benchmarks))}")
    if len(batches) > 1:
        return RuleCheck(name, "fail", f"global batch sizes {', '.join(map(str, sorted(batches)))}")
    if not batches or len(runs) < 2:
        return RuleCheck(
            name, "not applicable", "a single run" if len(runs) < 2 else "no run logs its batch size"
        )
    return RuleCheck(name, "ok", f"global batch size {batches.pop()} in all runs")


def _scaling(factor: float | None) -> RuleCheck:
    name = "scaling factor"
    if factor is None:
        return RuleCheck(name, "fail", "scaling.json exists but can't be parsed")
    if factor == 1:
        return RuleCheck(name, "not applicable", "no scaling.json, or a factor of 1")
    return RuleCheck(name, "ok", f"{factor:.6g} from scaling.json")
