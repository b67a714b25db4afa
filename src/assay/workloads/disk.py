"""Reading a file on a node, past the page cache."""

from __future__ import annotations

from pydantic import ConfigDict, Field, model_validator

from assay.errors import InputError
from assay.readers.payload_log import payload_reader
from assay.readers.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.program import program_task
from assay.workloads.workload import Workload

_ALIGNED = 4096  # bytes that reads past the page cache are a multiple of

METRICS = (
    Metric("read_bandwidth", "B/s", "higher", "bytes a second, read in order", scales=False),
    Metric(
        "random_read_latency",
        "s",
        "lower",
        "of one read at a random place after the other, at a percentile",
        scales=False,
    ),
)


class DiskParams(Params):
    """A file in a directory of the node, written first, or one that is there; read in order, then at random.

    It is read with O_DIRECT. Where the file system has none the page cache is asked to drop it, and a file
    that stays there fails the trial: the fact `page_cache` tells which way was taken. A drive's, a file
    server's or a hypervisor's own cache can't be passed from here; a file larger than they are does. The test
    file takes at most half of the free space and is gone however the trial ends.
    `{directory: /scratch, size_bytes: 8589934592}`.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"directory": "/tmp", "size_bytes": 2**26, "min_time_s": 0.2}]}  # noqa: S108
    )

    directory: str | None = Field(
        None, pattern="^/", description="On the node: where the test file is written, so what is measured."
    )
    file: str | None = Field(None, pattern="^/", description="On the node: read this one instead.")
    size_bytes: int = Field(2**30, ge=2**20, multiple_of=_ALIGNED, description="Of the test file.")
    block_bytes: int = Field(2**20, ge=_ALIGNED, multiple_of=_ALIGNED, description="Of a read in order.")
    random_block_bytes: int = Field(
        _ALIGNED, ge=_ALIGNED, multiple_of=_ALIGNED, description="Of a read at random."
    )
    readers: int = Field(4, ge=1, le=256, description="Reads in order that are under way at once.")
    min_time_s: float = Field(1.0, gt=0, description="Timed seconds, of each way of reading.")

    @model_validator(mode="after")
    def _one_place(self) -> DiskParams:
        if (self.directory is None) == (self.file is None):
            raise ValueError("give either the directory to write a test file in, or the file to read")
        return self


def _task(params: DiskParams, shape: Shape, seed: int) -> Task:
    if shape.ranks != 1:
        raise InputError("a disk is read by one rank; write the shape 1x1")
    without = ("size_bytes",) if params.directory is None else ()
    return program_task("assay_payloads.micro.disk", params, seed=seed, without=without)


DISK = Workload(
    reader=payload_reader("disk", DiskParams, METRICS),
    about="read a file past the page cache, in order and at random",
    task=_task,
    timed_s=lambda params: 2 * params.min_time_s,
)
