"""What a forge runs for this project: workflows with the least rights, and hooks that are `make check`."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conftest import ROOT, require

FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
MAY_WRITE = {  # job of release.yml → what it needs beyond reading
    "publish": {"id-token": "write"},
    "announce": {"contents": "write"},
    "container": {"contents": "read", "packages": "write"},
}


def loaded(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = YAML(typ="safe").load(path)
    return said


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in loaded(path)["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_by_a_commit_beside_the_version_that_it_is(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_and_only_the_jobs_of_a_release_write(path: Path) -> None:
    said = loaded(path)
    assert said["permissions"] == {"contents": "read"}
    granted = {name: job["permissions"] for name, job in said["jobs"].items() if "permissions" in job}
    assert granted == (MAY_WRITE if path.name == "release.yml" else {})
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        assert "secrets." not in str(step)
        assert "${{" not in step.get("run", ""), "an expression in a script is code that others may write"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_make_only_what_the_makefile_has(path: Path) -> None:
    made = set(re.findall(r"^make (\S+)$", "\n".join(step.get("run", "") for step in steps(path)), re.M))
    assert made <= {".venv/.ready-test", *re.findall(r"^([a-z-]+):", MAKEFILE, re.M)}


def test_tests_run_on_each_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert loaded(FORGE / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


def test_the_hooks_are_the_commands_of_make_check() -> None:
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    (local,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    assert [hook["entry"] for hook in local["hooks"]] == commands


def test_actionlint_finds_nothing() -> None:
    linter = shutil.which("actionlint")
    require("actionlint", linter is not None, "actionlint is not on the path")
    said = subprocess.run([str(linter), *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.stdout + said.stderr == ""
