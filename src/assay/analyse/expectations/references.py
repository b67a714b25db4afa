"""Peak rates of accelerators, and published results with their sources: the answer to "is this normal?".

Peaks are dense: half of what data sheets state "with sparsity". fp32 is full fp32: the vector units' rate,
or the matrix units' if those compute in fp32 (AMD). One entry is one device as frameworks count them: an
MI250X is two devices, each half the card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from assay.records import Result
from assay.registry import EntryPoint, NamedEntries, registry


@dataclass(frozen=True)
class Accelerator:
    """One device.

    names               exactly as NVML, ROCm or an MLPerf system description state it
    peak_flop_per_s     number format → dense floating-point operations per second
    memory_bytes_per_s  peak bandwidth of its memory
    source              the manufacturer's data sheet or white paper
    """

    names: tuple[str, ...]
    peak_flop_per_s: Mapping[str, float]
    memory_bytes_per_s: float
    source: str


@dataclass(frozen=True)
class PublishedFigure:
    """One published result.

    accelerators  names of the devices that it applies to
    ranks, nodes  on which it was reached; nodes None: irrelevant
    value         over all ranks, in the metric's base unit
    what          system, program and settings
    """

    workload: str
    metric: str
    accelerators: tuple[str, ...]
    formats: tuple[str, ...]
    ranks: int
    nodes: int | None
    value: float
    what: str
    source: str

    @property
    def each(self) -> float:
        """Per accelerator."""
        return self.value / self.ranks


@dataclass(frozen=True)
class Expectations:
    """What a package knows of hardware. Where Assay has an accelerator of the same name, Assay's counts."""

    accelerators: tuple[Accelerator, ...] = ()
    figures: tuple[PublishedFigure, ...] = ()


def _checked(expectations: Expectations, _plugin: EntryPoint) -> Expectations:
    for kind, records in ((Accelerator, expectations.accelerators), (PublishedFigure, expectations.figures)):
        if wrong := [record for record in records if not isinstance(record, kind)]:
            raise TypeError(f"found {wrong[0]!r}; expected a {kind.__name__}")
    return expectations


EXPECTATIONS: Final[NamedEntries[Expectations]] = registry(
    "assay.expectations", {}, Expectations, adapt=_checked
)
"""Of plug-ins; what Assay knows is in the modules beside this one."""


def added_accelerators() -> Iterator[Accelerator]:
    """Those of all plug-ins."""
    return (known for expected in EXPECTATIONS.values() for known in expected.accelerators)


def added_figures() -> Iterator[PublishedFigure]:
    """Those of all plug-ins."""
    return (known for expected in EXPECTATIONS.values() for known in expected.figures)


T = 1e12


def of_name(name: str) -> Accelerator | None:
    """The accelerator with exactly this name; None if unknown. Part of a name is never enough.

    >>> of_name("NVIDIA H100 80GB HBM3").peak_flop_per_s["bf16"] / 1e12
    989.4
    >>> of_name("NVIDIA H100")
    """
    known = _BY_NAME.get(name)
    return known or next((other for other in added_accelerators() if name in other.names), None)


def _volta(*names: str, half: float, single: float) -> Accelerator:
    return Accelerator(
        names,
        {"fp16": half * T, "fp32": single * T},
        900e9,
        "NVIDIA V100 data sheet (January 2020)",
    )


def _ampere(*names: str, memory: float) -> Accelerator:
    return Accelerator(
        names,
        {"bf16": 312 * T, "fp16": 312 * T, "tf32": 156 * T, "fp32": 19.5 * T},
        memory,
        "NVIDIA A100 data sheet (June 2021); 40 GB: NVIDIA A100 architecture white paper",
    )


_HOPPER_SXM = {
    "fp8": 1978.9 * T, "bf16": 989.4 * T, "fp16": 989.4 * T, "tf32": 494.7 * T, "fp32": 66.9 * T,
}  # fmt: skip

ACCELERATORS = (
    _volta("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB", half=125, single=15.7),
    _volta("Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB", half=112, single=14),
    _ampere("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM-40GB", memory=1555e9),
    _ampere("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM-80GB", memory=2039e9),
    _ampere("A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB", memory=1555e9),
    _ampere("NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIe-80GB", memory=1935e9),
    Accelerator(
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100-SXM5-80GB"),
        _HOPPER_SXM,
        3.35e12,
        "NVIDIA H100 architecture white paper (2023), data sheet",
    ),
    Accelerator(
        ("NVIDIA H100 PCIe", "NVIDIA H100-PCIe-80GB"),
        {"fp8": 1513 * T, "bf16": 756 * T, "fp16": 756 * T, "tf32": 378 * T, "fp32": 51 * T},
        2.0e12,
        "NVIDIA H100 data sheet (2022), PCIe",
    ),
    Accelerator(
        ("NVIDIA H200", "NVIDIA H200-SXM-141GB"), _HOPPER_SXM, 4.8e12, "NVIDIA H200 data sheet (2024), SXM"
    ),
    Accelerator(
        ("NVIDIA B200",),
        {"fp8": 4500 * T, "bf16": 2250 * T, "fp16": 2250 * T, "tf32": 1100 * T, "fp32": 80 * T},
        8.0e12,
        "NVIDIA Blackwell architecture technical brief (2024), HGX B200; DGX B200 data sheet for the memory",
    ),
    Accelerator(
        ("NVIDIA L40S",),
        {"fp8": 733 * T, "bf16": 362.05 * T, "fp16": 362.05 * T, "tf32": 183 * T, "fp32": 91.6 * T},
        864e9,
        "NVIDIA L40S data sheet (2023)",
    ),
    Accelerator(
        ("AMD Instinct MI250X",),
        {"bf16": 191.5 * T, "fp16": 191.5 * T, "fp32": 47.85 * T},
        1.6384e12,
        "AMD Instinct MI250X data sheet (2021), one of its two devices",
    ),
    Accelerator(
        ("AMD Instinct MI300X", "AMD Instinct MI300X OAM"),
        {"fp8": 2614.9 * T, "bf16": 1307.4 * T, "fp16": 1307.4 * T, "tf32": 653.7 * T, "fp32": 163.4 * T},
        5.3e12,
        "AMD Instinct MI300X data sheet (2023)",
    ),
    Accelerator(
        ("AMD Instinct MI355X", "AMD Instinct MI355X OAM"),
        {"fp8": 5033.2 * T, "bf16": 2516.6 * T, "fp16": 2516.6 * T, "fp32": 157.3 * T},
        8.0e12,
        "AMD Instinct MI355X data sheet (2025)",
    ),
)  # fmt: skip

_BY_NAME = {name: accelerator for accelerator in ACCELERATORS for name in accelerator.names}


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
