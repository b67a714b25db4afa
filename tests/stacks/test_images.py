"""Stacks as images: locked for the Python of their base, built and tested by an engine, removed after use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from advised_stacks import advised_from
from assay.errors import HostError, InputError
from assay.shell import CompletedCommand
from assay.stacks.engines import LocalImage
from assay.stacks.environments import BuildFailure, ImageRecipe, ImageWorkshop
from assay.stacks.explore_spec import load
from fake_engine import fake_engine
from package_index import PackageIndex, Release

SPEC = """\
explore: bases
requirements: [fastmath]
vary:
  base: [debian12, ubuntu24.04]
measure: {workload: matmul}
"""


@dataclass
class Engine:
    """An engine whose builds are the program `name`, and whose containers print what is wanted."""

    name: str
    says: str = 'assay-image-test {"modules": ["fastmath"], "failed": []}'
    images: set[str] = field(default_factory=set)

    def image(self, tag: str) -> LocalImage:
        return LocalImage("sha256:0", None)

    def run(self, tag: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        self.images.add(tag)
        return CompletedCommand(tuple(argv), 0, self.says, "", 0.1)

    def has(self, tag: str) -> bool:
        return tag in self.images

    def remove(self, tag: str) -> None:
        self.images.discard(tag)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    releases = [Release("fastmath", "1.0"), Release("fastmath", "2.0")]
    with advised_from(releases, tmp_path, monkeypatch) as served:
        yield served


def workshop(folder: Path, engine: Engine) -> ImageWorkshop:
    return ImageWorkshop(folder, 60.0, engine, (), "image")


def test_an_image_is_locked_for_its_base_built_once_and_removed(tmp_path: Path, index: PackageIndex) -> None:
    engine = Engine(str(fake_engine(tmp_path)))
    shop, recipe = workshop(tmp_path, engine), ImageRecipe("debian12", ("fastmath",), ("fastmath==1.0",))
    image = shop.locked(recipe)
    assert not isinstance(image, BuildFailure)
    assert image.packages == {"fastmath": "1.0"}
    assert shop.build(recipe, image) is None
    assert image.options == {"image": image.tag}
    text = next((tmp_path / "containerfiles").iterdir()).read_text()
    assert "FROM docker.io/library/debian:12" in text
    assert "fastmath==1.0 --hash=sha256:" in text
    engine.name = "false"
    assert shop.build(recipe, image) is None  # it is there: nothing is built
    shop.remove(image)
    assert engine.images == set()
    assert image.lock.exists()


def test_what_cannot_be_imported_is_a_finding_and_what_cannot_be_built_or_started_is_not(
    tmp_path: Path, index: PackageIndex
) -> None:
    recipe = ImageRecipe("debian12", ("fastmath",))
    program = str(fake_engine(tmp_path))
    broken = Engine(
        program, "assay-image-test " + json.dumps({"modules": ["m"], "failed": [["import m", "no libx"]]})
    )
    shop = workshop(tmp_path, broken)
    image = shop.locked(recipe)
    assert not isinstance(image, BuildFailure)
    found = shop.build(recipe, image)
    assert found is not None
    assert (found.kind, found.why) == ("does not import", "import m: no libx")
    assert not broken.has(image.tag)
    with pytest.raises(HostError, match="can't run a program in"):
        workshop(tmp_path, Engine(program, "OCI permission denied")).build(recipe, image)
    with pytest.raises(HostError, match="can't build"):
        workshop(tmp_path, Engine(name="false")).build(recipe, image)


def test_requirements_without_a_solution_for_the_base_do_not_install(
    tmp_path: Path, index: PackageIndex
) -> None:
    found = workshop(tmp_path, Engine("true")).locked(ImageRecipe("debian12", ("fastmath>=3",)))
    assert isinstance(found, BuildFailure)
    assert found.kind == "does not install"
    assert "No solution found" in found.log.read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("offline: true", "offline: images have the Python of their base"),
        ("incumbent: {python: '3.12'}", "incumbent.python: images have the Python of their base"),
        ("options: {launcher: local}", "the launcher local runs no images; choose podman"),
        ("incumbent: {base: gentoo}", "gentoo"),
    ],
)
def test_what_images_cannot_have_is_refused_at_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"{SPEC}{line}\n")
    with pytest.raises(InputError) as error:
        load(path)
    (problem,) = error.value.problems
    assert said in problem.what
    assert problem.where == f"{path}:6"
