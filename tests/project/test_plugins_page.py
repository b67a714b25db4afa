"""docs/how-to/plugins.md is true: its blocks are a package, and its commands run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import HOW_TO, console

from assay import plugins, registry
from assay.errors import EXIT_UNDECIDED, EXIT_WORSE

PAGE = (HOW_TO / "plugins.md").read_text()
FILES = dict(re.findall(r"^`(assay-memory/[\w.]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


def install(here: Path) -> None:
    """As `pip install -e`, into a directory of its own."""
    pytest.importorskip("setuptools")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    alone = ["--no-deps", "--no-build-isolation", "--target", "installed"]
    subprocess.run([*pip, *alone, "./assay-memory"], cwd=here, check=True)


def run(line: str, here: Path) -> subprocess.CompletedProcess[str]:
    """A line as a person types it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(here / "installed")}
    return subprocess.run(["bash", "-c", line], cwd=here, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the page's package, which is installed, and logs."""
    place = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    install(place)
    for side, rate in (("here", 9987), ("there", 8000)):
        for number in range(5):
            text = f"sysbench 1.0.20\n\n10240.00 MiB transferred ({rate + number}.11 MiB/sec)\n"
            (place / f"{side}-{number}.log").write_text(text)
    return place


def test_its_commands_import_and_compare_the_logs(here: Path) -> None:
    for line in console("assay compare here there", PAGE):
        done = run(line, here)
        assert done.returncode in (0, EXIT_WORSE, EXIT_UNDECIDED), (line, done.stdout, done.stderr)
        assert "plug-in" not in done.stderr
    assert "there is slower than here" in done.stdout
    assert "assay-memory" in run("assay doctor", here).stdout


@pytest.mark.slow
def test_its_test_passes(here: Path) -> None:
    [line] = console("python -m pytest", PAGE)
    done = run(f"{line} -q -p no:cacheprovider", here)
    assert done.returncode == 0, done.stdout
    assert 40 < int(re.findall(r"(\d+) passed", done.stdout)[0]) < 60


def test_it_names_every_group_and_where_its_records_are() -> None:
    rows = re.findall(r"^\| `(assay\.\w+)` \| (.*?) \|$", PAGE, re.MULTILINE)
    assert {group for group, _ in rows} == {*registry.TABLES}
    for _, records in rows:
        assert [name for name in re.findall(r"`([A-Z]\w+)`", records) if name not in dir(plugins)] == []
