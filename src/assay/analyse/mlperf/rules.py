"""Training logs checked against the rules of their benchmark and round, as a set and log by log.

A check that the log or the round doesn't allow is `not applicable` and states why; it is never `ok` by
default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from assay.analyse.mlperf.likeness import files_by_seed, shared_seeds
from assay.analyse.mlperf.rounds import (
    OPEN_DIVISION_FREE,
    RequiredKeys,
    RoundRules,
    allowed_values,
    init_limit_minutes,
)
from assay.records import LoggedKey, LogOutline, Scalar, TrainingRun
from assay.targets import ROUNDS, QualityTarget, benchmarks_of, era_of

State = Literal["ok", "fail", "not applicable"]


@dataclass(frozen=True)
class RuleCheck:
    """One rule checked against one log, or against the set.

    rule      in a few words
    evidence  what was found, and what is required if the rule is not met
    where     `result_0.txt:42`; only the file if no line shows it; "" for the set
    """

    rule: str
    state: State
    evidence: str
    where: str = ""


def check_log(run: TrainingRun, seen: LogOutline, rules: RoundRules) -> tuple[RuleCheck, ...]:
    """Every check of one log."""
    free = _first(seen, "submission_division") == "open" and not rules.binds_open
    targets = () if free else rules.targets
    return (
        _understood(run, seen),
        *_keys(run, seen, rules.keys),
        *_values(run, seen, rules.round),
        _order(run, seen),
        _status(run, seen),
        _caches(run, seen),
        _initialisation(run, seen, rules.round),
        *(_target(run, seen, target) for target in targets),
        *([] if targets else [_no_target(run, rules)]),
    )


def _understood(run: TrainingRun, seen: LogOutline) -> RuleCheck:
    name = "every MLPerf line understood"
    if seen.skipped_at:
        lines = ", ".join(map(str, seen.skipped_at))
        return RuleCheck(
            name, "fail", f"these lines were not understood: {lines}", _at(run, seen.skipped_at[0])
        )
    if not seen.keys:
        return RuleCheck(name, "fail", run.problem or "no MLPerf log line", run.file)
    total = sum(key.count for key in seen.keys.values())
    return RuleCheck(name, "ok", f"{total} lines", run.file)


def _keys(run: TrainingRun, seen: LogOutline, keys: RequiredKeys | None) -> Iterator[RuleCheck]:
    """Keys that the log must contain: one check if all is well, else one per key."""
    once, some = "keys that occur exactly once", "keys that occur at least once"
    if keys is None:
        why = f"the requirements of {run.round or 'an unknown round'} are unknown"
        yield RuleCheck(once, "not applicable", why, run.file)
        yield RuleCheck(some, "not applicable", why, run.file)
        return
    division = _first(seen, "submission_division")
    required = [key for key in keys.once if not (division == "open" and key in OPEN_DIVISION_FREE)]
    wrong = [check for key in required if (check := _not_once(run, key, seen.keys.get(key)))]
    repeated = [key for key in required if (logged := seen.keys.get(key)) and logged.count > 1]
    alike = f"; repeated identically by several ranks: {', '.join(repeated)}" if repeated else ""
    yield from wrong or [RuleCheck(once, "ok", f"{len(required)} keys{alike}", run.file)]
    groups = [*((key,) for key in keys.some), *keys.either]
    missing = [group for group in groups if not any(key in seen.keys for key in group)]
    for group in missing:
        yield RuleCheck(f"at least one {' or '.join(group)}", "fail", "found none", run.file)
    if not missing:
        yield RuleCheck(some, "ok", f"{len(groups)} keys or pairs of keys", run.file)


def _not_once(run: TrainingRun, key: str, logged: LoggedKey | None) -> RuleCheck | None:
    name = f"exactly one {key}"
    if logged is None:
        return RuleCheck(name, "fail", "found none", run.file)
    if logged.count == 1 or len(logged.values) == 1:
        return None
    values = ", ".join(str(value) for value in logged.values)
    return RuleCheck(name, "fail", f"found {logged.count} that differ: {values}", _at(run, logged.lines[1]))


def _values(run: TrainingRun, seen: LogOutline, round_: str | None) -> Iterator[RuleCheck]:
    for key, allowed in allowed_values(round_).items():
        logged = seen.keys.get(key)
        if logged is None:  # whether it must be present is another check
            continue
        wrong = [value for value in logged.values if not allowed.accepts(value)]
        evidence = f"is {', '.join(str(value) or 'empty' for value in wrong or logged.values)}"
        if wrong:
            evidence += f"; expected {allowed.expected}"
        yield RuleCheck(key, "fail" if wrong else "ok", evidence, _at(run, logged.lines[0]))


def _order(run: TrainingRun, seen: LogOutline) -> RuleCheck:
    name = "initialization, then the run"
    places = [
        (seen.keys[key].lines[0], key)
        for key in ("init_start", "init_stop", "run_start", "run_stop")
        if key in seen.keys
    ]
    if len(places) < 2:
        return RuleCheck(
            name, "not applicable", f"the log has {len(places)} of the four start and stop lines", run.file
        )
    for (line, key), (after, follower) in pairwise(places):
        if after < line:
            evidence = f"{follower} (line {after}) before {key} (line {line})"
            return RuleCheck(name, "fail", evidence, _at(run, after))
    if seen.run_s is not None and seen.run_s <= 0:
        evidence = f"run_stop is {-seen.run_s:.3f} s before run_start"
        return RuleCheck(name, "fail", evidence, _at(run, places[-1][0]))
    lines = ", ".join(f"{key} {line}" for line, key in places)
    return RuleCheck(name, "ok", f"lines: {lines}", _at(run, places[0][0]))


def _status(run: TrainingRun, seen: LogOutline) -> RuleCheck:
    name = "run_stop says success or aborted"
    stop = seen.keys.get("run_stop")
    where = _at(run, stop.lines[0]) if stop else run.file
    if run.status in ("success", "aborted"):
        return RuleCheck(name, "ok", run.status, where)
    return RuleCheck(name, "fail", run.problem, where)


def _caches(run: TrainingRun, seen: LogOutline) -> RuleCheck:
    name = "caches cleared before the run"
    key = "run_clear_caches" if run.round == "v0.5" else "cache_clear"
    claimed = seen.keys.get(key)
    if claimed is None:
        return RuleCheck(name, "fail", f"no {key} in the log", run.file)
    if seen.cache_failure:
        line, message = seen.cache_failure
        return RuleCheck(name, "fail", f"{key} is claimed, but the log states: {message}", _at(run, line))
    if False in claimed.values:
        return RuleCheck(name, "fail", f"{key} is false", _at(run, claimed.lines[0]))
    if _cleared_late(seen, claimed):
        return RuleCheck(name, "fail", f"{key} comes after run_start", _at(run, claimed.lines[0]))
    return RuleCheck(
        name, "ok", f"{key} claimed, nothing in the log contradicts it", _at(run, claimed.lines[0])
    )


def _cleared_late(seen: LogOutline, claimed: LoggedKey) -> bool:
    """By the clock: a log that merges those of several programs may print the line at its end."""
    if seen.cleared_before_s is not None:
        return seen.cleared_before_s < 0
    start = seen.keys.get("run_start")
    return start is not None and claimed.lines[0] > start.lines[0]


def _initialisation(run: TrainingRun, seen: LogOutline, round_: str | None) -> RuleCheck:
    name = "initialization within its limit"
    division = _first(seen, "submission_division")
    limit = init_limit_minutes(round_, division if isinstance(division, str) else None)
    if limit is None or seen.init_s is None:
        why = "no limit is known" if limit is None else "init_start or init_stop is missing"
        return RuleCheck(name, "not applicable", why, run.file)
    state: State = "ok" if seen.init_s < limit * 60 else "fail"
    where = _at(run, seen.keys["init_stop"].lines[0])
    return RuleCheck(name, state, f"{seen.init_s / 60:.2f} of {limit:g} minutes", where)


def _target(run: TrainingRun, seen: LogOutline, target: QualityTarget) -> RuleCheck:
    """The last evaluation before run_stop is the one that a run may stop on."""
    name = f"target {target}"
    last = target.value_in(seen.evaluations)
    if last is None:
        logged = ", ".join(metric or "a number without a name" for metric in seen.evaluations) or "none"
        return RuleCheck(name, "fail", f"no such evaluation before run_stop; logged: {logged}", run.file)
    value, line = last
    reached = target.reached(value)
    evidence = f"last evaluation {value:.6g}"
    if run.status == "aborted":
        evidence += "; run_stop says aborted: " + (
            "the two contradict" if reached else "one of the runs that did not converge"
        )
        return RuleCheck(name, "fail" if reached else "not applicable", evidence, _at(run, line))
    return RuleCheck(name, "ok" if reached else "fail", evidence, _at(run, line))


def _no_target(run: TrainingRun, rules: RoundRules) -> RuleCheck:
    task = f"{rules.benchmark or 'this benchmark'} in {rules.round or 'an unknown round'}"
    why = f"the open division has none for {task}" if rules.targets else f"none is known for {task}"
    return RuleCheck("target reached", "not applicable", why, run.file)


def _first(seen: LogOutline, key: str) -> Scalar:
    logged = seen.keys.get(key)
    return logged.values[0] if logged else None


def _at(run: TrainingRun, line: int) -> str:
    return f"{run.file}:{line}"


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
    by_seed = files_by_seed(runs)
    if shared := shared_seeds(by_seed):
        return RuleCheck(name, "fail", shared)
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
