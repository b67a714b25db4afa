"""The line that MLPerf Inference's reference app prints at the end → one `InferenceRun`.

    TestScenario.SingleStream qps=163.51, mean=0.0061, time=60.040, queries=9817, tiles=90.0:0.0066

`tiles` (`t` in older versions) are percentiles of latency; times are in seconds. The app measures on its own,
independently of LoadGen: its line has figures but no validity, and so no score.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.logs.figures import SEVERAL_RUNS, number
from assay.logs.log_text import LogText
from assay.records import InferenceRun, Measurement, Scalar, StatedValue
from assay.units import counted

_LONGEST_LINE: Final = 8000  # bytes: the line has a percentile of each kind
_LINE = re.compile(
    r"TestScenario\.(SingleStream|MultiStream|Server|Offline) (qps=[-+0-9.e]+, mean=[^\r\n]{1,5000})"
)
_PAIR = re.compile(r"(\w+)=([^,\s]+)")
_TILES = re.compile(r"\b(?:tiles|t)=")
_TILE = re.compile(r"(\d+(?:\.\d+)?):([-+0-9.eE]+)")


def is_app_log(path: Path) -> bool:
    """Whether a file holds the app's line. Raises InputError if it can't be read."""
    return _last_line(path) is not None


def app_run(path: Path, *, name: str) -> InferenceRun:
    """What the app's last line in a log says; a problem if there is none."""
    try:
        last_line = _last_line(path)
        problem = "" if last_line else "no line of MLPerf Inference's reference app in it"
    except InputError as error:
        last_line, problem = None, str(error.problems[0])
    scenario, figures_text, line, earlier = last_line or (None, "", 0, 0)
    where = f"{path.name}:{line}"
    stated = {
        key: StatedValue(_number(value), where) for key, value in _PAIR.findall(_TILES.split(figures_text)[0])
    }
    figures = tuple(_figures(stated, figures_text, path.name, line))
    if last_line and not figures:
        problem = f"line {line} has no finite figure: {figures_text[:100]}"
    if earlier:
        problem = f"line {line}: a result after {counted(earlier, 'other')}: {SEVERAL_RUNS}"
    return InferenceRun(
        name=name,
        files=(path.name,),
        scenario=scenario,
        mode=None,
        validity=None,
        problem=problem,
        score=None,
        figures=figures,
        stated=stated,
    )


def _last_line(path: Path) -> tuple[str, str, int, int] | None:
    """Scenario, its figures, and the line of the last match; how many others are before it."""
    last, others, before = None, -1, 0
    for block in LogText(path, _LONGEST_LINE).blocks():
        if b"TestScenario." in block:
            for match in _LINE.finditer(block.decode("latin-1")):
                others += 1
                last = match[1], match[2], 1 + before + block.count(b"\n", 0, match.start()), others
        before += block.count(b"\n")
    return last


def _figures(
    stated: dict[str, StatedValue], figures_text: str, file: str, line: int
) -> Iterator[Measurement]:
    rate, mean = (stated[key].value if key in stated else None for key in ("qps", "mean"))
    if isinstance(rate, float):
        yield Measurement("qps", rate, "queries/s", {}, file, line)
    if isinstance(mean, float):
        yield Measurement("mean_latency", mean, "s", {}, file, line)
    for percentile, text in _TILE.findall("".join(_TILES.split(figures_text)[1:])):
        value, percent = number(text), number(percentile)
        if value is not None and percent is not None:
            yield Measurement("latency", value, "s", {"percentile": percent}, file, line)


def _number(text: str) -> Scalar:
    value = number(text)
    return text if value is None else value
