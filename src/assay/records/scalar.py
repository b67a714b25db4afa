"""The plain values that a label, a fact or a handle may have."""

from __future__ import annotations

Scalar = str | int | float | bool | None
