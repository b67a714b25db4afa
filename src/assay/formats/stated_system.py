"""What a log or a system's JSON states about the machine and its software, as one flat table.

NVIDIA's launch scripts print `:::SYSJSON {…}`, the fields of MLCommons' system description filled in by the
container itself, and `:::GITCOMMITID ID`, the commits of program and launcher, before a run starts. `set -x`
also prints the commands that print them: only a line that begins with the token counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from assay.records import Scalar

MOST_FACTS: Final = 200
LONGEST_VALUE: Final = 500
_SYSTEM = re.compile(rb"^(?:[^:\n]{0,20}: )?:::SYSJSON (.*)$", re.MULTILINE)
_COMMIT = re.compile(rb"^(?:[^:\n]{0,20}: )?:::GITCOMMITID ([0-9a-f]{7,64})\b", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_NOTHING: Final = re.compile(
    r"|unknown|UNKNOWN_MLPERF_\w+|.*PLACEHOLDER.*"
)  # what scripts print for unset values
_PLATFORM = re.compile(r"([1-9]\d{0,5})x(.+)")  # as NVIDIA's scripts state their nodes
_DGX = re.compile(r"(?:NVIDIA )?DGX[ -](A100|[HB][1-9]00|1|2H?)\b(?! Station)")
_GPUS_OF_DGX: Final = {"2": 16, "2H": 16}  # all others have 8
_STACK: Final = "other_software_stack"


def flat(stated: Mapping[str, Any]) -> dict[str, Scalar]:
    """The fields of a system description; its software as `software.nccl_version`, or `software` if one text.

    Omits fields that are empty or contain a script's placeholder, and anything nested deeper.
    """
    stack = stated.get(_STACK)
    fields = [(name, value) for name, value in stated.items() if name != _STACK]
    fields += (
        [(f"software.{name}", value) for name, value in stack.items()]
        if isinstance(stack, Mapping)
        else [("software", stack)]
    )
    table = ((_NO_NAME.sub("_", name)[:100], _plain(value)) for name, value in fields[:MOST_FACTS])
    return {name: value for name, value in table if value is not None}


def platform_nodes(platform: str) -> tuple[int, str] | None:
    """Nodes and their name from a log's `submission_platform`; None if it states no number.

    >>> platform_nodes("128xNVIDIA DGX A100"), platform_nodes("MI355X")
    ((128, 'NVIDIA DGX A100'), None)
    """
    match = _PLATFORM.fullmatch(platform)
    return (int(match[1]), match[2]) if match else None


def platform_size(platform: str) -> dict[str, Scalar]:
    """Nodes and accelerators per node from a log's `submission_platform`; empty unless it names a DGX.

    >>> platform_size("128xNVIDIA DGX A100")
    {'number_of_nodes': 128, 'accelerators_per_node': 8}
    """
    stated = platform_nodes(platform)
    dgx = _DGX.match(stated[1]) if stated else None
    if stated is None or dgx is None:
        return {}
    return {"number_of_nodes": stated[0], "accelerators_per_node": _GPUS_OF_DGX.get(dgx[1], 8)}


def logged_system(head: bytes) -> tuple[dict[str, Scalar], str]:
    """What the head of a log states about its system, and what is wrong with that; "" if nothing is.

    Never raises: what can't be parsed states nothing.
    """
    problem = ""
    table: dict[str, Scalar] = {}
    for match in _SYSTEM.finditer(head):
        try:
            stated = json.loads(match[1])
        except (ValueError, RecursionError):
            stated = None
        if isinstance(stated, dict):
            table = flat(stated)
            problem = ""
            break
        line = head.count(b"\n", 0, match.start()) + 1
        problem = problem or f"the :::SYSJSON in line {line} is not a JSON object: the software is unknown"
    if commit := _COMMIT.search(head):
        table["git_commit"] = commit[1].decode("ascii")
    return table, problem


def _plain(value: object) -> Scalar:
    """A field's value without control characters; None if it states nothing."""
    if isinstance(value, str):
        text = _CONTROL.sub(" ", value).encode("utf-8", "replace").decode().strip()[:LONGEST_VALUE]
        return None if _NOTHING.fullmatch(text) else text
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    return value if isinstance(value, float) and abs(value) < float("inf") else None
