"""What workloads have in common that measure between two workers."""

from __future__ import annotations

from typing import Literal

from assay.errors import InputError
from assay.records import Shape

Direction = Literal["0-to-1", "1-to-0", "both"]
"""Way of the data, between worker 0 and worker 1."""


def check_two_workers(shape: Shape) -> None:
    """Raises InputError where a shape has not two ends; `1x2` has them on one worker."""
    if shape.workers != 2 and (shape.workers, shape.accelerators) != (1, 2):
        raise InputError(
            f"it runs between two workers, and the shape is {shape}; write 2x1, or 2x1x2 for two nodes"
        )
