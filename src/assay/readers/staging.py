"""What the nodes of a run did to bring its data near before the ranks started, from their streams.

The last line of each node's stream is a JSON object, printed by assay_payloads/datasets/staging.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.inputs import read_whole
from assay.readers.payload_log import finite
from assay.records import Measurement, Metric, Scalar

STREAM = "staging-"
TIME = Metric(
    "staging_time", "s", "lower", "Time of the node that took longest to bring its data near", scales=False
)
BYTES = Metric(
    "staged_bytes", "B", None, "Bytes that all nodes copied before the ranks started", scales=False
)
METRICS = (TIME, BYTES)
_MOST_BYTES = 1 << 20


def staged(logs: Mapping[str, Path]) -> tuple[tuple[Measurement, ...], dict[str, Scalar]]:
    """The measurements and facts of a run's staging; none if it had none.

    logs  log files by name, of all streams

    Raises InputError if a stream doesn't end with its figures.
    """
    nodes = {name: _figures(path) for name, path in sorted(logs.items()) if name.startswith(STREAM)}
    if not nodes:
        return (), {}
    slowest = max(nodes, key=lambda name: nodes[name]["seconds"])
    seconds = nodes[slowest]["seconds"]
    copied = sum(figures["copied_bytes"] for figures in nodes.values())
    values = {TIME: seconds, BYTES: copied}
    facts: dict[str, Scalar] = {
        "staging.files": int(nodes[slowest]["files"]),
        "staging.present_files": int(nodes[slowest]["present_files"]),
        "staging.nodes": len(nodes),
    }
    if copied > 0 and seconds > 0:  # no metric: a run that found all of it in place would seem to lack one
        facts["staging.bytes_per_s"] = copied / seconds
    return tuple(
        Measurement(metric.name, value, metric.unit, {}, slowest, 1) for metric, value in values.items()
    ), facts


def _figures(path: Path) -> dict[str, float]:
    lines = read_whole(path, _MOST_BYTES).decode(errors="replace").splitlines()
    names = ("files", "present_files", "copied_bytes", "seconds")
    try:
        stated: Any = json.loads(lines[-1])
        numbers = {name: finite(stated[name]) for name in names}
    except (ValueError, LookupError, TypeError, RecursionError):
        numbers = {}
    figures = {name: value for name, value in numbers.items() if value is not None and value >= 0}
    if len(figures) < len(names):
        raise InputError(f"{path.name}: does not end with the figures of the staging")
    return figures
