"""Other people's packages with plug-ins for Assay, as an installer leaves them: modules and metadata."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from assay import payload_files, registry

STATED = "ASSAY_INTERFACE = 1\n"
OVEN_FORMAT = f"""{STATED}
import re
from pathlib import Path

from assay.plugins import LogFigure, LogFigures, Metric, Tool, lines

HEAT = Metric("heat", "K", "higher", "Temperature that the oven reached")
_LINE = re.compile(r"heat: ([0-9.]+) K")


def _read(path: Path) -> LogFigures:
    log = LogFigures()
    for number, line in lines(path, log):
        if match := _LINE.search(line):
            log.figures.append(LogFigure("heat", float(match[1]), {{}}, {{}}, number, "K"))
    return log.missing("no line with a heat")


OVEN = Tool("oven", re.compile(rb"oven says"), "oven says", ("heat", "oven says"), _read, (HEAT,))
"""
OVEN_WORKLOAD = f"""{STATED}
from assay.plugins import Metric, Params, Workload, payload_reader, program_task

HEAT = Metric("heat", "K", "higher", "Temperature that the oven reached")


class BakeParams(Params):
    degrees: float = 500.0


BAKE = Workload(
    reader=payload_reader("bake", BakeParams, (HEAT,)),
    about="bake something",
    task=lambda params, _shape, _seed: program_task("oven_programs.bake", params),
)
"""
OVEN_PROGRAM = """
import argparse

from assay_payloads.measuring.rank import Rank

from .degrees import as_kelvin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--degrees", type=float)
    rank = Rank()
    rank.log("heat", as_kelvin(parser.parse_args().degrees), unit="K", labels={})
    rank.leave()


if __name__ == "__main__":
    main()
"""


_MEMORIES = (
    *(registry._entry_points, registry._why_not_imported, registry.report),
    *(payload_files.source, payload_files.travelling, payload_files._directory),
)


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
    headers = {"Metadata-Version": "2.1", "Name": package, "Version": version, "Summary": about}
    stated = "".join(f"{key}: {text}\n" for key, text in headers.items())
    (metadata / "METADATA").write_text(f"{stated}\nLong.\n")
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


def install_oven(place: Path, *, version: str = "1.2", **changed: str) -> Path:
    """The package `assay-oven`, with a format and a workload.

    changed  text of one of its modules in place of its own
    """
    entries = {
        "assay.formats": {"oven": "oven_format:OVEN"},
        "assay.workloads": {"bake": "oven_workload:BAKE"},
    }
    modules = {"oven_format": OVEN_FORMAT, "oven_workload": OVEN_WORKLOAD} | changed
    programs = {
        "oven_programs/__init__.py": "",
        "oven_programs/bake.py": OVEN_PROGRAM,
        "oven_programs/degrees.py": "def as_kelvin(degrees): return degrees + 273.15\n",
    }
    files = {f"{name}.py": text for name, text in modules.items()} | programs
    return install(place, "assay-oven", entries, files, version=version, about="Everything about ovens")


@contextmanager
def used(place: Path) -> Iterator[None]:
    """This process sees what is installed in a directory, as if it had just started."""
    importlib.invalidate_caches()
    for memory in _MEMORIES:
        memory.cache_clear()
    sys.modules.pop("assay.questions.import_", None)  # its help lists the formats
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path.remove(str(place))
        for name, module in [*sys.modules.items()]:
            if str(getattr(module, "__file__", "")).startswith(str(place)):
                del sys.modules[name]
