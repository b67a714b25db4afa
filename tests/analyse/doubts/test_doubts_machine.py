"""Doubts about machines, plausibility and fast paths: what raises each, what must not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.analyse.doubts import of
from assay.analyse.mlperf.score_doubts import score_contradicts
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import group
from assay.records import Doubt, Estimate, Provenance, Result, Shape
from stated_runs import metrics, result

NODE = {"host": "n1", "cpu.logical": 8, "cpu.allowed": 8, "load.1min": 0.4, "cpu.governor": "performance"}
H100, V100 = "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB"
GPU = NODE | {"gpu.count": 8, "gpu.0.name": V100}
EDR = {
    f"infiniband.mlx5_{i}.port1.{fact}": value
    for i in range(4)
    for fact, value in {
        "rate": "100 Gb/sec (4X EDR)",
        "state": "4: ACTIVE",
        "link_layer": "InfiniBand",
    }.items()
}


def runs(
    n: int = 3,
    *,
    nodes: Sequence[Mapping[str, Any]] = (NODE,),
    facts: Mapping[str, Any] | None = None,
    workload: str = "train",
    value: float = 100.0,
    **same: Any,
) -> list[Result]:
    """Runs that differ a little, on these nodes, whose programs stated these facts."""
    found = []
    for block in range(1, n + 1):
        made = result(value * (1 + 0.001 * block), block=block, **same)
        trial = replace(made.run.trial, workload=workload)
        reading = replace(made.reading, facts=facts or {})
        found.append(
            Result(replace(made.run, trial=trial), reading, Provenance(tuple(dict(node) for node in nodes)))
        )
    return found


def raised(*sides: Sequence[Result]) -> dict[str, Doubt]:
    """The doubts about these sides' only points, by code."""
    found = []
    for name, results in zip("AB", sides, strict=False):
        [at] = group(results, metrics()).values()
        found.append(Side(name, at))
    return {d.code: d for d in of(Case(tuple(found), Estimate(1.0, None, None, 3, "")))}


MACHINE = {"clock-changed", "cpu-quota", "busy-machine", "uneven-nodes", "provenance-contradicts"}
FIGURES = {"above-best-known", "mfu-far-below", "fast-path-off", "fast-path-unused", "different-work"}


def test_a_quiet_machine_raises_nothing() -> None:
    assert not (MACHINE | FIGURES) & set(raised(runs(), runs(system="b")))


def test_a_run_without_provenance_raises_nothing() -> None:
    silent = [replace(it, provenance=None) for it in runs()]
    failed = runs(nodes=[{"unreadable": "no line"}])
    assert not (MACHINE | FIGURES) & (set(raised(silent)) | set(raised(failed)))


def test_a_governor_that_changed_between_runs_is_a_clock_change() -> None:
    changed = runs(2) + runs(1, nodes=[NODE | {"cpu.governor": "powersave"}], session="s2")
    assert "cpu.governor of n1 was performance then powersave" in raised(changed)["clock-changed"].evidence


def test_other_nodes_with_other_clocks_are_no_change_of_clock() -> None:
    elsewhere = runs(1, nodes=[NODE | {"host": "n2", "cpu.governor": "powersave"}], session="s2")
    assert "clock-changed" not in raised(runs(2) + elsewhere)


def test_a_cpu_that_throttled_between_two_runs_of_a_session() -> None:
    first, second = NODE | {"cpu.throttled_count_now": 5}, NODE | {"cpu.throttled_count_now": 19}
    before, after = runs(1, nodes=[first]), runs(2, nodes=[second])[1:]
    found = raised(before + after)["clock-changed"]
    assert "n1 was thermally throttled 14 times between train-1x1-a-r01 and train-1x1-a-r02" in found.evidence
    assert "clock-changed" not in raised(before + runs(2, nodes=[first])[1:])
    assert "clock-changed" not in raised(before + runs(2, nodes=[second | {"boot_id": "other"}])[1:])


@pytest.mark.parametrize(("celsius", "is_raised"), [(82, False), (84, True)])
def test_a_gpu_that_begins_hot(celsius: int, is_raised: bool) -> None:
    assert ("clock-changed" in raised(runs(nodes=[GPU | {"gpu.0.temperature_c": celsius}]))) is is_raised


@pytest.mark.parametrize(
    ("quota", "facts", "is_raised"),
    [(2.0, {}, True), (8.0, {}, False), (2.0, {"threads": 2, "device": "cpu"}, False)],
)
def test_a_quota_below_what_the_job_uses(quota: float, facts: dict[str, Any], is_raised: bool) -> None:
    assert ("cpu-quota" in raised(runs(nodes=[NODE | {"cpu.quota": quota}], facts=facts))) is is_raised


@pytest.mark.parametrize(("load", "is_raised"), [(7.9, False), (12.0, True)])
def test_busy_machine(load: float, is_raised: bool) -> None:
    found = raised(runs(nodes=[NODE | {"load.1min": load}]))
    assert ("busy-machine" in found) is is_raised
    assert not is_raised or "3 runs started at a load of up to 12 on 8 CPUs" in found["busy-machine"].evidence


def test_uneven_nodes() -> None:
    other = NODE | {"host": "n2", "kernel": "6.1"}
    assert (
        "kernel is 5.14 and 6.1"
        in raised(runs(nodes=[NODE | {"kernel": "5.14"}, other]))["uneven-nodes"].evidence
    )
    assert "uneven-nodes" not in raised(runs(nodes=[NODE | {"kernel": "6.1"}, other]))


def test_nearly_equal_memory_is_equal_memory() -> None:
    sizes = [NODE | {"memory.total_bytes": 540_123_456_789}, NODE | {"memory.total_bytes": 540_023_456_789}]
    assert "uneven-nodes" not in raised(runs(nodes=sizes))


@pytest.mark.parametrize(
    ("facts", "node", "words"),
    [
        (
            {"torch_version": "2.8.0"},
            {"python.torch": "2.7.1"},
            "torch_version 2.8.0, the probe python.torch 2.7.1",
        ),
        ({"torch_version": "2.8.0"}, {"python.torch": "2.8.0"}, ""),
        ({"world_size": 4}, {}, "reports 4 ranks but the shape 1x1 has 1"),
        (
            {"device": "cuda", "device_name": H100},
            {"gpu.0.name": V100},
            f"ran on {H100}, the probe found {V100}",
        ),
        ({"device": "cpu", "device_name": "EPYC"}, {"gpu.0.name": V100}, ""),
    ],
)
def test_provenance_that_contradicts_itself(facts: dict[str, Any], node: dict[str, Any], words: str) -> None:
    found = raised(runs(facts=facts, nodes=[NODE | node]))
    assert (
        words in found["provenance-contradicts"].evidence if words else "provenance-contradicts" not in found
    )


def test_more_hosts_than_nodes() -> None:
    one_node = [
        replace(it, run=replace(it.run, trial=replace(it.run.trial, shape=Shape.parse("2x1x1"))))
        for it in runs(nodes=[NODE, NODE | {"host": "n2"}])
    ]
    assert "2 hosts reported, but the shape has 1 node" in raised(one_node)["provenance-contradicts"].evidence


TRAINING = {"device": "cuda", "device_name": H100, "precision": "bf16", "image_size": 224}


@pytest.mark.parametrize(
    ("images_per_s", "facts", "code"),
    [
        (8200.0, TRAINING, "above-best-known"),
        (7200.0, TRAINING, None),
        (5000.0, TRAINING, None),
        (1000.0, TRAINING, "mfu-far-below"),
        (1000.0, TRAINING | {"precision": "fp32"}, None),
        (8000.0, TRAINING, "above-best-known"),
        (8400.0, TRAINING | {"device_name": "NVIDIA H200"}, "above-best-known"),
        (8400.0, TRAINING | {"device_name": "NVIDIA H200", "precision": "fp32"}, "above-best-known"),
        (7900.0, TRAINING | {"device_name": "NVIDIA H200"}, None),
        (8200.0, TRAINING | {"image_size": 64}, None),
        (8200.0, TRAINING | {"model": "resnet18"}, None),
        (1000.0, TRAINING | {"model": "resnet18"}, None),
        (8200.0, TRAINING | {"data": "data-only"}, None),
        (8200.0, TRAINING | {"device_name": "NVIDIA Unheard-of"}, None),
        (8200.0, {"device": "cpu", "device_name": "EPYC"}, None),
    ],
)
def test_resnet50_against_what_others_reached(
    images_per_s: float, facts: dict[str, Any], code: str | None
) -> None:
    found = raised(runs(value=images_per_s, facts=facts, workload="resnet50"))
    assert {"above-best-known", "mfu-far-below"} & set(found) == ({code} if code else set())


def test_throughput_is_held_against_others_by_the_accelerator() -> None:
    eight = runs(value=40_000.0, facts=TRAINING, workload="resnet50", shape="1x8")
    assert "above-best-known" not in raised(eight)


@pytest.mark.parametrize(
    ("metric", "unit", "value", "is_raised"),
    [
        ("flop_rate", "TFLOP/s", 1100.0, True),
        ("flop_rate", "TFLOP/s", 700.0, False),
        ("bandwidth", "GB/s", 3600.0, True),
        ("bandwidth", "GB/s", 3000.0, False),
    ],
)
def test_no_accelerator_does_more_than_its_peak(
    metric: str, unit: str, value: float, is_raised: bool
) -> None:
    found = raised(runs(value=value, metric=metric, unit=unit, labels={"dtype": "bf16"}, facts=TRAINING))
    assert ("above-best-known" in found) is is_raised


def all_reduce(value: float, *, shape: str = "1x8", size: int = 2**28, **options: Any) -> list[Result]:
    """Bus bandwidth, GB/s, at a payload size."""
    options.setdefault("nodes", [GPU])
    labels = {"payload_bytes": size}
    return runs(value=value, metric="busbw", unit="GB/s", labels=labels, shape=shape, **options)


def test_single_gpu_pods_that_lost_nvlink() -> None:
    """The published figures of two DGX-1: 55.2 GB/s with pods of eight GPUs, 5.7 GB/s with single ones."""
    found = raised(all_reduce(55.2, shape="2x8"), all_reduce(5.7, shape="16x1"))["fast-path-unused"]
    assert "9.7 times as much" in found.evidence
    assert "can't use NVLink" in found.evidence
    assert "fast-path-unused" not in raised(all_reduce(55.2, shape="2x8"), all_reduce(50.0, shape="16x1"))


def test_a_small_payload_says_nothing_of_the_path() -> None:
    sides = all_reduce(18.0, shape="2x8", size=2**20), all_reduce(2.6, shape="16x1", size=2**20)
    assert "fast-path-unused" not in raised(*sides)


@pytest.mark.parametrize(
    ("value", "shape", "nodes", "words"),
    [
        (5.7, "16x1", [GPU, GPU | {"host": "n2"}], "55.21 GB/s is published"),
        (52.0, "2x8", [GPU, GPU | {"host": "n2"}], ""),
        (20.0, "1x4", [GPU], "less than one PCIe 4.0 link"),
        (120.0, "1x4", [GPU], ""),
        (2.0, "4x4", [GPU | EDR | {"host": f"n{i}"} for i in range(4)], "4 × EDR InfiniBand"),
        (40.0, "4x4", [GPU | EDR | {"host": f"n{i}"} for i in range(4)], ""),
        (1.2, "2x1", [NODE | EDR, NODE | EDR | {"host": "n2"}], ""),
    ],
)
def test_bandwidth_against_the_links(
    value: float, shape: str, nodes: list[dict[str, Any]], words: str
) -> None:
    found = raised(all_reduce(value, shape=shape, nodes=nodes))
    assert words in found["fast-path-unused"].evidence if words else "fast-path-unused" not in found


@pytest.mark.parametrize(
    ("node", "facts", "words"),
    [
        ({"env.NCCL_IB_DISABLE": "1"}, {}, "NCCL_IB_DISABLE=1 switches off InfiniBand"),
        ({"env.NCCL_NET_GDR_LEVEL": "LOC"}, {}, "switches off GPUDirect"),
        ({"env.NCCL_NET_GDR_LEVEL": 1}, {}, "only between a GPU and an adapter behind the same PCIe switch"),
        ({"env.NCCL_P2P_DISABLE": "1"}, {}, "NVLink"),
        ({"env.NCCL_IB_DISABLE": "0"}, {}, ""),
        ({}, {"device": "cuda", "backend": "gloo"}, "the backend is gloo"),
        ({}, {"device": "cuda", "backend": "nccl"}, ""),
    ],
)
def test_fast_path_off(node: dict[str, Any], facts: dict[str, Any], words: str) -> None:
    found = raised(runs(nodes=[GPU | node], facts=facts))
    assert words in found["fast-path-off"].evidence if words else "fast-path-off" not in found


def test_a_variable_of_nccl_is_no_matter_without_a_gpu() -> None:
    assert "fast-path-off" not in raised(runs(nodes=[NODE | {"env.NCCL_IB_DISABLE": "1"}]))


def test_different_work() -> None:
    a, b = runs(facts={"precision": "bf16"}), runs(system="b", facts={"precision": "fp32"})
    assert raised(a, b)["different-work"].evidence == "precision bf16 and fp32"
    assert "different-work" not in raised(a, runs(system="b", facts={"precision": "bf16"}))
    assert "different-work" not in raised(a, runs(system="b"))


def test_operations_that_differ_or_are_unknown_are_not_compared() -> None:
    gathers, reduces = (
        runs(facts={"operation": "all_gather"}),
        runs(system="b", facts={"operation": "all_reduce"}),
    )
    assert raised(gathers, reduces)["different-work"].evidence == "operation all_gather and all_reduce"
    unknown = runs(system="b", facts={"operation_unknown": "all_gather or alltoall"})
    assert raised(gathers, unknown)["unknown-operation"].evidence == "B: all_gather or alltoall"
    assert "unknown-operation" not in raised(gathers, runs(system="b", facts={"operation": "all_gather"}))
    named = [
        replace(one, run=replace(one.run, trial=replace(one.run.trial, params={"benchmark": "mine"})))
        for one in unknown
    ]
    assert "unknown-operation" not in raised(gathers, named)


def test_sizes_of_one_sweep_differ_in_global_batch_by_design() -> None:
    small, large = runs(facts={"global_batch_size": 32}), runs(shape="1x2", facts={"global_batch_size": 64})
    assert "different-work" not in raised(small, large)
    equal_shape = runs(system="b", facts={"global_batch_size": 64})
    assert "different-work" in raised(small, equal_shape)


@pytest.mark.parametrize(
    ("stated", "computed", "is_raised"),
    [(115.22, 115.2249, False), (115.22, 115.226, True), (20.93, 21.04, True), (1.0, None, True)],
)
def test_a_published_score_that_does_not_follow_from_its_logs(
    stated: float, computed: float | None, is_raised: bool
) -> None:
    found = score_contradicts(stated, computed, decimals=2, what="resnet, minutes")
    assert (found is not None) is is_raised
    assert found is None or (found.code == "score-contradicts" and "resnet, minutes" in found.evidence)
