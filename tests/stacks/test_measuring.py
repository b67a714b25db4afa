"""What ranks the stacks of an exploration, and of a bisection."""

from __future__ import annotations

import random
from pathlib import Path

from assay import read
from assay.analyse.statistics.sequential import looks
from assay.errors import InputError
from assay.records import Point
from assay.run.progress import Silence
from assay.stacks.measuring import (
    CandidateBlocks,
    MeasuredWork,
    Measuring,
    comparison,
    gain,
    ranking_metrics,
    survivors,
    verdicts,
)
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


RATE = Point("work", "1x1", "rate", "1/s", "higher", {})


def _pairs(name: str, effect: float, blocks: int, noise: random.Random) -> CandidateBlocks:
    values = []
    for _ in range(blocks):
        shared = noise.gauss(0, 0.1)  # drift, equal for both of a block
        values.append(
            (2.718 ** (shared + noise.gauss(0, 0.01)), 2.718 ** (effect + shared + noise.gauss(0, 0.01)))
        )
    return CandidateBlocks(name, tuple(values))


def test_of_many_equal_stacks_hardly_ever_one_is_called_faster() -> None:
    noise, wrong = random.Random(5), 0
    for _ in range(200):
        whole = [_pairs(f"s{at}", 0.0, 12, noise) for at in range(10)]
        called = set()
        for look in looks(12):
            found = {
                one.name: comparison(
                    CandidateBlocks(one.name, one.values[:look]), RATE, "incumbent", 0.02, 12
                )
                for one in whole
            }
            called |= {name for name, c in verdicts(found).items() if c.verdict in ("faster", "slower")}
        wrong += bool(called)
    assert wrong <= 17  # 5 % of 200, with P(more) below 2 % if the error is exactly 5 %


def test_a_stack_that_is_ten_percent_faster_is_found_among_ten() -> None:
    noise = random.Random(6)
    found = {
        f"s{at}": comparison(_pairs(f"s{at}", 0.1 * (at == 4), 12, noise), RATE, "incumbent", 0.02, 12)
        for at in range(10)
    }
    called = verdicts(found)
    assert called["s4"].verdict == "faster"
    assert called["s4"].by_margin
    assert gain(called["s4"]) == max(map(gain, called.values()))


def test_the_slower_and_the_equivalent_stop_and_the_better_half_goes_on() -> None:
    noise = random.Random(7)
    effects = {"slow": -0.5, "fast": 0.3, "even": 0.0, "good": 0.2}
    found = [
        comparison(_pairs(name, effect, 5, noise), RATE, "incumbent", 0.02, 12)
        for name, effect in effects.items()
    ]
    assert survivors(found, 5, 12) == ("fast", "good")
    assert survivors(found, 12, 12) == ()
