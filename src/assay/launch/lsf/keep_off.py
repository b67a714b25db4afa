"""The badmin commands that keep jobs off slow nodes of a cluster. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from assay.launch.keep_off import KeepOffMethod, Losses, reason


def ways(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Closing hosts, with the reason as the administrator's comment."""
    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(
                shlex.join(["badmin", "hclose", "-C", reason(losses), node]) for node, losses in slow.items()
            ),
            tuple(shlex.join(["badmin", "hopen", node]) for node in slow),
        ),
    )
