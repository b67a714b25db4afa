"""The plain values that a label, a fact or a handle may have, and the limits of counts and times."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

Scalar = str | int | float | bool | None

LATEST_TIME: Final = 253_370_764_800.0  # the year 9999 begins: what a date can be made of

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Of attempts, repeats or ranks, as the index can hold it; checked when a record is read from JSON."""

Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""Seconds since the epoch, checked likewise."""
