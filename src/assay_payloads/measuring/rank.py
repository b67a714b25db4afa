"""One process of a job: its place, its device, its log, its collectives with the others.

Every measuring program in this package starts with it. The file is sent with the program.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:  # imported where a device is used: programs without one run without torch
    import torch

START, END = "INTERVAL_START", "INTERVAL_END"
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
VARIABLES = (  # rank, size, and local rank: torchrun's, otherwise Open MPI's, otherwise Slurm's
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    OPEN_MPI,
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def place(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Rank, size, and local rank from the first launcher that sets them; (0, 1, 0) if none does.

    Raises ValueError if the values are not integers.
    """
    names = next((names for names in VARIABLES if names[0] in environment), None)
    if names is None:
        return 0, 1, 0
    try:
        rank, size, local_rank = (int(environment[name]) for name in names)
    except (KeyError, ValueError) as error:
        values = ", ".join(f"{name}={environment.get(name, '(not set)')}" for name in names)
        raise ValueError(f"these three must be whole numbers: {values}") from error
    return rank, size, local_rank


class Rank:
    """One process of the job: its place, its device, its log, its collectives with the others."""

    def __init__(self) -> None:
        self.rank, self.size, self.local_rank, self._lines = 0, 1, 0, 0
        try:
            self.rank, self.size, self.local_rank = place(os.environ)
        except ValueError as error:
            self.fail(str(error))
        if not (0 <= self.rank < self.size and self.local_rank >= 0):
            self.fail(f"rank {self.rank} (local {self.local_rank}) of {self.size} ranks can't be")
        if self.size > 1:
            self._check_meeting_place()
        self.log("payload", event=START)

    def _check_meeting_place(self) -> None:
        address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        if not address or not port:
            self.fail(f"{self.size} ranks need MASTER_ADDR and MASTER_PORT; found {address!r} and {port!r}")
        if not (port.isdecimal() and 0 < int(port) < 65536):
            self.fail(f"MASTER_PORT={port} is not a port; expected a number from 1 to 65535")
        try:
            socket.getaddrinfo(address, int(port))
        except OSError as error:
            self.fail(f"MASTER_ADDR={address} can't be resolved: {error}")

    def log(self, key: str, value: object = None, event: str = "POINT_IN_TIME", **metadata: object) -> None:
        """Print one MLLOG line: with `unit`, a measurement, identified by `labels`; otherwise a fact.

        A line is written at once and whole, so that ranks that share an output don't mix theirs.
        """
        about: dict[str, object] = {"rank": self.rank, "seq": self._lines}
        caller = sys._getframe(1)
        about |= {"file": Path(caller.f_code.co_filename).name, "lineno": caller.f_lineno} | metadata
        entry = {"namespace": "assay", "time_ms": time.time_ns() // 10**6, "event_type": event, "key": key}
        entry |= {"value": value, "metadata": about}
        sys.stdout.write(f":::MLLOG {json.dumps(entry, allow_nan=False)}\n")
        sys.stdout.flush()
        self._lines += 1

    def fail(self, message: str) -> NoReturn:
        """End this rank with exit code 1 and a message: no figure is printed for a failure."""
        sys.exit(f"{Path(sys.argv[0]).name}: rank {self.rank}: {message}")

    def join(self, device: str, backend: str = "auto") -> None:
        """Select a device (`auto`, `cpu`, `cuda`), connect to the other ranks, report the environment."""
        import torch
        import torch.distributed as dist

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device("cpu") if device == "cpu" else self._take_gpu()
        if backend == "auto":
            backend = "nccl" if device == "cuda" else "gloo"
        if backend == "nccl" and device == "cpu":
            self.fail("nccl connects GPUs, but the device is cpu; use gloo")
        if backend == "mpi" and device == "cuda":
            self.fail("mpi exchanges data in host memory, but the device is cuda; use --device cpu")
        if self.size > 1:  # in addition to MPI's own exchanges, the ranks connect with gloo
            group = "gloo" if backend == "mpi" else backend
            dist.init_process_group(group, rank=self.rank, world_size=self.size)
        facts = {"world_size": self.size, "backend": backend if self.size > 1 else "none", "device": device}
        for key, value in (facts | self._software()).items():
            self.log(key, value)

    def _take_gpu(self) -> torch.device:
        import torch

        count = torch.cuda.device_count()
        if count != 1 and self.local_rank >= count:  # a launcher may show each rank only one GPU
            self.fail(
                f"no GPU for local rank {self.local_rank}, {count} visible: start fewer ranks, or use the CPU"
            )
        torch.cuda.set_device(self.local_rank if count > 1 else 0)
        return torch.device("cuda", torch.cuda.current_device())

    def _software(self) -> dict[str, object]:
        import torch
        import torch.distributed as dist

        facts: dict[str, object] = {"threads": torch.get_num_threads(), "torch_version": torch.__version__}
        if self.device.type == "cpu":
            info = Path("/proc/cpuinfo")
            lines = info.read_text().splitlines() if info.exists() else []
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
            return facts | {"device_name": names[0] if names else platform.machine()}
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() else None
        cuda = {"cuda_version": torch.version.cuda, "cudnn_version": torch.backends.cudnn.version()}
        return facts | cuda | {"nccl_version": nccl, "device_name": torch.cuda.get_device_name(self.device)}

    def clock(self) -> float:
        """Seconds on a monotonic clock, once this rank's device has finished its work."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def over_ranks(self, values: list[float], how: str) -> list[float]:
        """Each value's `MAX`, `MIN`, or `SUM` over all ranks, on every rank; all ranks wait here."""
        if self.size == 1:
            return values
        import torch
        import torch.distributed as dist

        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
        combined: list[float] = tensor.tolist()
        return combined

    def leave(self) -> None:
        """Report that the program finished, and leave the job."""
        self.log("payload", event=END)
        if self.size > 1:
            import torch.distributed as dist

            dist.destroy_process_group()
