"""What gpu-burn prints: a progress line that is redrawn, then its verdict on each GPU.

    100.0%  proc'd: 3760 (4837 Gflop/s) - 3750 (4800 Gflop/s)   errors: 0 - 0   temps: 62 C - 60 C
    Tested 2 GPUs:
        GPU 0: OK
        GPU 1: FAULTY

If a GPU computed wrong results, died, or has no verdict, the run has no result: a faulty GPU's speed means
nothing.

Source: wilicc/gpu-burn, gpu_burn-drv.cpp (listenClients).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from assay.formats.figures import DIGITS, LogFigure, LogFigures, numbered, whole
from assay.formats.tools import Tool
from assay.records import Metric

METRICS: Final = (
    Metric(
        "flop_rate",
        "FLOP/s",
        "higher",
        "rate of one GPU's matrix products, median of the printed values",
        scales=False,
    ),
    Metric("temperature", "C", "lower", "temperature of one GPU, highest printed value", scales=False),
    Metric("power", "W", None, "power of one GPU, highest printed value", scales=False),
)

_BEGIN: Final = re.compile(r"\d+(?:\.\d+)?%\s+proc'd:")
_PROGRESS: Final = re.compile(
    r"\d+(?:\.\d+)?%\s+proc'd: (?P<done>.+?)\s+errors: (?P<errors>.+?)\s+temps: (?P<temps>.+?)"
    r"(?:\s+power: (?P<powers>.+?))?\s*$"
)
_DONE: Final = re.compile(rf"(-?{DIGITS}) \(({DIGITS}) Gflop/s\)")
_ERRORS: Final = re.compile(rf"({DIGITS})\s*(?:\((DIED|WARNING)!\))?")
_READ: Final = re.compile(rf"({DIGITS}) [CW]|--")
_TESTED: Final = re.compile(rf"Tested ({DIGITS}) GPUs?:")
_VERDICT: Final = re.compile(rf"^\s*GPU ({DIGITS}): (OK|FAULTY)\s*$")
_FAILED: Final = re.compile(
    r"(No clients are alive|Couldn't init .*|Failure during compute.*|No CUDA devices.*)"
)


def gpu_burn(path: Path) -> LogFigures:
    """The contents of a log. Raises InputError if it can't be read."""
    return report(whole(path))


def report(output: str) -> LogFigures:
    """What its output says."""
    log = LogFigures()
    tested: int | None = None
    verdicts: dict[int, str] = {}
    wrong: set[int] = set()
    for line, text in numbered(output, log):
        if _BEGIN.search(text):
            figures = _progress(text, line, wrong)
            log.skipped += figures is None
            log.figures += figures or []
        elif match := _TESTED.search(text):
            if tested is not None:
                log.again(line, "a second verdict on all GPUs")
            tested = int(match[1])
        elif match := _VERDICT.match(text):
            verdicts[int(match[1])] = match[2]
        elif match := _FAILED.search(text):
            log.problems.append(f"line {line}: {match[1]}")
    wrong |= {gpu for gpu, verdict in verdicts.items() if verdict == "FAULTY"}
    log.problems += [f"GPU {gpu} is faulty: it computed wrong results or died" for gpu in sorted(wrong)]
    if tested is None or len(verdicts) != tested:
        log.problems.append(f"{len(verdicts)} verdicts on {tested or 'no'} GPUs: the run did not finish")
    log.facts |= {"gpus": tested} if tested is not None else {}
    return log.missing("no progress line has a rate")


def _progress(text: str, line: int, wrong: set[int]) -> list[LogFigure] | None:
    """Figures of one drawing of the line; None if it is torn. GPUs with errors are added to `wrong`."""
    match = _PROGRESS.search(text)
    if match is None:
        return None
    done, errors = _each(_DONE, match["done"]), _each(_ERRORS, match["errors"])
    temps = _each(_READ, match["temps"])
    powers = _each(_READ, match["powers"]) if match["powers"] else ()
    if not (done and errors and temps) or not len(done) == len(errors) == len(temps) or powers is None:
        return None
    if powers and len(powers) != len(done):
        return None
    wrong |= {gpu for gpu, part in enumerate(errors) if int(part[1]) > 0 or part[2] == "DIED"}
    wrong |= {gpu for gpu, part in enumerate(done) if int(part[1]) < 0}
    return list(_figures(done, temps, powers, line))


def _each(pattern: re.Pattern[str], text: str) -> Sequence[re.Match[str]] | None:
    """One match for each GPU; None if a part doesn't match."""
    matches = [pattern.fullmatch(part.strip()) for part in re.split(r"\s+- ", text)]
    return [match for match in matches if match] if all(matches) else None


def _figures(
    done: Sequence[re.Match[str]], temps: Sequence[re.Match[str]], powers: Sequence[re.Match[str]], line: int
) -> Iterator[LogFigure]:
    """A rate of 0 is not measured yet."""
    for metric, unit, texts in (
        ("flop_rate", "GFLOP/s", [part[2] for part in done]),
        ("temperature", "C", [part[1] for part in temps]),
        ("power", "W", [part[1] for part in powers]),
    ):
        for gpu, text in enumerate(texts):
            if text and float(text) > 0:
                yield LogFigure(metric, float(text), {"gpu": gpu}, {}, line, unit)


TOOL: Final = Tool(
    "gpu-burn",
    re.compile(rb"proc'd: -?\d+ \("),
    line="proc'd: 123 (4567 Gflop/s)",
    words=("gpu-burn", "gpu_burn", "proc'd", "gflop/s", "burning"),
    read=gpu_burn,
    metrics=METRICS,
    picks={"flop_rate": median, "temperature": max, "power": max},
)
