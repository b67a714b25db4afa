"""What a directory's storage delivers to several clients at once, measured with fio."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ConfigDict, Field, model_validator

from assay.formats.reader import Params
from assay.formats.storage import storage_reader
from assay.records import Shape, Task
from assay.workloads.program import program_task
from assay.workloads.workload import Workload

Phase = Literal[
    "sequential-write",
    "sequential-read",
    "random-read",
    "random-write",
    "checkpoint-save",
    "checkpoint-load",
    "file-create",
    "file-stat",
    "file-list",
    "file-read",
    "file-delete",
]
_TIMED: Final = {"sequential-read", "random-read", "random-write"}
_NEEDS: Final[dict[str, Phase]] = {
    "sequential-read": "sequential-write",
    "random-read": "sequential-write",
    "random-write": "sequential-write",
    "checkpoint-load": "checkpoint-save",
    "file-stat": "file-create",
    "file-list": "file-create",
    "file-read": "file-create",
    "file-delete": "file-create",
}


class StorageParams(Params):
    """Read and write a storage from every rank at once with fio, which must be installed on the nodes.

    Each rank is a client with files of its own, and all start each phase together: sequential and random
    reads and writes that bypass the page cache, saving and loading a checkpoint, and creating, listing,
    reading and deleting many small files. A file server has a cache that can't be bypassed from here: make
    `size_bytes` several times its memory. All files are removed at the end. How to read the results:
    docs/how-to/storage.md.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "directory": "/tmp",  # noqa: S108
                    "size_bytes": 2**26,
                    "seconds": 1,
                    "checkpoint_bytes": 2**26,
                    "files": 2000,
                }
            ]
        }
    )

    directory: str = Field(pattern="^/", description="Directory on the nodes, on the storage to measure.")
    phases: tuple[Phase, ...] = Field(
        (
            *("sequential-write", "sequential-read", "random-read", "random-write"),
            *("checkpoint-save", "checkpoint-load"),
            *("file-create", "file-stat", "file-list", "file-read", "file-delete"),
        ),
        min_length=1,
        description="What to measure, in the order of this list's default.",
    )
    size_bytes: int = Field(2**30, ge=2**20, description="Size of each rank's files, in bytes.")
    block_bytes: int = Field(
        2**20, ge=4096, multiple_of=4096, description="Size of a sequential read or write."
    )
    random_block_bytes: int = Field(
        2**17,
        ge=4096,
        multiple_of=4096,
        description="Size of a random read or write: what a training reads at once.",
    )
    jobs: int = Field(
        4, ge=1, le=256, description="Processes of fio in each rank, like workers of a data loader."
    )
    depth: int = Field(16, ge=1, le=1024, description="Requests in flight of each of them.")
    seconds: int = Field(10, ge=1, description="Seconds to time each kind of read and write.")
    ramp_seconds: int = Field(1, ge=0, le=600, description="Seconds before that, which don't count.")
    direct: bool = Field(True, description="Bypass the page cache with O_DIRECT.")
    checkpoint_bytes: int = Field(
        2**30, ge=4096, multiple_of=4096, description="Size of each rank's part of a checkpoint."
    )
    files: int = Field(2000, ge=1, le=1_000_000, description="Small files of each of fio's processes.")
    file_bytes: int = Field(2**17, ge=1, le=2**30, description="Size of a small file.")
    program: str = Field(
        "fio", min_length=1, description="The program's path on the nodes, or its name on the PATH."
    )

    @model_validator(mode="after")
    def _has_the_files_that_it_reads(self) -> StorageParams:
        missing = {_NEEDS[phase] for phase in self.phases if phase in _NEEDS} - {*self.phases}
        if missing:
            raise ValueError(
                f"add {', '.join(sorted(missing))} to phases: it makes the files that others use"
            )
        if "sequential-write" in self.phases and self.size_bytes < self.jobs * self.block_bytes:
            raise ValueError(
                f"size_bytes {self.size_bytes} is less than a block of {self.block_bytes} for each of the "
                f"{self.jobs} jobs"
            )
        return self


def _task(params: StorageParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.storage", params, seed=seed)


STORAGE = Workload(
    reader=storage_reader(StorageParams),
    about="several clients of one storage with fio: reads, writes, checkpoints, small files",
    task=_task,
    timed_s=lambda params: len(_TIMED & {*params.phases}) * (params.seconds + params.ramp_seconds),
)
