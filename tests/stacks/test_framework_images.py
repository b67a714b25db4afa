"""TensorFlow and JAX for real: right results in every number format, and images that run like here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assay.questions.compare import compare
from assay.stacks import uv
from assay.stacks.build import build_stack
from assay.stacks.containerfile import container_file_text
from assay.stacks.image import choose, framework_pins
from command_line import assay as typed
from stack_image import ANYBODY, BASE, engines_here, index_flags, need_archive, podman

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(3600)]
RELEASES = ["jax==0.10.2", "tensorflow==2.21.0"]  # for the base's Python, 3.11
FORMATS = {"jax": ("fp32", "bf16", "fp16"), "tensorflow": ("fp32", "bf16", "fp16", "fp64")}


@dataclass(frozen=True)
class InstalledFramework:
    """A framework in an environment here: the same packages as its image."""

    release: str
    python: str

    @property
    def name(self) -> str:
        return self.release.partition("==")[0]

    @property
    def system(self) -> dict[str, Any]:
        return {"launcher": "local", "python": self.python}


@pytest.fixture(scope="module", params=RELEASES)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> InstalledFramework:
    folder = tmp_path_factory.mktemp("environment")
    lock = uv.resolve_versions(
        [str(one) for one in framework_pins(request.param, "cpu")], uv.find_python("3.11").path
    )
    (folder / "lock.txt").write_text(lock)
    uv.create(folder / "here", "3.11", 600.0)
    uv.install(folder / "here", folder / "lock.txt", 1800.0)
    return InstalledFramework(request.param, str(folder / "here" / "bin" / "python"))


def run(folder: Path, systems: dict[str, Any], params: dict[str, Any], repeats: int) -> None:
    """Indicators on these systems; the test fails if a trial fails, as it does for a wrong result."""
    content = {"suite": "frameworks", "workload": "indicators", "params": {"device": "cpu", **params}}
    (folder / "suite.yaml").write_text(
        json.dumps({**content, "systems": list(systems), "repeats": repeats, "timeout": "30min"})
    )
    (folder / "systems.yaml").write_text(json.dumps(systems))
    done = typed(folder, "run", "suite.yaml", "--runs", "runs")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_indicator_is_right_in_every_number_format(
    installed: InstalledFramework, tmp_path: Path
) -> None:
    formats = FORMATS[installed.name]
    params = {"framework": installed.name, "dtypes": formats, "min_time_s": 0.05}
    run(tmp_path, {"here": installed.system}, params, 1)
    (reading,) = (tmp_path / "runs").glob("*/*/*/attempt-1/reading.json")
    figures = json.loads(reading.read_text())["reading"]["measurements"]
    timed = [one for one in figures if one["metric"] == "step_time"]
    assert len(timed) == 7 * len(formats) + 1, "the import has no format"
    assert all(one["value"] > 0 for one in timed)


@pytest.fixture
def image(installed: InstalledFramework, tmp_path: Path) -> Iterator[str]:
    """The image of the indicators with the framework, tested as an arbitrary user; gone afterwards."""
    if installed.name == "tensorflow":
        pytest.skip("2.5 GB to install again; its image is made as JAX' is")
    tag = f"localhost/assay-test/{installed.name}:1"
    with engines_here(tmp_path):
        need_archive()
        stack = choose("indicators", base=f"debian12={BASE}", framework=installed.release)
        (tmp_path / "Containerfile").write_text(container_file_text(stack, "a test"))
        flags = ["--network=host", *index_flags(tmp_path)]
        built = build_stack(tmp_path / "Containerfile", tag=tag, options=flags)
        assert built.test.passed, built.test.failed
        assert set(built.test.modules) == {installed.name, "numpy"}
        yield tag
        podman("rmi", "--force", tag)


@pytest.mark.podman
def test_a_framework_computes_the_same_in_its_image_and_is_compared_with_its_environment(
    installed: InstalledFramework, image: str, tmp_path: Path
) -> None:
    contained = {"launcher": "podman", "image": image, "user": ANYBODY}
    params = {"framework": installed.name, "indicators": ["matmul"], "min_time_s": 0.2}
    run(tmp_path, {"here": installed.system, "image": contained}, params, 3)
    compared = compare("frameworks", runs=tmp_path / "runs")
    rates = {one.point.metric for one in compared.comparisons}
    assert "step_time" in rates
    versions = {
        json.loads(path.read_text())["reading"]["facts"]["framework_version"]
        for path in (tmp_path / "runs").glob("*/*/*/attempt-1/reading.json")
    }
    assert versions == {installed.release.partition("==")[2]}
