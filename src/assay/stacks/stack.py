"""From provenance to the stack of a run, and to the class of the hardware that it ran on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from assay.provenance import group_of, known
from assay.records import HardwareClass, Provenance, Scalar, Stack

# Which facts are part of a stack's system: which software, not which machine or which state.
_SYSTEM: Final = re.compile(
    r"os|libc|kernel|kernel\.architecture|gpu\.driver|gpu\.cuda|kubernetes\.image_id"
    r"|python\.(version|implementation|torch_cuda|torch_hip)|cpu\.microcode"
)
_KERNEL_SETTINGS: Final = re.compile(
    r"kernel\.(options|numa_balancing)|memory\.(transparent_)?hugepages|cpu\.(governor|boost|smt)"
    r"|gpu\.\*\.(ecc|mig|power_limit_w|persistence)"
)
_OF_A_JOB: Final = "env.SLURM_"  # which job it was, not how the software was set


def stack_of(provenance: Provenance | None) -> Stack | None:
    """The stack of a run; None if its nodes don't report one, or if it is not the same on all of them."""
    if provenance is None or not known(provenance):
        return None
    stacks = {stack.digest: stack for stack in map(_stack, provenance.nodes) if stack is not None}
    return next(iter(stacks.values())) if len(stacks) == 1 else None


def hardware_of(provenance: Provenance | None) -> HardwareClass | None:
    """The class of a run's nodes; None if it is unknown, or not the same for all of them."""
    if provenance is None or not known(provenance):
        return None
    several = len(provenance.nodes) > 1
    classes = {
        hardware.digest: hardware for node in provenance.nodes if (hardware := _hardware(node, several)).cpu
    }
    return next(iter(classes.values())) if len(classes) == 1 else None


def _stack(node: Mapping[str, Scalar]) -> Stack | None:
    if "python.version" not in node and not any(name.startswith("package.") for name in node):
        return None
    system: dict[str, Scalar] = {}
    packages: dict[str, str] = {}
    builds: dict[str, str] = {}
    settings: dict[str, Scalar] = {}
    for name, value in sorted(_merged_gpus(node).items()):
        if name.startswith("package."):
            packages[name.removeprefix("package.")] = str(value)
        elif name.startswith("build."):
            builds[name.removeprefix("build.")] = str(value)
        elif name.startswith("conda."):
            builds[name] = str(value)
        elif _SYSTEM.fullmatch(name):
            system[name] = value
        elif _KERNEL_SETTINGS.fullmatch(name) or (
            group_of(name) == "environment" and not name.startswith(_OF_A_JOB)
        ):
            settings[name] = value
    for name, build in _local_builds(node, packages):
        builds[name] = f"{build} {builds.get(name, '')}".strip()
    return Stack(system, packages, builds, settings)


def _local_builds(node: Mapping[str, Scalar], packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Builds that a package's own version file states and its metadata doesn't: torch's `+cu128`."""
    for name in ("torch", "torchvision"):
        stated = str(node.get(f"python.{name}") or "").partition("+")
        if stated[2] and "+" not in packages.get(name, "+"):
            yield name, f"+{stated[2]}"


def _merged_gpus(node: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The node's facts, with those of all its GPUs as one if they are equal."""
    merged: dict[str, set[Scalar]] = {}
    for name, value in node.items():
        merged.setdefault(re.sub(r"^gpu\.\d+\.", "gpu.*.", name), set()).add(value)
    return {
        name: next(iter(values)) if len(values) == 1 else " | ".join(sorted(map(str, values)))
        for name, values in merged.items()
    }


def _hardware(node: Mapping[str, Scalar], several: bool) -> HardwareClass:
    gpus = sorted((name, value) for name, value in node.items() if re.fullmatch(r"gpu\.\d+\.name", name))
    limits = [node.get("cpu.quota"), node.get("cpu.allowed")]
    cpus = min((float(limit) for limit in limits if isinstance(limit, int | float)), default=None)
    model = node.get("cpu.model")
    part = "/".join(str(node[name]) for name in ("cpu.implementer", "cpu.part") if name in node)
    return HardwareClass(
        cpu=str(model) if model else f"ARM {part}" if part else None,
        isa=tuple(str(node.get("cpu.isa") or "").split()),
        cpus=cpus,
        gpus=tuple(str(value) for _, value in gpus),
        fabric=tuple(_fabric(node)) if several else (),
    )


def _fabric(node: Mapping[str, Scalar]) -> Iterator[str]:
    """The rates of what connects nodes, each once: InfiniBand's or RoCE's, else the networks'."""
    rates = {str(v) for name, v in node.items() if re.fullmatch(r"infiniband\..+\.port\d+\.rate", name)}
    if rates:
        yield from sorted(f"InfiniBand {rate}" for rate in rates)
        return
    speeds = {
        v for name, v in node.items() if re.fullmatch(r"net\..+\.bits_per_s", name) and isinstance(v, int)
    }
    yield from (f"{speed / 1e9:g} Gbit/s" for speed in sorted(speeds))
