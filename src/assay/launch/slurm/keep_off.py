"""The scontrol commands that keep jobs off slow nodes of a cluster. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from assay.launch.keep_off import KeepOffMethod, Losses, reason


def ways(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Draining, with its reason."""

    def update(node: str, *settings: str) -> str:
        return shlex.join(["scontrol", "update", f"NodeName={node}", *settings])

    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(update(node, "State=DRAIN", f"Reason={reason(losses)}") for node, losses in slow.items()),
            tuple(update(node, "State=RESUME") for node in slow),
        ),
    )
