"""`assay monitor up --json`: what runs, once it answers."""

from __future__ import annotations

from typing import Any

from assay.monitor.stack import MonitoringStack


def document(running: MonitoringStack) -> dict[str, Any]:
    """URLs by program, and how to get the programs that are not here."""
    return {"directory": str(running.directory), "urls": {**running.urls}, "missing": {**running.missing}}
