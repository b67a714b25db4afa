"""Reading a file on a node, bypassing the page cache."""

from __future__ import annotations

from pydantic import Field, model_validator

from assay.errors import InputError
from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.payload_log import payload_reader
from assay.workloads.program import program_task
from assay.workloads.workload import Workload, example

_ALIGNED = 4096  # bytes; reads that bypass the page cache are multiples of this

METRICS = (
    Metric("read_bandwidth", "B/s", "higher", "bytes per second, read sequentially", scales=False),
    Metric(
        "random_read_latency",
        "s",
        "lower",
        "time of one random read, one at a time, at a percentile",
        scales=False,
    ),
)


class DiskParams(Params):
    """Read a file on the node sequentially, then at random: a new test file, or an existing file.

    Reads use O_DIRECT. If the file system doesn't support it, Assay asks the page cache to drop the file, and
    the trial fails if the file stays there. The fact `page_cache` reports which method was used. The caches
    of drives, file servers, and hypervisors can't be bypassed from here; use a file larger than they are. The
    test file takes at most half of the free space and is removed however the trial ends.
    `{directory: /scratch, size_bytes: 8589934592}`.
    """

    model_config = example(directory="/tmp", size_bytes=2**26, min_time_s=0.2)  # noqa: S108

    directory: str | None = Field(
        None,
        pattern="^/",
        description="Directory on the node for the test file; its disk is what is measured.",
    )
    file: str | None = Field(None, pattern="^/", description="Existing file on the node to read instead.")
    size_bytes: int = Field(2**30, ge=2**20, multiple_of=_ALIGNED, description="Size of the test file.")
    block_bytes: int = Field(
        2**20, ge=_ALIGNED, multiple_of=_ALIGNED, description="Size of a sequential read."
    )
    random_block_bytes: int = Field(
        _ALIGNED, ge=_ALIGNED, multiple_of=_ALIGNED, description="Size of a random read."
    )
    readers: int = Field(4, ge=1, le=256, description="Concurrent sequential reads.")
    min_time_s: float = Field(1.0, gt=0, description="Seconds to time each kind of read.")

    @model_validator(mode="after")
    def _one_place(self) -> DiskParams:
        if (self.directory is None) == (self.file is None):
            raise ValueError(
                "give either directory, to write a test file in, or file, to read an existing file"
            )
        return self


def _task(params: DiskParams, shape: Shape, seed: int) -> Task:
    if shape.ranks != 1:
        raise InputError("a disk is read by one rank; use shape 1x1")
    without = ("size_bytes",) if params.directory is None else ()
    return program_task("assay_payloads.micro.disk", params, seed=seed, without=without)


DISK = Workload(
    reader=payload_reader("disk", DiskParams, METRICS),
    about="read a file sequentially and at random, bypassing the page cache",
    task=_task,
    timed_s=lambda params: 2 * params.min_time_s,
)
