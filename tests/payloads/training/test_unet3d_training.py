"""Workload unet3d: the training contract on made volumes, its FLOPs, its Dice, its patches, bad volumes."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.workloads.vision import UNet3DParams, unet3d_training_flops
from training_contract import TrainingContract


def make_kits19(directory: Path, cases: int = 210) -> None:
    from made_kits19 import make_kits19

    make_kits19(directory, cases=cases)


@pytest.mark.long
class TestUNet3DTraining(TrainingContract):
    workload = "unet3d"
    real: ClassVar = {
        "filters": (4, 8, 16),
        "patch_size": 8,
        "batch_size": 8,
        "learning_rate": 0.3,
        "warmup_epochs": 0,
        "max_epochs": 6,
        "eval_every": 1,
        "first_eval": 3,
        "target": 0.85,
    }
    ruleset = "4.0.0"
    make_data = staticmethod(make_kits19)

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "case_00007_x.npy"
        victim.write_bytes(victim.read_bytes()[:1000])
        return str(victim)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_flops_are_those_that_torch_counts_and_mlperfs() -> None:
    pytest.importorskip("monai")
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    for params in (UNet3DParams(), UNet3DParams(filters=(4, 8, 12, 16), patch_size=16)):
        with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
            made = import_module("assay_payloads.training.unet3d").network(list(params.filters))(
                torch.zeros(1, 1, *[params.patch_size] * 3)
            )
        assert made.shape == (1, 3, *[params.patch_size] * 3)
        assert unet3d_training_flops(params) == pytest.approx(3 * counter.get_total_flops(), rel=1e-9)
    assert unet3d_training_flops(UNet3DParams()) == pytest.approx(2860e9, rel=0.01)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_dice_is_1_of_a_class_that_neither_has_and_0_of_one_that_is_made_up() -> None:
    pytest.importorskip("monai")
    import torch

    dice = import_module("assay_payloads.training.unet3d").dice
    labels = torch.tensor([1, 1, 1, 0, 0])
    assert dice(labels, labels).tolist() == pytest.approx([1, 1])
    assert dice(torch.tensor([1, 0, 0, 1, 2]), labels).tolist() == pytest.approx([0.4, 0], abs=1e-5)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_patches_lie_within_the_volume_and_show_foreground_as_often_as_asked(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    labels = np.zeros((1, 20, 12, 10), dtype=np.uint8)
    labels[0, 19, 0, 9] = 2  # a tumour of one voxel in a corner
    np.save(tmp_path / "case_00001_y.npy", labels)
    np.save(tmp_path / "case_00001_x.npy", labels.astype(np.float32))
    patches = import_module("assay_payloads.datasets.kits19").Patches(tmp_path, 8, 1.0)
    random.seed(1)
    drawn = [patches[0] for _ in range(30)]
    assert {(image.shape, label.shape) for image, label in drawn} == {((1, 8, 8, 8), (1, 8, 8, 8))}
    assert all(label.max() == 2 for _, label in drawn)
    places = {tuple(int(place) for place in np.argwhere(label == 2)[0]) for _, label in drawn}
    assert len(places) > 4, "the patches lie alike and are turned alike"
    patches.oversampling = 0.0
    assert sum(bool(patches[0][1].any()) for _ in range(30)) < 10
    random.seed(1)
    patches.oversampling = 1.0
    assert all(np.array_equal(patches[0][0], image) for image, _ in drawn)


def save(name: str, shape: tuple[int, ...], value: float = 0.0) -> Callable[[Path], None]:
    def saved(directory: Path) -> None:
        import numpy as np

        kind = np.float32 if name.endswith("_x.npy") else np.uint8
        np.save(directory / name, np.full(shape, value, dtype=kind))

    return saved


SHAPE = (1, 8, 8, 8)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda directory: (directory / "case_00002_y.npy").unlink(),
            r"case_00002_y.npy is missing, but the other",
        ),
        (
            save("case_00002_y.npy", (1, 8, 8, 9)),
            r"case_00002_x.npy has the shape \(1, 16, .* case_00002_y.npy",
        ),
        (
            save("case_00002_x.npy", (8, 8, 8)),
            r"case_00002_x.npy has the shape \(8, 8, 8\); expected 1 × depth",
        ),
        (
            lambda directory: (directory / "case_00002_x.npy").write_text("no"),
            r"case_00002_x.npy can't be read",
        ),
        (save("case_00002_y.npy", (1, 16, 16, 16), 3), r"case_00002_y.npy has the label 3; expected 0 to 2"),
        (save("case_00002_y.npy", (1, 16, 16, 16)), r"case_00002_y.npy has neither kidney nor tumor"),
    ],
)
def test_what_is_wrong_with_a_volume_is_said_with_its_file(
    tmp_path: Path, spoil: Callable[[Path], Any], said: str
) -> None:
    pytest.importorskip("torch")
    make_kits19(tmp_path, cases=4)
    spoil(tmp_path)
    with pytest.raises(import_module("assay_payloads.datasets.feed").UnreadableSampleError, match=said):
        import_module("assay_payloads.datasets.kits19").Patches(tmp_path, 8, 1.0)[1]


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_volumes_smaller_than_a_patch_and_a_set_without_evaluation_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    kits19, wrong = (
        import_module("assay_payloads.datasets.kits19"),
        import_module("assay_payloads.datasets.feed").UnreadableSampleError,
    )
    make_kits19(tmp_path, cases=3)  # the first is for evaluation
    with pytest.raises(wrong, match=r"case_00001_x.npy is smaller than a patch: .* --patch-size is 32"):
        kits19.Patches(tmp_path, 32, 0.4)
    assert kits19.Cases(tmp_path, evaluated=True).names == ["case_00000"]
    for kind in "xy":
        (tmp_path / f"case_00000_{kind}.npy").unlink()
    with pytest.raises(wrong, match=r"has no case to evaluate"):
        kits19.Cases(tmp_path, evaluated=True)
