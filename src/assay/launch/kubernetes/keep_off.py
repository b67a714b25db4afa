"""The kubectl commands that keep pods off slow nodes of a cluster. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from assay.launch.keep_off import KeepOffMethod, Losses

KEY = "assay.dev/slow"  # key of labels and taints
_MOST_LETTERS = 63  # in a label's value


def ways(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Labels, taints, and cordons, each with the command that undoes it."""
    context = definition.get("context")

    def kubectl(*arguments: str) -> str:
        return shlex.join(["kubectl", *(["--context", context] if context else []), *arguments])

    pairs = {node: f"{KEY}={_label(losses)}" for node, losses in slow.items()}
    return (
        KeepOffMethod(
            "labels",
            "for a job's nodeAffinity to avoid",
            tuple(kubectl("label", "node", "--overwrite", node, pair) for node, pair in pairs.items()),
            tuple(kubectl("label", "node", node, f"{KEY}-") for node in slow),
        ),
        KeepOffMethod(
            "taints",
            "pods go elsewhere while there is room",
            tuple(
                kubectl("taint", "node", "--overwrite", node, f"{pair}:PreferNoSchedule")
                for node, pair in pairs.items()
            ),
            tuple(kubectl("taint", "node", node, f"{KEY}:PreferNoSchedule-") for node in slow),
        ),
        KeepOffMethod(
            "drain",
            "no new pods; running pods stay",
            tuple(kubectl("cordon", node) for node in slow),
            tuple(kubectl("uncordon", node) for node in slow),
        ),
    )


def _label(losses: Losses) -> str:
    """What a node is slow at, as a label's value: letters, digits, and `-_.`, at most 63."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(losses))[:_MOST_LETTERS].strip("-_.")
