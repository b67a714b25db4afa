"""Each launcher is a package that offers its platform, and none is imported before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from assay import launch, registry
from assay.launch.platform import Platform

TELL = """
import json, sys
from assay import launch, registry
before = [*launch.PLATFORMS]
launch.SYSTEM_MODELS[sys.argv[1]]
loaded = [name for name in sys.modules if f"{name}:PLATFORM" in launch.PLACES.values()]
heavy = [name for name in sys.modules if name.endswith((".launcher", ".doctor")) and "assay.launch." in name]
print(json.dumps([loaded, heavy]))
"""


def test_a_launchers_package_is_imported_when_its_system_is_and_its_launcher_when_one_is_made() -> None:
    said = subprocess.run([sys.executable, "-c", TELL, "slurm"], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == [["assay.launch.slurm"], ["assay.launch.launcher"]]


@pytest.mark.parametrize("launcher", launch.PLACES)
def test_each_package_offers_its_platform(launcher: str) -> None:
    platform = registry.imported(launch.PLACES[launcher])
    assert isinstance(platform, Platform)
    assert launch.PLATFORMS[launcher] is platform
    assert hasattr(platform.options, "max_nodes")
    if platform.nodes is not None:
        assert platform.nodes.binding.option in platform.options.model_fields


def test_a_group_of_nodes_can_be_told_from_what_binding_made_of_it() -> None:
    for platform in launch.PLATFORMS.values():
        if platform.nodes is not None:
            binding = platform.nodes.binding
            assert binding.nodes(binding.bind({"launcher": "any"}, ["a", "b"])) == ("a", "b")


def test_names_that_no_launcher_has_are_none_of_the_registry() -> None:
    assert "locale" not in launch.PLATFORMS
    assert len(launch.PLATFORMS) == len({*launch.PLATFORMS}) == len(launch.PLACES)
