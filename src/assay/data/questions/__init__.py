"""The commands of `assay data`, as questions, and what they have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from assay.registry import CommandTable

CATALOG: Final = "catalog.duckdb"
CATALOG_VARIABLE: Final = "ASSAY_CATALOG"
ABOUT_CATALOG: Final = "File of the catalog."
COMMANDS: Final = CommandTable(
    """Catalog labelled frames, see what is on them, and choose those that a training takes.

    \b
    Examples:
      assay data scan /data/camera_lidar_semantic
      assay data classes
      assay data query 'bicycle > 0 and camera = cam_front_center' --manifest bicycles.jsonl
    """,
    {
        "scan": ("assay.data.questions.scan:ScanData", "Bring a catalog of labelled frames up to date."),
        "query": ("assay.data.questions.query:QueryData", "Choose frames by what is on them."),
        "stage": ("assay.data.questions.stage:StageData", "Copy chosen frames near to where they are read."),
        "submit": (
            "assay.data.questions.submit:SubmitData",
            "Run a site's template on frames chosen by their labels.",
        ),
        "validate": (
            "assay.data.questions.validate:ValidateData",
            "Count what a trained network makes of every frame.",
        ),
        "cache": ("assay.data.questions.cache:DataCache", "Show which frames a cache has, and remove them."),
        "check": (
            "assay.data.questions.check:CheckData",
            "Read a training's whole data set once, before it begins.",
        ),
        "feeds": ("assay.data.questions.feeds:Feeds", "Show how many accelerators a storage feeds."),
        "classes": ("assay.data.questions.classes:DataClasses", "Show how much of each class there is."),
    },
)


def timed(line: Callable[[Any, float], str]) -> Callable[[Any], str]:
    """A line of progress that depends on the seconds since it was first shown."""
    begun_at: list[float] = []

    def shown(state: Any) -> str:
        begun_at[:] = begun_at or [time.monotonic()]
        return line(state, time.monotonic() - begun_at[0])

    return shown
