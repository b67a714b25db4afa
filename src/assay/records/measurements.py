"""What a log printed: values and curves, with their places in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assay.records.plain import Scalar


@dataclass(frozen=True)
class Measurement:
    """One value that a run printed, and where.

    labels  what distinguishes it from others of the same metric: payload_bytes, dtype, size
    file    log file's name within the run's directory, line counted from 1
    """

    metric: str
    value: float
    unit: str
    labels: Mapping[str, Scalar]
    file: str
    line: int


@dataclass(frozen=True)
class Series:
    """A value over steps, epochs or seconds since the start, in the order printed."""

    name: str
    unit: str
    x_name: Literal["step", "epoch", "samples", "seconds"]
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class ConfusionMatrix:
    """An evaluation's predictions: `counts[true][predicted]`, both in the order of `classes`."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Links:
    """Connections between two places of a job by one transport, in one direction.

    sender, receiver  `0 node-a`, rank and node, for a small job; nodes for a large one
    transport         its kind: `GPUDirect RDMA`, `InfiniBand`, `sockets`, `P2P`, `shared memory` …
    links             pairs of ranks
    channels          of all these together
    """

    sender: str
    receiver: str
    transport: str
    links: int
    channels: int
