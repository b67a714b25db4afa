"""A data set read once by a training's own loaders, before a training begins; sizes of official sets.

The training's program runs on this machine in its mode `check` and prints what it found, line by line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.questions.question import Answer
from assay.units import counted
from assay.view.blocks import Block, Paragraph

_MARK: Final = ":::MLLOG "
MOST_SHOWN: Final = 20
MOST_KEPT: Final = 1000  # reasons that are kept; the rest are counted


@dataclass
class DataCheck(Answer):
    """How far a check is, and what it found.

    samples     of each part: `training`, `evaluation`
    checked     read so far, of each part
    unreadable  why, of the first thousand samples that can't be read; `damaged` counts all
    official    how its size differs from that of the official data set; "" if it doesn't, or none is known
    """

    samples: dict[str, int] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    damaged: int = 0
    unreadable: list[str] = field(default_factory=list)
    official: str = ""

    @property
    def exit_code(self) -> int:
        """1 if a sample can't be read."""
        return EXIT_WORSE if self.damaged else EXIT_OK

    def view(self) -> Iterator[Block]:
        """How many samples there are, and why some can't be read."""
        sizes = ", ".join(f"{size:,} for {part}" for part, size in self.samples.items())
        yield Paragraph(f"{sizes}; {counted(self.damaged, 'sample')} can't be read")
        if self.official:
            yield Paragraph(f"Not the official data set: {self.official}")
        yield from (Paragraph(why, indented=True) for why in self.unreadable[:MOST_SHOWN])
        if self.damaged > MOST_SHOWN:
            more = f"and {self.damaged - MOST_SHOWN:,} more; --json lists a thousand"
            yield Paragraph(more, indented=True)

    def document(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def run_check(argv: Sequence[str], tell: Callable[[DataCheck], None]) -> DataCheck:
    """Run a training's program in its mode `check`.

    Raises InputError with its last words if the data set has another layout, or the program can't run.
    """
    check = DataCheck()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as stderr,
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, errors="replace"
        ) as program,
    ):
        assert program.stdout is not None
        try:
            for line in program.stdout:
                if line.startswith(_MARK):
                    _take(json.loads(line[len(_MARK) :]), check)
                    tell(check)
        finally:
            if sys.exc_info()[0] is not None:  # Ctrl-C: its workers end with it
                program.kill()
        code = program.wait()
        stderr.seek(0)
        messages = [line.strip() for line in stderr.read().splitlines() if line.strip()]
    if code:
        raise InputError(messages[-1] if messages else f"the check ended with exit code {code}")
    return check


def _take(event: Mapping[str, Any], check: DataCheck) -> None:
    key, value, about = event["key"], event["value"], event["metadata"]
    if key == "checking":
        check.samples[value], check.checked[value] = about["samples"], 0
    elif key == "checked":
        check.checked[about["part"]] = value
    elif key == "unreadable":
        check.damaged += 1
        if len(check.unreadable) < MOST_KEPT:
            check.unreadable.append(value)


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


def difference_from_official(workload: str, samples: Mapping[str, int]) -> str:
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
