"""The rings of a sweep, for the terminal: each compared with its slowest pair."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from assay.analyse.sweeps.rings import BORNE, Ring
from assay.report import figures
from assay.report.terminal.sweep import columns


def rings(rings: Sequence[Ring]) -> RenderableType:
    """One line per ring, and what a slow one means."""
    table = columns("ring", "of its slowest pair", "interval", "", title="rings")
    for ring in rings:
        if ring.ratio is None:
            table.add_row(ring.name, "", "", ring.reason)
            continue
        verdict = Text("slow", style="bold red") if ring.slower else Text(ring.reason)
        table.add_row(ring.name, f"{ring.ratio.value:.3f}", figures.interval(ring.ratio), verdict)
    notes = [f"slow: by more than {figures.percent(BORNE)}; all intervals hold together with 95 % confidence"]
    if any(ring.slower for ring in rings):
        notes.append(
            "something its links share is overloaded when all are active: its switch, its uplink, its hosts"
        )
    return Group(table, *map(Text, notes), Text())
