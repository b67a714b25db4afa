"""Every key that a message of a launcher or a check tells people to write is one of the schema."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay.checks
import assay.launch
from assay.api import schema

COMPOUND = re.compile(r"(?<![\w./:-])(?:[a-z]+(?:[A-Z][a-z0-9]+)+|[a-z]+(?:_[a-z]+)+)(?![\w(])")
NAMED = re.compile(r"\bset the (?:system|suite)'s `?(\w+)`?")
NOT_OURS = {
    "a Linux module, device or program": {
        "ib_uverbs",
        "ib_write_bw",
        "nvidia_peermem",
        "nvidia_uvm",
        "rdma_cm",
    },
    "a file of the kernel": {"numa_node", "sm_lid"},
    "a field of a plug-in's options": {"max_nodes"},
    "a field of a role": {"apiGroups"},
    "a setting of a kubelet": {"cpuManagerPolicy", "cpu_manager_state", "topologyManagerPolicy"},
    "a setting of CRI-O": {"default_ulimits"},
    "a setting of Nova": {"hide_hypervisor_id"},
    "a field of a pod's volume": {"emptyDir", "hostPath"},
    "a value of bsub -gpu": {"exclusive_process"},
}


def sentences(folder: Path) -> Iterator[tuple[str, str]]:
    """`file:line` and text of each string of several words that is neither a docstring nor a pattern."""
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text())
        strings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or id(node) in strings:
                continue
            pattern = re.search(r"\\[a-z]|\(\?|\||^[a-z_ ]+$", node.value)
            if " " in node.value.strip() and not pattern:
                yield f"{file.name}:{node.lineno}", node.value


def keys() -> set[str]:
    """Every key of suite.yaml and systems.yaml, in whatever mapping."""

    def names(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            yield from value.get("properties", {})
            yield from (name for inner in value.values() for name in names(inner))
        elif isinstance(value, list):
            yield from (name for inner in value for name in names(inner))

    return {name for kind in ("suite", "systems") for name in names(json.loads(json.dumps(schema(kind))))}


@pytest.mark.parametrize("package", [assay.launch, assay.checks])
def test_every_key_that_a_message_names_can_be_written_in_the_users_files(package: object) -> None:
    known = keys().union(*NOT_OURS.values())
    folder = Path(str(package.__file__)).parent  # type: ignore[attr-defined]
    named = [
        (place, key)
        for place, text in sentences(folder)
        for key in (*COMPOUND.findall(text), *NAMED.findall(text))
    ]
    assert len(named) > 10
    assert [(place, key) for place, key in named if key not in known] == []
