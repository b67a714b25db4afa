"""The plain values that a label, a fact or a handle may have, and the limits of counts and times."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

Scalar = str | int | float | bool | None

LATEST_TIME: Final = 253_370_764_800.0  # the year 9999 begins: what a date can be made of
LARGEST_AMOUNT: Final = 1e15

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Of attempts, repeats or ranks, as the index can hold it; checked when a record is read from JSON."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""A count that is never 0: of workers, or of the accelerators of one."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""A duration, checked likewise."""

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
"""Between nothing and everything, such as a margin or a confidence."""

Amount = Annotated[float, msgspec.Meta(gt=0, le=LARGEST_AMOUNT)]
"""Of money, checked likewise."""

Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""Seconds since the epoch, checked likewise."""
