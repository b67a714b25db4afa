"""Commands that keep jobs off slow nodes, in the cluster's own terms: printed, never run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay import launch
from assay.errors import InputError
from assay.launch.keep_off import KeepOffMethod, Losses


def ways(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Each way that a system has; the most effective comes last.

    definition  of the system in systems.yaml: its launcher, and which cluster
    slow        node, by its name in the cluster → what it is slow at
    """
    nodes = launch.PLATFORMS[definition["launcher"]].nodes
    names = KeepOffMethod("names", "one per line", tuple(slow))
    return (names, *(() if nodes is None else nodes.keep_off(definition, slow)))


def way(definition: Mapping[str, Any], slow: Mapping[str, Losses], form: str) -> KeepOffMethod:
    """One of these ways. Raises InputError if the system does not have it."""
    known = {method.form: method for method in ways(definition, slow)}
    if form not in known:
        raise InputError(f"launcher {definition['launcher']} has no form {form}; use {', '.join(known)}")
    return known[form]
