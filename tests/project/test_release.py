"""`tools/release.py`: version, changelog and tag of a release agree, or it says what does not."""

from __future__ import annotations

import datetime
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import __version__
from conftest import ROOT

TOOL: dict[str, Callable[..., Any]] = runpy.run_path(str(ROOT / "tools" / "release.py"))
DAY = datetime.date(2027, 1, 31)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one change that is not released."""
    (tmp_path / "src" / "assay").mkdir(parents=True)
    (tmp_path / "src" / "assay" / "version.py").write_text('"""Assay."""\n\n__version__ = "0.1.0"\nX = 1\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n### Fixed\n- This.\n")
    return tmp_path


def test_a_release_writes_the_version_and_dates_what_was_unreleased(project: Path) -> None:
    TOOL["prepare"](project, "0.2.0", DAY)
    text = (project / "src" / "assay" / "version.py").read_text()
    assert text == '"""Assay."""\n\n__version__ = "0.2.0"\nX = 1\n'
    changelog = (project / "CHANGELOG.md").read_text()
    assert changelog == "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2027-01-31\n### Fixed\n- This.\n"
    assert TOOL["notes"](project, "v0.2.0") == "### Fixed\n- This."


def test_a_second_release_needs_changes_of_its_own(project: Path) -> None:
    TOOL["prepare"](project, "0.2.0", DAY)
    with pytest.raises(SystemExit, match="nothing is unreleased"):
        TOOL["prepare"](project, "0.3.0", DAY)


@pytest.mark.parametrize("version", ["v0.2.0", "0.2", "next"])
def test_what_is_no_version_changes_nothing(project: Path, version: str) -> None:
    before = (project / "CHANGELOG.md").read_text()
    with pytest.raises(SystemExit, match=f"{version} is not a version"):
        TOOL["prepare"](project, version, DAY)
    assert (project / "CHANGELOG.md").read_text() == before


def test_a_tag_is_refused_for_another_version_and_without_a_dated_section(project: Path) -> None:
    with pytest.raises(SystemExit, match=r"the tag is v0\.2\.0, the package's version 0\.1\.0"):
        TOOL["notes"](project, "v0.2.0")
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no section '## 0\.1\.0 - DATE'"):
        TOOL["notes"](project, "v0.1.0")


def test_the_tool_finds_this_projects_version_and_unreleased_changes(tmp_path: Path) -> None:
    for name in ("CHANGELOG.md", "src/assay/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    TOOL["prepare"](tmp_path, "99.0.0", DAY)
    assert f'__version__ = "{__version__}"' not in (tmp_path / "src/assay/version.py").read_text()
    assert TOOL["notes"](tmp_path, "v99.0.0")
