"""What workloads that measure between two workers share."""

from __future__ import annotations

from typing import Literal

from assay.errors import InputError
from assay.records import Shape

Direction = Literal["0-to-1", "1-to-0", "both"]
"""Direction of the data between worker 0 and worker 1."""


def check_two_workers(shape: Shape) -> None:
    """Raise InputError unless the shape has two workers; `1x2` has two ranks on one worker."""
    if shape.workers != 2 and (shape.workers, shape.accelerators) != (1, 2):
        raise InputError(
            f"the workload runs between two workers, but the shape is {shape}; write 2x1, or 2x1x2 for two "
            "nodes"
        )
