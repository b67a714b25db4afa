"""The design of a plan as text: points, order, repeats, requirements, data, looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay import redact
from assay.units import counted, human, human_seconds

if TYPE_CHECKING:
    from assay.records import Plan


def describe_design(planned: Plan, max_time_s: float | None, nominal_p: float | None) -> list[str]:
    """The design as text: what an analysis rests on.

    max_time_s  of trials, after which a run until decided starts no block; None: no limit
    nominal_p   P of each look of a run until decided; None for a run of the suite's repeats
    """
    points = len({(t.benchmark, t.shape, str(t.varied)) for t in planned.trials})
    order = "interleaved: systems alternate within each block" if planned.interleaved else "not interleaved"
    if len(planned.systems) == 1:
        order = "one system, nothing to interleave"
    baseline = f", baseline {planned.baseline}" if planned.baseline else ""
    return [
        f"{counted(len(planned.trials), 'trial')}: {counted(points, 'point')} on"
        f" {counted(len(planned.systems), 'system')} ({', '.join(planned.systems)}{baseline}),"
        f" {'' if nominal_p is None else 'at most '}{counted(planned.repeats, 'block')}.",
        f"Order: {order}; each block shuffled by seed {planned.seed}.",
        f"Margin: {100 * planned.margin:.3g} %.",
        *_tried_again(planned),
        *_describe_requirements(planned),
        *_brought_near(planned),
        *([] if nominal_p is None else _looks(planned, max_time_s, nominal_p)),
        f"Digests: suite {planned.suite_digest}, plan {planned.digest}.",
    ]


def _tried_again(planned: Plan) -> list[str]:
    """How often each benchmark's trials are retried, grouped by number."""
    benchmarks: dict[int, dict[str, None]] = {}
    for trial in planned.trials:
        benchmarks.setdefault(trial.retries, {})[trial.benchmark] = None
    parts = [
        f"{'at most ' if most else ''}{counted(most, 'time')}"
        + (f" ({', '.join(names)})" if len(benchmarks) > 1 else "")
        for most, names in benchmarks.items()
    ]
    return [f"A trial that the platform lost is retried {'; '.join(parts)}; a failed trial is not."]


def _describe_requirements(planned: Plan) -> list[str]:
    requirements = [
        f"{benchmark} {expectation.metric} {expectation.written}"
        for benchmark, expectations in planned.expectations.items()
        for expectation in expectations
    ]
    return [f"Required: {'; '.join(requirements)}."] if requirements else []


def _brought_near(planned: Plan) -> list[str]:
    """Which frames each benchmark's nodes bring near, and where to."""
    data = {trial.benchmark: trial.data for trial in planned.trials if trial.data is not None}
    lines = []
    for benchmark, staged in data.items():
        size, root = human(float(staged.bytes), "B"), redact.text(staged.root)
        when = (
            "copied before the ranks start" if staged.mode == "local" else "each kept when it is first read"
        )
        most = (
            ""
            if staged.space_bytes is None
            else f"; {staged.cache} has at most {human(float(staged.space_bytes), 'B')}"
        )
        lines += [
            f"Data: {benchmark} reads {counted(staged.frames, 'frame')} of {Path(staged.manifest).name} from "
            f"{staged.directory}: {size} of {root}, {when}{most}."
        ]
    return lines


def _looks(planned: Plan, max_time_s: float | None, nominal_p: float) -> list[str]:
    """The looks, their confidence level, and what ends the run."""
    late = "" if max_time_s is None else f"; no block starts after {human_seconds(max_time_s)} of trials"
    looks, level = ", ".join(map(str, planned.looks)), f"{100 * (1 - nominal_p):.4g} %"
    return [
        f"Until decided: looks after {looks} blocks, ends at the first look that leaves no primary comparison"
        f" undecided{late}.",
        f"Level: {level} intervals at each look (p {nominal_p:g}), so that 95 % hold at all looks"
        " jointly; joint claims share it.",
    ]
