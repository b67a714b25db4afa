"""What `pip install assay` brings: its size, and one source of the version."""

from __future__ import annotations

import re
import runpy
import tomllib
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import assay
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST_BYTES = 350_000_000


def closure(wanted: list[str]) -> dict[str, metadata.Distribution]:
    """The distributions that these requirements bring, without extras."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(wanted)
    while waiting:
        requirement = Requirement(waiting.pop())
        key = canonicalize_name(requirement.name)
        if key in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[key] = metadata.distribution(key)
        waiting += found[key].requires or ()
    return found


def installed_bytes(paths: list[Path]) -> int:
    """Size of these files with their byte code, whether the installer compiled it or the first import did."""
    sources = [path for path in paths if path.suffix != ".pyc" and path.is_file()]
    compiled = [Path(cache_from_source(str(path))) for path in sources if path.suffix == ".py"]
    return sum(path.stat().st_size for path in {*sources, *(path for path in compiled if path.is_file())})


def test_the_core_and_what_it_needs_stay_under_350_mb() -> None:
    sizes = {
        name: installed_bytes([Path(str(file.locate())) for file in found.files or ()])
        for name, found in closure(PROJECT["dependencies"]).items()
    }
    sizes["assay"] = installed_bytes([path for path in (ROOT / "src").rglob("*") if path.is_file()])
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    assert sizes["scipy"] > 50_000_000, "the sizes are measured"
    assert sum(sizes.values()) < MOST_BYTES, [f"{name}: {size / 1e6:.0f} MB" for name, size in largest]


def test_the_version_is_written_once() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", assay.__version__)


def test_each_target_installs_a_kind_whose_extras_the_package_has() -> None:
    kinds = runpy.run_path(str(ROOT / "tools" / "make_env.py"))["KINDS"]
    named = set(re.findall(r"call (?:ready|install),(\w+)", (ROOT / "Makefile").read_text()))
    assert named == kinds.keys()
    assert {extra for kind in kinds.values() for extra in kind} <= PROJECT["optional-dependencies"].keys()
    assert {*kinds["test"], *kinds["check"]} == {*kinds["all"]}
