"""Published results with their sources: the answer to "is this normal?"."""

from __future__ import annotations

from assay.analyse.expectations.accelerators import of_name
from assay.analyse.expectations.added import PublishedFigure, added_figures
from assay.records import Result

_EXAMPLES = "NVIDIA DeepLearningExamples, PyTorch ResNet-50 v1.5, README"
_LAMBDA = "Lambda, PyTorch GPU benchmarks (lambda.ai/gpu-benchmarks)"
_MLPERF, _CLOSED = "MLPerf Training", "closed division"
_REDBOOK = "IBM Redbooks REDP-5610 (2020), section 4"
_V100 = ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB")
_A100 = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB")
_H100 = ("NVIDIA H100 80GB HBM3",)
_H100_PCIE = ("NVIDIA H100 PCIe",)
_H200 = ("NVIDIA H200",)
HALF = ("fp16", "bf16")


def _resnet50(
    accelerators: tuple[str, ...], ranks: int, value: float, what: str, source: str
) -> PublishedFigure:
    return PublishedFigure("resnet50", "throughput", accelerators, HALF, ranks, None, value, what, source)


def _allreduce(ranks: int, nodes: int, value: float, what: str) -> PublishedFigure:
    return PublishedFigure("allreduce", "busbw", _V100, (), ranks, nodes, value, what, _REDBOOK)


REFERENCES = (
    _resnet50(_V100, 8, 7096, "DGX-1, 8 × V100, tf_cnn_benchmarks, fp16, batch 64 each", _REDBOOK),
    _resnet50(_V100, 8, 8322, "8 × V100 16 GB, mixed precision", _EXAMPLES),
    _resnet50(_A100, 1, 2470, "1 × A100, mixed precision, NHWC", _EXAMPLES),
    _resnet50(_A100, 8, 27180, "8 × A100, MXNet", f"{_MLPERF} v2.1, {_CLOSED}"),
    _resnet50(_H100, 1, 2790, "1 × H100 SXM, PyTorch, NCHW", _LAMBDA),
    _resnet50(_H100, 8, 57277, "8 × H100, MXNet", f"{_MLPERF} v4.0, {_CLOSED}"),
    _resnet50(
        _H100_PCIE, 8, 35514, "8 × H100 PCIe, MXNet, evaluation included", f"{_MLPERF} v3.0, {_CLOSED}"
    ),
    _resnet50(
        _H100_PCIE, 8, 35703, "8 × H100 PCIe, MXNet, evaluation included", f"{_MLPERF} v3.1, {_CLOSED}"
    ),
    _resnet50(_H200, 1, 3080, "1 × H200, PyTorch AMP, NCHW", _LAMBDA),
    _resnet50(_H200, 8, 63601, "8 × H200, MXNet", f"{_MLPERF} v4.0, {_CLOSED}"),
    _allreduce(8, 1, 127.96e9, "DGX-1, NVLink, 256 MiB of float"),
    _allreduce(16, 2, 55.21e9, "2 × DGX-1, 4 × EDR each, 256 MiB of float"),
)

_PUBLISHED_WITH: dict[str, dict[str, object]] = {"resnet50": {"image_size": 224, "model": "resnet50"}}


def matching(
    workload: str, metric: str, accelerator: str, number_format: str, ranks: int, nodes: int | None
) -> tuple[PublishedFigure, ...]:
    """Published results for this; throughput per accelerator is comparable at any number of them."""
    return tuple(
        r
        for r in (*REFERENCES, *added_figures())
        if (r.workload, r.metric) == (workload, metric)
        and _same(accelerator, r.accelerators)
        and (not r.formats or number_format in r.formats)
        and (r.nodes is None or (r.ranks, r.nodes) == (ranks, nodes))
    )


def workload_of(result: Result) -> str:
    """The workload whose published results are for this same problem; "" if it is a different problem.

    An MLPerf log of resnet is one of `resnet50`. Other networks and image sizes are different problems, and
    so is reading the data without training.
    """
    training, named = result.reading.training, result.run.trial.workload
    workload = "resnet50" if named == "mlperf" and training and training.benchmark == "resnet" else named
    stated = {**result.run.trial.params, **result.reading.facts}
    usual = _PUBLISHED_WITH.get(workload, {})
    other = stated.get("data") == "data-only" or any(stated.get(k, v) != v for k, v in usual.items())
    return "" if other else workload


def _same(name: str, names: tuple[str, ...]) -> bool:
    """The same device under another of its names."""
    device = of_name(name)
    return device is not None and any(of_name(other) is device for other in names)
