"""The workloads that Assay can run, listed here by module and name, and imported on first use."""

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
    *("vision: resnet50 ssd maskrcnn unet3d", "segmentation: segmentation segmentation_validation"),
    *("language: bert gnmt transformer", "ncf: ncf", "minigo: minigo", "digits: digits"),
    *("micro: matmul indicators membw", "storage: disk storage", "micro: nvbandwidth gpu_burn"),
    *("exchange: allreduce collectives nccl_tests", "point_to_point: perftest iperf3"),
    *("inference: inference", "llm_serving: llm_serving", "command: command"),
)
PLACES: Final = {
    name.replace("_", "-"): f"assay.workloads.{module}:{name.upper()}"
    for module, names in (line.split(": ") for line in _MODULES)
    for name in names.split()
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
