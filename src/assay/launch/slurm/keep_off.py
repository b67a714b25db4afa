"""The scontrol commands that keep jobs off slow nodes of a cluster. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from assay.launch.keep_off import KeepOffMethod, Losses, reason


def ways(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Draining, with its reason."""

    def said(node: str, *words: str) -> str:
        return shlex.join(["scontrol", "update", f"NodeName={node}", *words])

    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(said(node, "State=DRAIN", f"Reason={reason(found)}") for node, found in slow.items()),
            tuple(said(node, "State=RESUME") for node in slow),
        ),
    )
