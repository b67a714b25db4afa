"""The description of a system in a submission: the required fields, and their values from provenance.

Source: the required fields of mlperf-logging's system_desc_checker, and their use in published rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from assay.records import Scalar
from assay.units import human

AVAILABLE: Final = MappingProxyType(
    {
        "onprem": "Available on-premise",
        "cloud": "Available cloud",
        "research": "Research, Development, or Internal (RDI)",
        "preview": "Preview",
    }
)
"""A log's `submission_status` → the name in a system's description."""

FIELDS: Final = MappingProxyType(
    {
        "submitter": "the submitter",
        "division": "closed or open",
        "status": f"one of: {'; '.join(AVAILABLE.values())}",
        "system_name": "the system's name",
        "number_of_nodes": "nodes",
        "host_processors_per_node": "CPUs (sockets) per node",
        "host_processor_model_name": "the manufacturer's name for it",
        "host_processor_core_count": "cores of one CPU",
        "host_processor_vcpu_count": 'virtual CPUs per node; "" on bare metal',
        "host_processor_frequency": 'base and boost, like "2.0 GHz, 3.8 GHz boost"',
        "host_processor_caches": 'like "32 KiB L1d and 2 MiB L2 per core, 105 MiB L3"',
        "host_processor_interconnect": 'between CPUs, like "UPI"; "" with one',
        "host_memory_capacity": 'per node, like "2 TB"',
        "host_storage_type": 'like "NVMe SSD"',
        "host_storage_capacity": 'like "30 TB"',
        "host_networking": 'like "8x 400 Gbit/s InfiniBand, 2x 100 Gbit/s Ethernet"',
        "host_networking_topology": 'like "rail-optimised fat tree"',
        "host_memory_configuration": 'like "32x 64 GB DDR5-4800"',
        "accelerators_per_node": "accelerators per node",
        "accelerator_model_name": "the manufacturer's name for it",
        "accelerator_host_interconnect": 'like "PCIe 5.0 x16"',
        "accelerator_frequency": 'like "1980 MHz"',
        "accelerator_on-chip_memories": 'like "50 MB L2"',
        "accelerator_memory_configuration": 'like "HBM3"',
        "accelerator_memory_capacity": 'of one accelerator, like "80 GB"',
        "accelerator_interconnect": 'between accelerators, like "NVLink 4, 900 GB/s"',
        "accelerator_interconnect_topology": 'like "NVSwitch"',
        "cooling": 'like "air" or "liquid"',
        "hw_notes": 'anything else about the hardware; ""',
        "framework": 'like "PyTorch 2.8.0"',
        "other_software_stack": "drivers and libraries with their versions",
        "operating_system": "its name and version",
        "sw_notes": 'anything else about the software; ""',
    }
)
"""Each required field, in the order of published descriptions, and what to write there."""

_PREFIX: Final = "mlperf."  # of an imported set's facts: the contents of its system's JSON
_STACK: Final = MappingProxyType(
    {
        "gpu.driver": "driver",
        "gpu.cuda": "cuda_of_the_driver",
        "python.torch_cuda": "cuda",
        "python.torch_hip": "rocm",
        "python.version": "python",
        "python.cudnn": "cudnn",
        "python.nccl": "nccl",
        "kernel": "kernel",
        "kubernetes.image": "image",
    }
)


def described(nodes: Sequence[Mapping[str, Scalar]]) -> dict[str, Any]:
    """The fields that can be filled from the tables of a run's nodes, except those in which nodes differ."""
    by_field: dict[str, Any] = {
        "number_of_nodes": _number_of_nodes(nodes),
        "other_software_stack": _stack(nodes),
    }
    for field in FIELDS:
        answers = {_answer(field, node) for node in nodes}
        if len(answers) == 1 and (answer := answers.pop()) is not None:
            by_field[field] = answer
    return {field: by_field[field] for field in FIELDS if by_field.get(field)}


def _number_of_nodes(nodes: Sequence[Mapping[str, Scalar]]) -> str | None:
    machines = [(node.get("host"), node.get("boot_id")) for node in nodes]
    return str(len(set(machines))) if nodes and all(host for host, _ in machines) else None


def _stack(nodes: Sequence[Mapping[str, Scalar]]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for fact, name in _STACK.items():
        values = {node.get(fact) for node in nodes}
        if len(values) == 1 and (value := values.pop()) is not None:
            versions.setdefault(name, str(value))
    return versions


def _answer(field: str, node: Mapping[str, Scalar]) -> str | None:
    stated = node.get(_PREFIX + field)
    if stated is not None:
        return str(stated)
    known = _FROM_PROBE.get(field)
    answer = known(node) if known else None
    return None if answer is None else str(answer)


def _cores_of_one(node: Mapping[str, Scalar]) -> int | None:
    cores, sockets = node.get("cpu.cores"), node.get("cpu.sockets")
    if not isinstance(cores, int) or not isinstance(sockets, int) or not sockets or cores % sockets:
        return None
    return cores // sockets


def _virtual_cpus(node: Mapping[str, Scalar]) -> Scalar | None:
    return node.get("cpu.logical") if node.get("virtualisation") else None


def _bytes_of(fact: str, note: str = "") -> Callable[[Mapping[str, Scalar]], str | None]:
    def size(node: Mapping[str, Scalar]) -> str | None:
        value = node.get(fact)
        return human(float(value), "B") + note if isinstance(value, int) else None

    return size


def _networks(node: Mapping[str, Scalar]) -> str | None:
    speeds: dict[str, int] = {}
    for name, value in node.items():
        if name.startswith("net.") and name.endswith(".bits_per_s") and isinstance(value, int):
            speed = f"{value / 1e9:g} Gbit/s"
            speeds[speed] = speeds.get(speed, 0) + 1
    return ", ".join(f"{count}x {speed}" for speed, count in speeds.items()) or None


def _framework(node: Mapping[str, Scalar]) -> str | None:
    torch = node.get("python.torch")
    return None if torch is None else f"PyTorch {torch}"


_FROM_PROBE: Final[Mapping[str, Callable[[Mapping[str, Scalar]], Scalar | None]]] = {
    "host_processors_per_node": lambda node: node.get("cpu.sockets"),
    "host_processor_model_name": lambda node: node.get("cpu.model"),
    "host_processor_core_count": _cores_of_one,
    "host_processor_vcpu_count": _virtual_cpus,
    "host_memory_capacity": _bytes_of("memory.total_bytes", " as the kernel counts it"),
    "host_networking": _networks,
    "accelerators_per_node": lambda node: node.get("gpu.count"),
    "accelerator_model_name": lambda node: node.get("gpu.0.name"),
    "accelerator_memory_capacity": _bytes_of("gpu.0.memory_bytes"),
    "framework": _framework,
    "operating_system": lambda node: node.get("os"),
}


def agreed(descriptions: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What the descriptions of one system state consistently, and the fields in which they differ."""
    stated: dict[str, list[Any]] = {}
    for description in descriptions:
        for field, value in description.items():
            if value not in (None, "") and value not in stated.setdefault(field, []):
                stated[field].append(value)
    alike = {field: values[0] for field, values in stated.items() if len(values) == 1}
    return alike, {field: values for field, values in stated.items() if len(values) > 1}


def missing(description: Mapping[str, Any]) -> list[str]:
    """Required fields that a description lacks or leaves null; "" is an answer."""
    return [field for field in FIELDS if description.get(field) is None]
