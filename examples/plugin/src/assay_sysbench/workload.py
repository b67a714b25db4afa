"""Counting primes, with a program of this package that travels with the job."""

from __future__ import annotations

from pydantic import Field

from assay.plugins import Metric, Params, Shape, Task, Workload, payload_reader, program_task

RATE = Metric("rate", "1/s", "higher", "numbers tested for being prime, per second")


class PrimesParams(Params):
    """Count the primes up to a limit by trial division, and check the count. One rank: `1x1`."""

    limit: int = Field(100_000, ge=10, le=10_000_000, description="The largest number that is tested.")


def _task(params: PrimesParams, shape: Shape, _seed: int) -> Task:
    if shape.ranks > 1:
        raise ValueError("primes runs on one rank: 1x1")
    return program_task("sysbench_programs.primes", params)


PRIMES = Workload(
    reader=payload_reader("primes", PrimesParams, (RATE,)),
    about="count primes by trial division: numbers tested per second, count checked",
    task=_task,
)
