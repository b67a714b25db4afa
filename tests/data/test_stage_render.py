"""A Job that stages into a claim, and the volumes of a how-to page: what Kubernetes' schemas accept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

import made_frames
from assay import api
from assay.errors import InputError
from command_line import assay as typed
from conftest import ROOT

KUBERNETES = "1.34"
PAGE = ROOT / "docs" / "how-to" / "storage-systems.md"
VOLUMES = [
    {"persistentVolumeClaim": "adas-data", "mountPath": "/data", "readOnly": True},
    {"persistentVolumeClaim": "scratch", "mountPath": "/scratch"},
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made_frames.make(tmp_path / "d", 3, 100)
    system = {"launcher": "kubernetes", "namespace": "bench", "image": "python:3.12", "volumes": VOLUMES}
    (tmp_path / "systems.yaml").write_text(json.dumps({"cluster": system}))
    return tmp_path


def documents(text: str) -> Iterator[dict[str, Any]]:
    yield from (one for one in YAML(typ="safe").load_all(text) if one)


def test_the_job_stages_into_the_claim(place: Path) -> None:
    words = ("data", "stage", "d.jsonl", "--from", "/data/a2d2", "--to", "/scratch/assay", "--space", "1GB")
    done = typed(place, *words, "--render", "cluster")
    assert done.returncode == 0, done.stderr
    made = list(documents(done.stdout))
    for manifest in made:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    (job,) = (one for one in made if one["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    claims = [
        of["persistentVolumeClaim"]["claimName"] for of in pod["volumes"] if "persistentVolumeClaim" in of
    ]
    assert claims == ["adas-data", "scratch"]
    specs = [json.loads(one["data"]["spec.json"]) for one in made if "spec.json" in one.get("data", {})]
    assert "--space 1000000000" in " ".join(specs[0]["argv"])
    assert "--source /data/a2d2" in " ".join(specs[0]["argv"])
    assert typed(place, *words, "--render", "cluster").stdout == done.stdout


@pytest.mark.parametrize("to", ["/data/near", "/elsewhere", "/scratch/../data"])
def test_a_place_that_no_volume_keeps_is_refused(place: Path, to: str) -> None:
    with pytest.raises(InputError, match="mounts nothing there that stays"):
        api.staging_job(place / "d.jsonl", to, "cluster", systems=place / "systems.yaml")


def test_the_volumes_of_the_page_are_valid_and_bound_by_labels_per_namespace() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    made = [one for block in blocks for one in documents(block) if "kind" in one]
    for manifest in made:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    volumes = [one for one in made if one["kind"] == "PersistentVolume"]
    claims = [one for one in made if one["kind"] == "PersistentVolumeClaim"]
    assert {len(volumes), len(claims)} == {2}
    for claim in claims:
        spec = claim["spec"]
        fitting = [
            volume
            for volume in volumes
            if spec["selector"]["matchLabels"].items() <= volume["metadata"]["labels"].items()
            and volume["spec"]["storageClassName"] == spec["storageClassName"]
            and volume["spec"]["claimRef"]["namespace"] == claim["metadata"]["namespace"]
        ]
        assert len(fitting) == 1
    handles = {volume["spec"]["csi"]["volumeHandle"] for volume in volumes}
    assert len(handles) == 1  # the same directory for both
    names = {volume["metadata"]["name"] for volume in volumes}
    assert len(names) == len(volumes)
