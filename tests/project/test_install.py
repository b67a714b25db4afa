"""What `pip install cluster-assay` brings: its size, and one source of the version."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
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


@pytest.fixture
def make_env() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "make_env.py"))


def test_an_environment_counts_only_if_it_was_made_here_to_the_end(
    make_env: dict[str, Any], tmp_path: Path
) -> None:
    root, is_whole = tmp_path / "env", make_env["is_whole"]
    assert not is_whole(root)
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").symlink_to(sys.executable)
    assert not is_whole(root), "made by something else"
    make_env["note"](root, under_way=True)
    assert not is_whole(root), "killed in the middle"
    make_env["note"](root, under_way=False)
    assert is_whole(root)
    root.rename(tmp_path / "moved")
    assert not is_whole(tmp_path / "moved"), "its programs have the old path"
    (tmp_path / "moved").rename(root)
    (root / "bin" / "python").unlink()
    (root / "bin" / "python").symlink_to("/nowhere/python")
    assert not is_whole(root), "its interpreter was removed"


@pytest.mark.long
def test_uv_gets_the_index_that_pip_is_configured_to_use(
    make_env: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror.invalid/simple\n[install]\ntrusted-host =\n    one\n    two\n"
    )
    for name in ("PIP_INDEX_URL", "PIP_CERT", "PIP_TRUSTED_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    found = make_env["settings_of_pip"](Path(sys.executable))
    assert found["UV_DEFAULT_INDEX"] == "https://mirror.invalid/simple"
    assert found["UV_INSECURE_HOST"] == "one two"
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.invalid/simple")
    assert (
        make_env["settings_of_pip"](Path(sys.executable))["UV_DEFAULT_INDEX"]
        == "https://other.invalid/simple"
    )
