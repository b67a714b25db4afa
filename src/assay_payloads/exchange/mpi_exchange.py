"""The exchanges of collectives.py with MPI itself, between buffers in host memory, under mpirun.

mpi4py's wheels find the image's MPI library on import: Open MPI's or MPICH's.
"""

from __future__ import annotations

import torch
from mpi4py import MPI

from assay_payloads.measuring.rank import Rank

WORLD = MPI.COMM_WORLD
TAG = 7


def join(rank: Rank) -> None:
    """Compare MPI's numbering of this process with the launcher's, and report which MPI it is."""
    if (WORLD.Get_rank(), WORLD.Get_size()) != (rank.rank, rank.size):
        rank.fail(
            f"MPI says this process is rank {WORLD.Get_rank()} of {WORLD.Get_size()}, but the launcher says "
            f"{rank.rank} of {rank.size}: start the ranks with mpirun (kind: mpijob)"
        )
    rank.log("mpi_library", MPI.Get_library_version().splitlines()[0].rstrip("\0").partition(",")[0])


def all_reduce(_send: torch.Tensor, data: torch.Tensor, _rank: Rank) -> None:
    """In place."""
    WORLD.Allreduce(MPI.IN_PLACE, data.numpy())


def broadcast(_send: torch.Tensor, data: torch.Tensor, _rank: Rank) -> None:
    """From rank 0, in place."""
    WORLD.Bcast(data.numpy(), 0)


def all_gather(send: torch.Tensor, receive: torch.Tensor, _rank: Rank) -> None:
    """Each rank's part to all."""
    WORLD.Allgather(send.numpy(), receive.numpy())


def reduce_scatter(send: torch.Tensor, receive: torch.Tensor, _rank: Rank) -> None:
    """Each rank's part of the sum."""
    WORLD.Reduce_scatter_block(send.numpy(), receive.numpy())


def alltoall(send: torch.Tensor, receive: torch.Tensor, _rank: Rank) -> None:
    """A part from each rank to each."""
    WORLD.Alltoall(send.numpy(), receive.numpy())


def sendrecv(send: torch.Tensor, receive: torch.Tensor, rank: Rank) -> None:
    """Around a ring: to the next rank, from the one before."""
    after, before = (rank.rank + 1) % rank.size, (rank.rank - 1) % rank.size
    WORLD.Sendrecv(send.numpy(), after, TAG, receive.numpy(), before, TAG)
