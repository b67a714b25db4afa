"""A collective over all ranks with torch.distributed or MPI, one payload size at a time.

    torchrun --nproc-per-node 2 -m assay_payloads.exchange.collectives --operation all_gather \\
        --payload-bytes 1024 1048576

The time of an operation is that of the slowest rank, averaged over many operations in a row. Sizes and
bandwidths are nccl-tests': the payload is everything that an operation moves; for an all-gather, what every
rank has afterward. Algorithmic bandwidth is payload / time; bus bandwidth is that times a factor of the
number of ranks n, which makes it independent of n if the links are the limit. Before and after the timing, an
operation on known values is checked, element by element, on every rank.

Source: nccl-tests, doc/PERFORMANCE.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from assay_payloads.measuring.rank import Rank

WARMUP = 5  # operations before the timing: connections are opened, algorithms chosen
ELEMENT_BYTES = 4


class Operation(NamedTuple):
    """One kind of exchange.

    exchange  performs it: send buffer, receive buffer, this rank
    expected  what is received: values(r) returns what rank r sent, n ranks, this rank's number
    bus       bus bandwidth over algorithmic bandwidth, for n ranks
    cuts      the payload has a part for each rank; sends, receives: "whole" of it, or one "part"
    in_place  the send buffer is the receive buffer
    """

    exchange: Callable[[torch.Tensor, torch.Tensor, Rank], None]
    expected: Callable[[Callable[[int], torch.Tensor], int, int], torch.Tensor]
    bus: Callable[[int], float] = lambda n: (n - 1) / n
    cuts: bool = True
    sends: str = "whole"
    receives: str = "whole"
    in_place: bool = False


def all_reduce(_send: torch.Tensor, data: torch.Tensor, _rank: Rank) -> None:
    """In place."""
    dist.all_reduce(data)


def broadcast(_send: torch.Tensor, data: torch.Tensor, _rank: Rank) -> None:
    """From rank 0, in place."""
    dist.broadcast(data, 0)


def all_gather(send: torch.Tensor, receive: torch.Tensor, _rank: Rank) -> None:
    """Each rank's part to all."""
    dist.all_gather_into_tensor(receive, send)


def reduce_scatter(send: torch.Tensor, receive: torch.Tensor, _rank: Rank) -> None:
    """Each rank's part of the sum."""
    dist.reduce_scatter_tensor(receive, send)


def alltoall(send: torch.Tensor, receive: torch.Tensor, _rank: Rank) -> None:
    """Send a part from every rank to every rank."""
    dist.all_to_all_single(receive, send)


def sendrecv(send: torch.Tensor, receive: torch.Tensor, rank: Rank) -> None:
    """Around a ring: to the next rank, from the one before."""
    after, before = (rank.rank + 1) % rank.size, (rank.rank - 1) % rank.size
    pair = [dist.P2POp(dist.isend, send, after), dist.P2POp(dist.irecv, receive, before)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()


def summed(values: Callable[[int], torch.Tensor], n: int) -> torch.Tensor:
    """The sum over all ranks: integers that float32 represents exactly for up to 9,000 ranks."""
    return sum((values(r) for r in range(1, n)), values(0))


def part(whole: torch.Tensor, n: int, me: int) -> torch.Tensor:
    """Rank `me`'s of n equal parts."""
    return whole.view(n, -1)[me]


def one(_n: int) -> float:
    """Every byte crosses a link once."""
    return 1.0


OPERATIONS = {
    "all_reduce": Operation(
        all_reduce,
        lambda values, n, _me: summed(values, n),
        bus=lambda n: 2 * (n - 1) / n,
        cuts=False,
        in_place=True,
    ),
    "all_gather": Operation(
        all_gather, lambda values, n, _me: torch.cat([values(r) for r in range(n)]), sends="part"
    ),
    "reduce_scatter": Operation(
        reduce_scatter, lambda values, n, me: part(summed(values, n), n, me), receives="part"
    ),
    "alltoall": Operation(
        alltoall, lambda values, n, me: torch.cat([part(values(r), n, me) for r in range(n)])
    ),
    "broadcast": Operation(broadcast, lambda values, _n, _me: values(0), bus=one, cuts=False, in_place=True),
    "sendrecv": Operation(sendrecv, lambda values, n, me: values((me - 1) % n), bus=one, cuts=False),
}


class CollectiveExchange:
    """One operation on one payload size.

    elements  of the whole payload: the requested number, rounded down to a multiple of the ranks
    """

    def __init__(self, rank: Rank, name: str, operation: Operation, payload_bytes: int) -> None:
        self.rank, self.name, self.operation = rank, name, operation
        parts = rank.size if self.operation.cuts else 1
        self.elements = payload_bytes // ELEMENT_BYTES // parts * parts
        if not self.elements:
            rank.fail(
                f"{payload_bytes} bytes are too few for a float32 on each of {rank.size} ranks; "
                f"--payload-bytes must be at least {ELEMENT_BYTES * parts}"
            )

    def count(self, which: str) -> int:
        """Elements of a buffer."""
        return self.elements if which == "whole" else self.elements // self.rank.size

    def values(self, r: int) -> torch.Tensor:
        """What rank r sends in a check: element i is (r mod 7 + 1)·(i mod 251 + 1)."""
        pattern = torch.arange(self.count(self.operation.sends), device=self.rank.device)
        return pattern.remainder_(251).add_(1).float() * (r % 7 + 1)

    def check(self) -> None:
        """Exchange known values and compare every element."""
        send = self.values(self.rank.rank)
        receive = send if self.operation.in_place else self.received()
        self.operation.exchange(send, receive, self.rank)
        expected = self.operation.expected(self.values, self.rank.size, self.rank.rank)
        wrong = int((receive != expected).sum())
        if wrong:
            self.rank.fail(
                f"{wrong} of {len(expected)} elements differ from the expected result of {self.name}, "
                f"payload {ELEMENT_BYTES * self.elements} bytes"
            )

    def received(self) -> torch.Tensor:
        """A receive buffer."""
        return torch.zeros(self.count(self.operation.receives), device=self.rank.device)

    def seconds_each(self, operations: int) -> float:
        """Mean time of an operation on the slowest rank, seconds, after a common start."""
        send = torch.zeros(self.count(self.operation.sends), device=self.rank.device)
        receive = (
            send if self.operation.in_place else self.received()
        )  # zeros stay zeros, however often summed
        self.rank.over_ranks([0.0], "MAX")
        start = self.rank.clock()
        for _ in range(operations):
            self.operation.exchange(send, receive, self.rank)
        return self.rank.over_ranks([(self.rank.clock() - start) / operations], "MAX")[0]

    def measure(self, min_time_s: float) -> None:
        """Check, warm up, time, check again, print."""
        self.check()
        self.seconds_each(WARMUP)
        operations = max(WARMUP, round(min_time_s / self.seconds_each(WARMUP)))
        seconds = self.seconds_each(operations)
        self.check()
        if self.rank.rank == 0:
            size = ELEMENT_BYTES * self.elements
            labels = {"payload_bytes": size}
            busbw = size / seconds * self.operation.bus(self.rank.size)
            self.rank.log("busbw", busbw, unit="B/s", labels=labels, operations=operations)
            self.rank.log("algbw", size / seconds, unit="B/s", labels=labels)
            self.rank.log("latency", seconds, unit="s", labels=labels)


def main() -> None:
    """Read the command line, measure every payload size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [8, 2**10, 2**17, 2**20, 2**24]
    parser.add_argument("--operation", choices=OPERATIONS, default="all_reduce")
    parser.add_argument(
        "--payload-bytes",
        type=int,
        nargs="+",
        default=sizes,
        help="bytes of the whole operation, multiples of 4",
    )
    parser.add_argument("--min-time-s", type=float, default=0.5, help="seconds to time each size")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument(
        "--backend",
        choices=["auto", "gloo", "nccl", "mpi"],
        default="auto",
        help="auto: nccl on GPUs, otherwise gloo; mpi: mpi4py, on the CPU, under mpirun",
    )
    options = parser.parse_args()
    if any(size < ELEMENT_BYTES or size % ELEMENT_BYTES for size in options.payload_bytes):
        parser.error("--payload-bytes must be multiples of 4 above 0: float32 values are exchanged")
    if not options.min_time_s > 0:
        parser.error("--min-time-s must be above 0")
    rank = Rank()
    if rank.size < 2:
        rank.fail("an exchange needs at least 2 ranks: start it with torchrun, srun, or mpirun")
    rank.join(options.device, options.backend)
    operation = OPERATIONS[options.operation]
    if options.backend == "mpi":
        from assay_payloads.exchange import mpi_exchange

        mpi_exchange.join(rank)
        operation = operation._replace(exchange=getattr(mpi_exchange, options.operation))
    for payload_bytes in options.payload_bytes:
        CollectiveExchange(rank, options.operation, operation, payload_bytes).measure(options.min_time_s)
    rank.leave()


if __name__ == "__main__":
    main()
