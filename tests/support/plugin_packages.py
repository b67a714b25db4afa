"""Other people's packages with plug-ins for Assay, as an installer leaves them: modules and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

STATED = "ASSAY_INTERFACE = 1\n"
OVEN_FORMAT = f"""{STATED}
import re
from pathlib import Path

from assay.plugins import LogFigure, LogFigures, Metric, Tool

HEAT = Metric("heat", "K", "higher", "Temperature that the oven reached")
_LINE = re.compile(r"heat: ([0-9.]+) K")


def _read(path: Path) -> LogFigures:
    log = LogFigures()
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if match := _LINE.search(line):
            log.figures.append(LogFigure("heat", float(match[1]), {{}}, {{}}, number, "K"))
    return log.missing("no line with a heat")


OVEN = Tool("oven", re.compile(rb"oven says"), "oven says", ("heat", "oven says"), _read, (HEAT,))
"""


def install(
    place: Path,
    package: str,
    entries: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
    *,
    version: str = "1.0",
    about: str = "",
) -> Path:
    """Write a package into a directory of the path; returns the directory.

    entries  group → name → `module:attribute`
    modules  file → its text
    """
    metadata = place / f"{package.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {package}",
        f"Version: {version}",
        f"Summary: {about}",
        "",
        "Long.",
    ]
    (metadata / "METADATA").write_text("\n".join(lines))
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in names.items()), ""])
        for group, names in entries.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    for name, text in modules.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place
