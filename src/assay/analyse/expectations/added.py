"""What is expected of hardware: the records, and those that other packages add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
