"""Assay's own image: built from the Containerfile, it works as any user id, without a home directory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stack_image
from assay import __version__
from conftest import ROOT, require
from stack_image import ANYBODY, podman

FILE = ROOT / "Containerfile"
# The base for tests lacks what an image named python has.
WITH_PIP = f"""
FROM {stack_image.BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
"""
RUN = """
cat >suite.yaml <<SUITE
suite: counted
workload: command
params:
  argv: [sh, -c, "echo rate 5"]
  metrics: {rate: {pattern: 'rate (?P<value>[0-9]+)', unit: 1/s, better: higher}}
repeats: 2
systems: [local]
SUITE
env -u HOME -u USER assay run suite.yaml --report page.html >said
env -u HOME -u USER assay show counted
id -u
wc -c <page.html
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image, on this release of Debian; gone afterwards."""
    require("podman", shutil.which("podman") is not None, "podman is not installed")
    there = subprocess.run(["podman", "image", "exists", stack_image.BASE], check=False).returncode == 0
    require("stack-base", there, f"no image {stack_image.BASE} of Debian 12; podman import makes one")
    stack_image.need_archive()
    folder = tmp_path_factory.mktemp("image")
    (folder / "Containerfile").write_text(WITH_PIP)
    build = ["build", "--network=host", *stack_image.LIMITS, *stack_image.index_flags(folder)]
    base, tag = "localhost/assay-test/with-pip:1", "localhost/assay-test/assay:1"
    podman(*build, "--tag", base, "--file", folder / "Containerfile", folder)
    podman(*build, f"--build-arg=BASE={base}", "--tag", tag, "--file", FILE, ROOT)
    yield tag
    podman("rmi", "--force", tag)


def test_the_linter_finds_nothing_in_the_containerfile() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    require("hadolint", linter.is_file(), "hadolint is not in this environment")
    said = subprocess.run([linter, "--no-color", FILE], capture_output=True, text=True, check=False)
    assert said.stdout + said.stderr == ""


@pytest.mark.long
@pytest.mark.podman
@pytest.mark.slow
def test_any_user_runs_and_judges_in_the_image_without_a_home_directory(image: str) -> None:
    (known,) = json.loads(podman("image", "inspect", image))
    assert known["Config"]["User"] == "1001:0"
    inside = ["run", "--rm", "--network=none", *stack_image.LIMITS, f"--user={ANYBODY}"]
    assert podman(*inside, image, "--version").strip() == f"assay, version {__version__}"
    *shown, user, size = podman(*inside, "--entrypoint=sh", image, "-euc", RUN).splitlines()
    assert user == ANYBODY.split(":")[0]
    assert "rate" in "\n".join(shown)
    assert int(size) > 500_000
