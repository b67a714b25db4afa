"""The workloads by name. A new one is a file in this room and a line here."""

from __future__ import annotations

from assay.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {w.name: w for w in ()}

__all__ = ["WORKLOADS", "Workload"]
