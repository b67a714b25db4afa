"""Slow nodes as commands that keep jobs off them, in the cluster's own words: printed, never run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay import launch
from assay.errors import InputError
from assay.launch.keep_off import KeepOffMethod, Losses


def ways(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Each way that a system has, what keeps most jobs off last.

    definition  of the system in systems.yaml: its launcher, and which cluster
    slow        node, by the name that the cluster knows it by → what it is slow in
    """
    nodes = launch.PLATFORMS[definition["launcher"]].nodes
    names = KeepOffMethod("names", "each on a line", tuple(slow))
    return (names, *(() if nodes is None else nodes.keep_off(definition, slow)))


def way(definition: Mapping[str, Any], slow: Mapping[str, Losses], form: str) -> KeepOffMethod:
    """One way of them. Raises InputError where the system has none such."""
    known = {one.form: one for one in ways(definition, slow)}
    if form not in known:
        raise InputError(
            f"nodes reached through {definition['launcher']} have no {form}; there is {', '.join(known)}"
        )
    return known[form]
