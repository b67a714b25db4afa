"""The workloads that Assay can run: one file for each, listed here by name and imported on first use."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import BaseModel

from assay.errors import AssayError
from assay.formats.reader import guarded_reader
from assay.registry import EntryPoint, NamedEntries, registry
from assay.workloads.workload import Workload

__all__ = ["PARAMS", "PLACES", "WORKLOADS", "Workload"]

_MODULES = (
    *("resnet50", "ssd", "maskrcnn", "unet3d", "segmentation", "segmentation_validation"),
    *("bert", "gnmt", "transformer", "ncf", "minigo", "digits"),
    *("matmul", "indicators", "membw", "disk", "storage", "gpu_checks:nvbandwidth", "gpu_checks:gpu_burn"),
    *("allreduce", "collectives", "nccl_tests", "perftest", "iperf3", "inference", "llm_serving", "command"),
)
PLACES: Final = {
    name.replace("_", "-"): f"assay.workloads.{module}:{name.upper()}"
    for module, name in ((place.partition(":")[0], place.rpartition(":")[2]) for place in _MODULES)
}


def _guarded(workload: Workload, plugin: EntryPoint) -> Workload:
    """The workload of a plug-in: where reading a run fails, that run has a problem that names the plug-in."""
    return replace(
        workload,
        reader=guarded_reader(workload.reader, plugin),
        task=plugin.guarded(workload.task, passes=(AssayError, ValueError)),
        timed_s=plugin.guarded(workload.timed_s, lambda _failure: None),
    )


WORKLOADS: Final[NamedEntries[Workload]] = registry(
    "assay.workloads", PLACES, Workload, calls_itself=lambda workload: workload.name, adapt=_guarded
)
PARAMS: Final[NamedEntries[type[BaseModel]]] = WORKLOADS.part(lambda workload: workload.params)
