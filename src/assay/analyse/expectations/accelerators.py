"""Peak rates of accelerators, by the exact name that their driver reports. Unknown stays unknown.

Peaks are dense: half of what data sheets state "with sparsity". fp32 is full fp32: the vector units' rate,
or the matrix units' if those compute in fp32 (AMD). One entry is one device as frameworks count them: an
MI250X is two devices, each half the card.
"""

from __future__ import annotations

from assay.analyse.expectations.added import Accelerator, added_accelerators

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
