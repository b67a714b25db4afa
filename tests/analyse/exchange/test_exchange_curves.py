"""Curves of exchanges over their size: the line, n½, the share of the network, and what can't be said."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from assay.analyse.exchange.curves import ExchangeCurve, exchange_curves
from assay.analyse.points.groups import group
from assay.records import Measurement, Metric, Provenance, Result, Run, Scalar
from stated_runs import result

SIZES = [2**k for k in range(3, 27)]
METRICS = {
    "busbw": Metric("busbw", "B/s", "higher", "bus bandwidth", scales=False),
    "latency": Metric("latency", "s", "lower", "time", scales=False),
}
BUS = 1.5  # all-reduce of 4 ranks
EDR = {"infiniband.mlx5_0.port1.rate": "100 Gb/sec (4X EDR)", "infiniband.mlx5_0.port1.state": "4: ACTIVE"}


def metrics(_run: Run) -> Mapping[str, Metric]:
    return METRICS


def straight(size: int) -> float:
    """20 µs and 10 GB/s: half of it at 200 kB."""
    return 2e-5 + size * 1e-10


def bent(size: int) -> float:
    """Another protocol from 32 KiB to 1 MiB."""
    return straight(size) * (1.6 if 2**15 <= size <= 2**20 else 1.0)


def run(
    block: int,
    time_s: Callable[[int], float] = straight,
    *,
    nodes: Sequence[Mapping[str, Scalar]] = (),
    sizes: Sequence[int] = SIZES,
    operation: str = "all_reduce",
    shape: str = "2x2",
    phase: float = 0.0,
) -> Result:
    luck = (0.97, 1.0, 1 / 0.97, 1.01, 0.99)[block - 1]
    more = []
    for place, size in enumerate(sizes):
        seconds = time_s(size) * luck * (1 + 0.01 * math.sin(block + 7 * place + phase))
        labels = {"payload_bytes": size}
        more.append(Measurement("busbw", BUS * size / seconds, "B/s", labels, "rank-0.log", 9))
        more.append(Measurement("latency", seconds, "s", labels, "rank-0.log", 9))
    made = result(None, shape=shape, block=block, more=more, params={"operation": operation})
    return replace(made, provenance=Provenance(tuple(nodes)) if nodes else None)


def curves(results: Sequence[Result]) -> list[ExchangeCurve]:
    return exchange_curves("here", group(results, metrics).values())


def curve(results: Sequence[Result]) -> ExchangeCurve:
    [found] = curves(results)
    return found


def test_a_curve_has_its_latency_its_bandwidth_and_the_size_of_half_of_it_with_intervals() -> None:
    found = curve([run(block) for block in (1, 2, 3)])
    assert (found.why_no_line, found.half_by, len(found.points)) == ("", "line", len(SIZES))
    for estimate, truth in ((found.alpha, 2e-5), (found.asymptote, BUS * 1e10), (found.half, 2e5)):
        assert estimate is not None
        assert estimate.value == pytest.approx(truth, rel=0.03)
        assert estimate.low is not None
        assert estimate.low < estimate.value < (estimate.high or 0)
        assert estimate.n == 3
    at_half = min(found.drawn, key=lambda at: abs(math.log(at[0] / 2e5)))
    assert at_half[1].value == pytest.approx(BUS * 5e9, rel=0.2)


def test_one_run_has_a_line_and_no_interval() -> None:
    found = curve([run(1)])
    assert found.alpha is not None
    assert found.alpha.low is None


def test_a_bent_curve_has_no_line_and_half_of_what_was_measured() -> None:
    found = curve([run(block, bent) for block in (1, 2, 3)])
    assert found.why_no_line == "no line fits all sizes"
    assert (found.alpha, found.asymptote, found.drawn, found.half_by) == (None, None, (), "sizes")
    assert found.misfit is not None
    assert abs(found.misfit.share) > 0.2
    assert found.half is not None
    assert 2**17 < found.half.value < 2**21


def test_sizes_that_show_no_latency_have_no_line_and_say_so() -> None:
    found = curve([run(block, sizes=[2**k for k in range(22, 27)]) for block in (1, 2)])
    assert "don't show both a latency and a bandwidth" in found.why_no_line
    assert (found.half, found.half_by) == (None, "")


def test_the_best_bandwidth_is_held_against_the_slowest_nodes_network() -> None:
    slow = {**EDR, "infiniband.mlx5_0.port1.rate": "40 Gb/sec (4X QDR)"}
    found = curve([run(block, nodes=[EDR, slow]) for block in (1, 2, 3)])
    assert found.line_rate is not None
    assert found.line_rate.bytes_per_s == 4e9
    assert found.of_line_rate is not None
    assert found.of_line_rate.value == pytest.approx(BUS * 1e10 / 4e9, rel=0.03)


@pytest.mark.parametrize(
    ("nodes", "operation", "shape"),
    [
        ([EDR], "all_reduce", "1x2"),
        ([EDR, {}], "all_reduce", "2x1"),
        ([], "all_reduce", "2x1"),
        ([EDR, EDR], "alltoall", "2x2"),
    ],
    ids=["one node", "a node without a known network", "nothing known", "all-to-all of several ranks a node"],
)
def test_where_the_limit_is_not_known_there_is_no_share(
    nodes: Sequence[Mapping[str, Scalar]], operation: str, shape: str
) -> None:
    found = curve([run(block, nodes=nodes, operation=operation, shape=shape) for block in (1, 2)])
    assert (found.line_rate, found.of_line_rate) == (None, None)


def test_few_sizes_are_no_curve_and_a_failed_run_is_no_part_of_one() -> None:
    assert curves([run(1, sizes=SIZES[:3])]) == []
    wrong = run(3)
    wrong = replace(wrong, reading=replace(wrong.reading, problems=("4 values are wrong",)))
    assert {p.latency.n for p in curve([run(1), run(2), wrong]).points} == {2}


def test_runs_of_unlike_sizes_have_their_lines_and_nothing_to_hold_them_against_each_other_by() -> None:
    found = curve([run(1, sizes=SIZES[::2]), run(2, sizes=SIZES[1::2])])
    assert (found.misfit, found.why_no_line, len(found.points)) == (None, "", len(SIZES))
    assert found.alpha is not None
    assert found.alpha.n == 2


def test_modes_are_curves_of_their_own() -> None:
    def of(mode: str, block: int) -> Result:
        made = run(block)
        return replace(made, run=replace(made.run, trial=replace(made.run.trial, varied={"mode": mode})))

    found = curves([of(m, b) for m in ("tcp", "gpudirect") for b in (1, 2)])
    assert sorted(str(one.labels["mode"]) for one in found) == ["gpudirect", "tcp"]
