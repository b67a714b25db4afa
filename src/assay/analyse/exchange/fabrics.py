"""Line rates of a node's network, from what the kernel reports about its ports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from assay.records import Scalar

# The kernel reports the signaling rate of older generations: the data rate is what remains after their
# encoding (8b/10b; 64b/66b). From EDR on it reports the data rate itself.
# Source: InfiniBand Architecture Specification, volume 2; drivers/infiniband/core/sysfs.c.
_DATA_SHARE = {"SDR": 0.8, "DDR": 0.8, "QDR": 0.8, "FDR10": 64 / 66, "FDR": 64 / 66}


@dataclass(frozen=True)
class Fabric:
    """The maximum rate that leaves a node.

    bytes_per_s  of all ports that count, one direction
    ports        how many and of which kind, as text: `4 × EDR InfiniBand`
    """

    bytes_per_s: float
    ports: str


def port_bytes_per_s(rate: str) -> float | None:
    """Data rate of a port from `/sys/class/infiniband/*/ports/*/rate`, bytes per second, one direction.

    >>> port_bytes_per_s("100 Gb/sec (4X EDR)") / 1e9
    12.5
    >>> port_bytes_per_s("40 Gb/sec (4X QDR)") / 1e9
    4.0
    """
    match = re.fullmatch(r"\s*([\d.]+) Gb/sec(?: \(\d+X(?: (\w+))?\))?\s*", rate)
    if match is None or match[1].count(".") > 1 or not float(match[1]):
        return None
    return float(match[1]) * 1e9 / 8 * _DATA_SHARE.get(match[2] or "", 1.0)


def of_node(facts: Mapping[str, Scalar]) -> Fabric | None:
    """A node's fabric: all its active InfiniBand or RoCE ports, or else its fastest Ethernet port that is up.

    It is unknown which of several ports a job used: the sum is what it could have used.
    """
    ports: list[tuple[float, str]] = []
    for name, value in facts.items():
        match = re.fullmatch(r"(infiniband\..+\.port\w+)\.rate", name)
        rate = port_bytes_per_s(value) if match and isinstance(value, str) else None
        if match is None or rate is None or "ACTIVE" not in str(facts.get(f"{match[1]}.state")):
            continue
        generation = re.search(r"\d+X (\w+)\)", str(value))
        layer = str(facts.get(f"{match[1]}.link_layer") or "InfiniBand")
        word = generation[1] if generation and layer == "InfiniBand" else f"{rate * 8 / 1e9:g} Gb/s"
        ports.append((rate, f"{word} {layer}"))
    if ports:
        kinds = {kind: sum(1 for _, other in ports if other == kind) for _, kind in ports}
        return Fabric(sum(r for r, _ in ports), " + ".join(f"{n} × {kind}" for kind, n in kinds.items()))
    return _ethernet(facts)


def _ethernet(facts: Mapping[str, Scalar]) -> Fabric | None:
    rates = [
        float(value)
        for name, value in facts.items()
        if re.fullmatch(r"net\..+\.bits_per_s", name)
        and isinstance(value, int | float)
        and facts.get(name.replace(".bits_per_s", ".state")) == "up"
    ]
    if not rates:
        return None
    return Fabric(max(rates) / 8, f"1 × {max(rates) / 1e9:g} Gb/s Ethernet")
