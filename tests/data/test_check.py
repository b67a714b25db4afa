"""A data set is read once with the training's own loaders, and what they can't read is named."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import made_a2d2
import made_coco
from assay import api
from assay.cli import assay
from assay.data.checking import difference_from_official
from assay.errors import InputError
from conftest import require

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SMALL = {"encoder": "resnet18", "image_size": [64, 96], "batch_size": 2}


@pytest.fixture(autouse=True)
def _installed() -> None:
    for name in ("torch", "torchvision", "segmentation_models_pytorch", "pycocotools"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `training`")


@pytest.mark.long
def test_every_sample_of_both_parts_is_read(tmp_path: Path) -> None:
    root = made_a2d2.make(tmp_path / "a2d2", frames=20)
    found = api.check_data("segmentation", root, params=SMALL, processes=2)
    assert found.samples == found.checked == {"training": 18, "evaluation": 2}
    assert (found.damaged, found.unreadable) == (0, [])


@pytest.mark.long
def test_damaged_samples_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    root = made_a2d2.make(tmp_path / "a2d2", frames=20)
    first, second, third = (made_a2d2.file(root, number, "camera") for number in (3, 4, 5))
    first.write_bytes(first.read_bytes()[:200])
    second.unlink()
    third.write_text("hello")
    options = [f"--param={name}={json.dumps(value)}" for name, value in SMALL.items()]
    done = CliRunner().invoke(assay, ["data", "check", "segmentation", str(root), *options, "--json"])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert sum(told["checked"].values()) == 20
    assert told["damaged"] == 3
    assert all(any(str(path) in why for why in told["unreadable"]) for path in (first, second, third))


@pytest.mark.long
def test_as_text_it_says_how_many_samples_cannot_be_read(tmp_path: Path) -> None:
    root = made_a2d2.make(tmp_path / "a2d2", frames=20)
    damaged = [made_a2d2.file(root, number, "camera") for number in (3, 4, 5)]
    for path in damaged:
        path.write_text("hello")
    options = [f"--param={name}={json.dumps(value)}" for name, value in SMALL.items()]
    done = CliRunner().invoke(assay, ["data", "check", "segmentation", str(root), *options])
    assert done.exit_code == 1
    assert "18 for training, 2 for evaluation; 3 samples can't be read\n" in done.stdout
    assert all(str(path) in done.stdout for path in damaged)


@pytest.mark.long
def test_detection_is_read_with_its_annotations(tmp_path: Path) -> None:
    root = made_coco.make(tmp_path / "coco", train=6, validation=3)
    found = api.check_data("ssd", root, params={"batch_size": 1}, processes=1)
    assert found.samples == found.checked
    assert found.samples["evaluation"] == 3
    assert found.damaged == 0
    assert "COCO 2017 has 117,266 for training (here 6), 5,000 for evaluation (here 3)" in found.official


@pytest.mark.parametrize(
    ("workload", "samples", "said"),
    [
        ("resnet50", {"training": 1_281_167, "evaluation": 50_000}, ""),
        (
            "resnet50",
            {"training": 1_281_167, "evaluation": 49_999},
            "ImageNet (ILSVRC 2012) has 50,000 for evaluation (here 49,999)",
        ),
        ("unet3d", {"training": 168, "evaluation": 42}, ""),
        ("segmentation", {"training": 5, "evaluation": 1}, ""),
    ],
)
def test_a_size_that_is_not_the_official_one_is_said(
    workload: str, samples: dict[str, int], said: str
) -> None:
    assert difference_from_official(workload, samples) == said


@pytest.mark.parametrize(
    ("workload", "params", "words"),
    [
        pytest.param("segmentation", {}, "it is not A2D2's directory", marks=pytest.mark.long),
        pytest.param("resnet50", {}, "train is missing: expected train/ and val/", marks=pytest.mark.long),
        ("matmul", {}, "trains on no data set; expected one of resnet50"),
        ("segmentation", {"camera": 5}, "camera: Input should be a valid string"),
    ],
)
def test_another_layout_or_workload_is_refused_with_what_was_expected(
    tmp_path: Path, workload: str, params: dict[str, object], words: str
) -> None:
    (tmp_path / "class_list.json").write_text(json.dumps(made_a2d2.CLASSES))
    with pytest.raises(InputError, match=words):
        api.check_data(workload, tmp_path, params=params)
    with pytest.raises(InputError, match="is not a directory"):
        api.check_data("resnet50", tmp_path / "none")
