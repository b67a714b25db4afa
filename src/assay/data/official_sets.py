"""How many samples the official data sets of trainings have, as the trainings' loaders count them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class OfficialSet:
    """A published data set.

    samples  of each part, as the loaders count them, without parts whose size depends on their preparation
    note     why the loaders count others than the publisher; "" if they don't
    """

    name: str
    samples: Mapping[str, int]
    note: str = ""


_COCO: Final = OfficialSet(
    "COCO 2017",
    {"training": 117_266, "evaluation": 5_000},
    "118,287 images, of which 117,266 show an object to learn",
)
_WMT: Final = OfficialSet("WMT's newstest2014", {"evaluation": 3_003})
OFFICIAL: Final[Mapping[str, OfficialSet]] = {
    "resnet50": OfficialSet("ImageNet (ILSVRC 2012)", {"training": 1_281_167, "evaluation": 50_000}),
    "ssd": _COCO,
    "maskrcnn": _COCO,
    "unet3d": OfficialSet("KiTS19 as MLPerf splits it", {"training": 168, "evaluation": 42}),
    "bert": OfficialSet("MLPerf's Wikipedia", {"evaluation": 10_000}),
    "gnmt": _WMT,
    "transformer": _WMT,
    "ncf": OfficialSet("MovieLens 20M", {"evaluation": 138_493}, "a sample for evaluation is a user"),
}


def difference(workload: str, samples: Mapping[str, int]) -> str:
    """How a data set's size differs from the official one, as a sentence; "" if it doesn't, or none is known.

    samples  read by the loaders, of each part
    """
    official = OFFICIAL.get(workload)
    if official is None:
        return ""
    parts = [
        f"{number:,} for {part} (here {samples[part]:,})"
        for part, number in official.samples.items()
        if part in samples and samples[part] != number
    ]
    if not parts:
        return ""
    note = f"; {official.note}" if official.note else ""
    return f"{official.name} has {', '.join(parts)}{note}"
