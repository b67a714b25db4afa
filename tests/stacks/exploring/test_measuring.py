"""What ranks the stacks of an exploration, and of a bisection."""

from __future__ import annotations

from pathlib import Path

from assay import read
from assay.errors import InputError
from assay.run.progress import Silence
from assay.stacks.exploring.measuring import MeasuredWork, Measuring, ranking_metrics
from observed_stacks import results

WORK = results(sessions=1)
INDICATORS = results(sessions=1, workload="indicators")


def test_indicators_next_to_a_workload_are_measured_and_do_not_rank() -> None:
    assert ranking_metrics([*INDICATORS, *WORK], read.metrics, {}) == {"matmul": "flop_rate"}


def test_indicators_rank_if_nothing_else_is_measured() -> None:
    assert ranking_metrics(INDICATORS, read.metrics, {}) == {"indicators": "step_time"}


def command(metric: str, better: str) -> dict[str, object]:
    found = {metric: {"pattern": f"{metric} (?P<value>\\S+)", "unit": "s", "better": better}}
    return {"workload": "command", "params": {"argv": ["true"], "metrics": found}}


def refused(content: dict[str, object]) -> str:
    """What a check of this suite says before anything is built; "" if it is fine."""
    work = MeasuredWork("x", content, Path.cwd(), 0.02, 0, lambda *_: "spec.yaml:9")
    try:
        Measuring(work, Path.cwd(), Silence, (), 12).check({"launcher": "local"})
    except InputError as error:
        return str(error)
    return ""


def test_leading_metrics_of_different_directions_are_refused_before_anything_is_built() -> None:
    one, other = command("rate", "higher"), command("latency", "lower")
    said = refused({"benchmarks": {"one": one, "other": other}})
    assert "spec.yaml:9" in said
    assert "(one: rate, higher is better; other: latency, lower is better)" in said
    assert not refused({"benchmarks": {"one": one, "two": command("speed", "higher")}})
    indicators = {"workload": "indicators", "params": {"framework": "numpy", "dtypes": ["fp32"]}}
    assert not refused({"benchmarks": {"one": one, "predicts": indicators}})  # it doesn't rank


def test_a_primary_metric_that_one_benchmark_lacks_is_refused_before_anything_is_built() -> None:
    both = {"one": command("rate", "higher"), "two": command("speed", "higher")}
    assert "primary: two has no rate; it has speed, peak_rss" in refused(
        {"benchmarks": both, "primary": "rate"}
    )
    assert not refused({"benchmarks": both, "primary": "peak_rss"})
