"""Checks of a node's GPUs with the site's own programs: nvbandwidth and gpu-burn, once per node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from assay.formats import gpu_burn, nvbandwidth
from assay.formats.reader import Params
from assay.records import Shape, Task
from assay.workloads.program import program_task
from assay.workloads.site_reports import reported_reader
from assay.workloads.workload import Workload, example


class NvbandwidthParams(Params):
    """One run on each node, over all GPUs that it sees.

    A test that the node's GPUs don't support counts as waived.
    """

    model_config = example(tests=["device_to_device_memcpy_read_ce"], samples=5)

    tests: tuple[Annotated[str, Field(pattern=r"^\w+$")], ...] = Field(
        (), description="Names of tests; default: all that the node's GPUs support."
    )
    samples: int | None = Field(
        None, ge=1, description="Repetitions of each copy; default: nvbandwidth's, 3."
    )
    buffer_mib: int | None = Field(
        None, ge=1, description="Size of a copy, MiB; default: nvbandwidth's, 512."
    )
    program: str = Field(
        "nvbandwidth", min_length=1, description="The program's path on the nodes, or its name on the PATH."
    )


class GpuBurnParams(Params):
    """One run on each node, over all its GPUs, until they are hot.

    The trial fails if a GPU computes wrong results or dies.
    """

    model_config = example(seconds=300, tensor_cores=True)

    seconds: int = Field(60, ge=1, description="Duration.")
    precision: str = Field(
        "single", pattern=r"^(single|double)$", description="Precision of the products: single or double."
    )
    tensor_cores: bool = Field(False, description="Use tensor cores if the GPU has them.")
    memory_percent: int | None = Field(
        None, ge=1, le=100, description="Share of each GPU's free memory; default: gpu_burn's, 90."
    )
    program: str = Field(
        "gpu_burn",
        min_length=1,
        description="The program's path on the nodes, or its name on the PATH; it runs in its own directory, "
        "which contains compare.ptx.",
    )


def _on_each_node(params: Params, arguments: Sequence[str], *, in_its_directory: bool) -> Task:
    task = program_task(
        "assay_payloads.micro.each_node", params, without=type(params).model_fields.keys() - {"program"}
    )
    place = ("--in-its-directory",) if in_its_directory else ()
    return replace(task, argv=(*task.argv, *place, "--", *arguments))


def _nvbandwidth_task(params: NvbandwidthParams, _shape: Shape, _seed: int) -> Task:
    argv: list[str] = []
    for test in params.tests:
        argv += ["-t", test]
    argv += ["-i", str(params.samples)] if params.samples else []
    argv += ["-b", str(params.buffer_mib)] if params.buffer_mib else []
    return _on_each_node(params, argv, in_its_directory=False)


def _gpu_burn_task(params: GpuBurnParams, _shape: Shape, _seed: int) -> Task:
    argv = ["-d"] if params.precision == "double" else []
    argv += ["-tc"] if params.tensor_cores else []
    argv += ["-m", f"{params.memory_percent}%"] if params.memory_percent else []
    return _on_each_node(params, [*argv, str(params.seconds)], in_its_directory=True)


NVBANDWIDTH = Workload(
    reader=reported_reader(
        "nvbandwidth", NvbandwidthParams, nvbandwidth.report, lambda _params: nvbandwidth.METRICS, version=3
    ),
    about="copies between the GPUs of a node, and between them and its memory, with NVIDIA's nvbandwidth",
    task=_nvbandwidth_task,
)
GPU_BURN = Workload(
    reader=reported_reader("gpu-burn", GpuBurnParams, gpu_burn.report, lambda _params: gpu_burn.METRICS),
    about="matrix products on all GPUs of a node with gpu-burn: rate, temperature, power, and wrong results",
    task=_gpu_burn_task,
    timed_s=lambda params: float(params.seconds),
)
