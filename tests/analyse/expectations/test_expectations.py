"""MFU, shares of bandwidth and line rate, what others reached: known figures, and unknown kept unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay import store
from assay.analyse.exchange.fabrics import of_node, port_bytes_per_s
from assay.analyse.expectations.references import ACCELERATORS, REFERENCES, of_name
from assay.analyse.expectations.shares import Usage, mfu, usage
from assay.analyse.points.groups import group
from assay.cli import assay as command_line
from assay.records import Metric, Reading, Result, Scalar
from stated_runs import side

V100, A100, H100 = "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
IMAGE = 24.3e9  # FLOPs to train ResNet-50 on an image of 224 × 224


def told(
    values: Sequence[float],
    device: str | None,
    *,
    workload: str = "resnet50",
    metric: str = "throughput",
    unit: str = "images/s",
    facts: Mapping[str, Scalar] | None = None,
    nodes: Sequence[Mapping[str, Scalar]] = ({},),
    flops: float | None = IMAGE,
    **same: Any,
) -> tuple[Usage, ...]:
    """Usage of runs that state their device."""
    stated = {
        "device_name": device,
        "device": "cuda" if device else "cpu",
        "precision": "bf16",
        **(facts or {}),
    }
    runs = []
    for run in side(values, metric=metric, unit=unit, facts={}, **same):
        trial = replace(run.run.trial, workload=workload, params={})
        provenance = replace(run.provenance, nodes=tuple(nodes)) if run.provenance else None
        reading = Reading(run.reading.measurements, facts=stated)
        runs.append(Result(replace(run.run, trial=trial), reading, provenance))
    declared = {metric: Metric(metric, unit, "higher", "speed")}
    points = group(runs, lambda _run: declared).values()
    return usage({runs[0].run.trial.system: points}, lambda _run: flops)


@pytest.mark.parametrize(
    ("device", "number_format", "each", "percent"),
    [
        (V100, "fp16", 887, 17),
        (V100, "fp16", 1040, 20),
        (A100, "bf16", 2470, 19),
        (A100, "bf16", 3397, 26),
        (H100, "bf16", 2790, 7),
        (H100, "bf16", 7160, 18),
        ("NVIDIA H200", "bf16", 3080, 7.6),
        ("NVIDIA H200", "bf16", 7950, 19.5),
    ],
)
def test_published_throughputs_have_the_published_mfu(
    device: str, number_format: str, each: float, percent: float
) -> None:
    known = of_name(device)
    assert known is not None
    share = mfu(IMAGE, 8 * each, known.peak_flop_per_s[number_format], 8)
    assert 100 * share == pytest.approx(
        percent, abs=0.5 if percent >= 7.5 and percent == int(percent) else 0.2
    )


def test_an_mfu_has_its_interval_its_peak_and_the_figures_that_others_reached() -> None:
    [found] = told([7096.0, 7120.0, 7080.0], V100, shape="1x8", facts={"precision": "fp16"})
    assert found.kind == "mfu"
    assert found.share is not None
    assert found.share.value == pytest.approx(0.1725, abs=5e-4)
    assert (found.share.low or 0) < found.share.value < (found.share.high or 0)
    assert found.peak == pytest.approx(8 * 125e12 / IMAGE)
    assert found.of == "8 × Tesla V100-SXM2-16GB, fp16 125 TFLOP/s each"
    assert found.normal is not None
    assert (found.normal.low, found.normal.high, found.normal.verdict) == (887.0, 1040.25, "within")


@pytest.mark.parametrize(("speed", "verdict"), [(1000.0, "below"), (5000.0, "within"), (9000.0, "above")])
def test_one_accelerator_is_held_against_others_on_any_number(speed: float, verdict: str) -> None:
    [found] = told([speed, speed * 1.001, speed * 0.999], H100)
    assert found.normal is not None
    assert found.normal.verdict == verdict
    assert all(r.source for r in found.normal.references)


def test_other_image_sizes_and_number_formats_have_no_published_figure() -> None:
    assert told([100.0, 101.0], H100, facts={"image_size": 64})[0].normal is None
    assert told([100.0, 101.0], H100, facts={"model": "resnet18"})[0].normal is None
    assert told([100.0, 101.0], H100, facts={"data": "data-only"})[0].normal is None
    assert told([100.0, 101.0], H100, facts={"precision": "fp32"})[0].normal is None


def test_a_training_in_fp32_is_held_against_tf32_where_the_device_has_it() -> None:
    assert "tf32 494.7" in told([100.0], H100, facts={"precision": "fp32"})[0].of
    assert "fp32 15.7" in told([100.0], V100, facts={"precision": "fp32"})[0].of


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (None, "the peak of a CPU"),
        ("NVIDIA H100", "the peak of NVIDIA H100 is unknown"),
        (V100, "the peak of Tesla V100-SXM2-16GB is unknown for bf16"),
    ],
)
def test_an_unknown_peak_gives_no_share_and_says_why(device: str | None, why: str) -> None:
    [found] = told([100.0, 101.0], device)
    assert found.share is None
    assert found.peak is None
    assert found.why.startswith(why)


def test_matrix_products_and_memory_are_held_against_their_own_peaks() -> None:
    [product] = told(
        [600e12],
        H100,
        workload="matmul",
        metric="flop_rate",
        unit="FLOP/s",
        labels={"dtype": "bf16"},
        flops=None,
    )
    assert product.share is not None
    assert product.share.value == pytest.approx(600 / 989.4)
    [memory] = told([2.5e12], H100, workload="membw", metric="bandwidth", unit="B/s", flops=None)
    assert memory.share is not None
    assert memory.share.value == pytest.approx(2.5 / 3.35)


def test_a_metric_without_a_physical_limit_has_no_share() -> None:
    assert told([1.0], H100, metric="latency", unit="s", flops=None) == ()


EDR = {
    f"infiniband.mlx5_{i}.port1.{fact}": value
    for i in range(4)
    for fact, value in (("rate", "100 Gb/sec (4X EDR)"), ("state", "4: ACTIVE"), ("link_layer", "InfiniBand"))
}


def test_an_all_reduce_over_nodes_is_held_against_what_leaves_a_node() -> None:
    """2 × DGX-1, 16 ranks: 29.45 GB/s of payload, of which each of two nodes sends the whole once."""
    known = {"workload": "allreduce", "metric": "busbw", "unit": "B/s", "flops": None, "nodes": (EDR, EDR)}
    [found] = told([55.21e9], V100, shape="2x8", labels={"payload_bytes": 2**28}, **known)
    assert found.share is not None
    assert found.share.value == pytest.approx(29.45 / 50, abs=1e-3)
    assert found.of == "4 × EDR InfiniBand per node"
    assert found.normal is not None
    assert found.normal.each is False
    [pods] = told([5.70e9], V100, shape="16x1", labels={"payload_bytes": 2**28}, **known)
    assert pods.share is not None
    assert pods.share.value == pytest.approx(0.061, abs=1e-3)
    assert pods.normal is not None
    assert pods.normal.verdict == "below"


def test_an_all_reduce_within_a_node_or_over_unknown_networks_has_no_share() -> None:
    known = {"workload": "allreduce", "metric": "busbw", "unit": "B/s", "flops": None}
    [inside] = told([1e11], V100, shape="1x8", **known)
    assert (inside.share, inside.why) == (None, "within one node, nothing crosses the fabric")
    [blind] = told([1e10], V100, shape="2x8", nodes=({}, {}), **known)
    assert (blind.share, blind.why) == (None, "no node reports the speed of its network")


@pytest.mark.parametrize(
    ("rate", "gigabytes"),
    [
        ("100 Gb/sec (4X EDR)", 12.5),
        ("200 Gb/sec (4X HDR)", 25.0),
        ("400 Gb/sec (4X NDR)", 50.0),
        ("40 Gb/sec (4X QDR)", 4.0),
        ("56 Gb/sec (4X FDR)", 6.788),
        ("2.5 Gb/sec (1X SDR)", 0.25),
        ("25 Gb/sec (1X EDR)", 3.125),
    ],
)
def test_rates_of_ports_are_data_rates(rate: str, gigabytes: float) -> None:
    assert (port_bytes_per_s(rate) or 0) / 1e9 == pytest.approx(gigabytes, abs=1e-3)


@pytest.mark.parametrize("rate", ["", "fast", "0 Gb/sec", "1.2.3 Gb/sec (4X EDR)", "100"])
def test_what_is_no_rate_is_not_guessed(rate: str) -> None:
    assert port_bytes_per_s(rate) is None


def test_ports_that_are_down_do_not_count_and_ethernet_does_where_there_is_no_other() -> None:
    down = {**EDR, "infiniband.mlx5_0.port1.state": "1: DOWN"}
    fabric = of_node(down)
    assert fabric is not None
    assert (fabric.bytes_per_s, fabric.ports) == (37.5e9, "3 × EDR InfiniBand")
    ethernet = of_node(
        {
            "net.eth0.bits_per_s": 25_000_000_000,
            "net.eth0.state": "up",
            "net.eth1.bits_per_s": 100_000_000_000,
            "net.eth1.state": "down",
        }
    )
    assert ethernet is not None
    assert (ethernet.bytes_per_s, ethernet.ports) == (3.125e9, "1 × 25 Gb/s Ethernet")
    assert of_node({}) is None


def test_the_table_of_accelerators_is_whole() -> None:
    names = [name for a in ACCELERATORS for name in a.names]
    assert len(names) == len(set(names))
    for a in ACCELERATORS:
        assert a.source
        peaks = [a.peak_flop_per_s[f] for f in ("fp8", "fp16", "tf32", "fp32") if f in a.peak_flop_per_s]
        assert peaks == sorted(peaks, reverse=True), a.names
        assert 1e11 < a.memory_bytes_per_s < 1e13
    for reference in REFERENCES:
        assert all(of_name(name) is not None for name in reference.accelerators)


def test_show_says_how_much_of_the_hardware_is_used_and_whether_that_is_normal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {"throughput": Metric("throughput", "images/s", "higher", "speed")}
    monkeypatch.setattr("assay.read.metrics", lambda _run: declared)
    monkeypatch.setattr("assay.read.flops", lambda _run: IMAGE)
    stated = {"device_name": H100, "device": "cuda", "precision": "bf16"}
    runs = [
        Result(
            replace(r.run, trial=replace(r.run.trial, workload="resnet50")),
            Reading(r.reading.measurements, facts=stated),
            r.provenance,
        )
        for shape, values in (("1x1", [7000.0, 7010.0]), ("1x2", [13800.0, 13810.0]))
        for r in side(values, shape=shape)
    ]
    store.update(tmp_path, runs)
    for name in ("show", "scale"):
        text = CliRunner().invoke(command_line, [name, "suite", "--runs", str(tmp_path)]).stdout
        words = " ".join(text.split())
        assert "17.20 % (" in words, "7,005 × 24.3 GFLOP of 989.4 TFLOP/s"
        assert "within published results, 2,790 to 7,160 images/s per accelerator" in words
    ran = CliRunner().invoke(command_line, ["show", "suite", "--json", "--runs", str(tmp_path)])
    first = json.loads(ran.stdout)["usage"][0]
    assert first["share"]["value"] == pytest.approx(IMAGE * 7005 / 989.4e12, rel=1e-4)
    assert first["normal"]["references"][0]["source"].startswith("Lambda")
