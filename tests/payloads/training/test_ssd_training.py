"""SSD: the training contract on coloured squares in COCO's layout, its loss, its FLOPs, its annotations."""

from __future__ import annotations

import re
from argparse import Namespace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

import made_coco
from assay.workloads.vision import RESNET34_BLOCKS, SSD, SsdParams
from training_contract import TrainingContract

SMALL: dict[str, Any] = {"image_size": 48, "blocks": (1, 1, 1)}


@pytest.mark.long
class TestSsdTraining(TrainingContract):
    workload = "ssd"
    real: ClassVar = SMALL | {
        "batch_size": 8,
        "max_epochs": 10,
        "eval_every": 5,
        "learning_rate": 0.02,
        "lr_warmup_steps": 5,
        "target": 0.2,
    }
    ruleset = "0.7.0"  # 1.1.0 wants the names of all of ResNet-34's weights: see below

    make_data = staticmethod(partial(made_coco.make, train=32, validation=8))

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "train2017" / "000000000003.png"
        victim.write_bytes(victim.read_bytes()[:300])
        return str(victim)


def full_form() -> Any:
    """SSD300 on ResNet-34 without memory for its weights."""
    torch, ssd = import_module("torch"), import_module("assay_payloads.training.ssd")
    options = Namespace(image_size=300, blocks=RESNET34_BLOCKS, backbone=None)
    with torch.device("meta"):
        return ssd.detector(options, 80)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_flops_are_those_that_torch_counts() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    network = full_form()
    with FlopCounterMode(display=False) as counter, torch.device("meta"):
        maps = list(network.backbone(torch.empty(1, 3, 300, 300)).values())
        network.head(maps)
    assert 3 * counter.get_total_flops() == pytest.approx(SSD.reader.flops(SsdParams()), rel=0.01)
    assert [features.shape[-1] for features in maps] == [38, 19, 10, 5, 3, 1]
    boxes = zip(maps, network.anchor_generator.num_anchors_per_location(), strict=True)
    assert sum(features.shape[-1] ** 2 * number for features, number in boxes) == 8732
    assert SSD.reader.flops(SsdParams(blocks=(1, 1, 1))) is None


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_weights_have_the_names_that_the_rules_of_v1_1_ask_for() -> None:
    checker = pytest.importorskip("mlperf_logging.compliance_checker")
    rules = (Path(checker.__file__).parent / "training_1.1.0" / "closed_ssd.yaml").read_text()
    asked = re.findall(r'"(ssd0_\w+)"', rules)
    assert len(asked) > 100
    assert sorted(import_module("assay_payloads.training.ssd").mlperf_tensors(full_form())) == sorted(asked)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_the_loss_is_a_mean_over_images_and_of_one_image_torchvisions() -> None:
    import torch
    from torchvision.models.detection.ssd import SSD as TORCHVISIONS

    torch.manual_seed(1)
    network = (
        import_module("assay_payloads.training.ssd").detector(Namespace(backbone=None, **SMALL), 2).train()
    )
    images = [torch.rand(3, 48, 48) for _ in range(3)]
    box = torch.tensor([[4.0, 4.0, 24.0, 24.0], [20.0, 16.0, 44.0, 40.0]])
    targets = [
        {"boxes": box, "labels": torch.tensor([1, 2])},
        {"boxes": box[:1], "labels": torch.tensor([2])},
        {"boxes": box[:0], "labels": torch.tensor([], dtype=torch.int64)},  # a crop can leave none
    ]
    network.eval()  # so that normalisation doesn't join the images
    network.training = True
    alone = []
    for image, target in zip(images, targets, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(network), "compute_loss", TORCHVISIONS.compute_loss)
            alone.append(sum(network([image], [target]).values()))
    together = sum(network(images, targets).values())
    assert together.item() == pytest.approx(torch.stack(alone).mean().item(), rel=1e-5)
    assert alone[2].item() == 0


def _spoilt(directory: Path, trouble: str) -> None:
    found = made_coco.annotations(directory, "train2017")
    first = found["annotations"][0]
    if trouble == "class":
        first["category_id"] = 99
    elif trouble == "image":
        first["image_id"] = 99
    elif trouble == "box":
        first["bbox"] = [1, 2, 3]
    elif trouble == "empty":
        found["categories"].append({"id": 50, "name": "blue"})
    made_coco.write(directory, "train2017", found)
    path = directory / "annotations" / "instances_train2017.json"
    if trouble == "cut":
        path.write_text(path.read_text()[:100])
    elif trouble == "missing":
        path.unlink()


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("class", "annotation 1: category_id 99 is not one of its 2 categories"),
        ("image", "annotation 1: image_id 99 is not one of its images"),
        ("box", r"annotation 1: bbox is \[1, 2, 3\]; expected"),
        ("empty", "no box of class blue"),
        ("cut", "can't be read as COCO's annotations"),
        ("missing", "can't be read as COCO's annotations.*No such file"),
    ],
)
def test_annotations_that_cannot_be_trained_on_are_named(tmp_path: Path, trouble: str, said: str) -> None:
    made_coco.make(tmp_path, train=2, validation=1)
    _spoilt(tmp_path, trouble)
    unreadable = import_module("assay_payloads.datasets.feed").UnreadableSampleError
    with pytest.raises(unreadable, match=f"instances_train2017.json.*{said}"):
        import_module("assay_payloads.datasets.coco").Coco(tmp_path, "train2017", training=True)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_images_without_objects_are_evaluated_but_not_trained_on(tmp_path: Path) -> None:
    made_coco.make(tmp_path, train=4, validation=1)
    found = made_coco.annotations(tmp_path, "train2017")
    crowd, flat = (next(a for a in found["annotations"] if a["image_id"] == image) for image in (2, 4))
    crowd["iscrowd"], flat["bbox"][2] = 1, 0
    made_coco.write(tmp_path, "train2017", found)
    coco = import_module("assay_payloads.datasets.coco")
    training = coco.Coco(tmp_path, "train2017", training=True)
    assert (training.ids, training.flat_boxes) == ([1, 3], 1)
    assert coco.Coco(tmp_path, "train2017", training=False).ids == [1, 2, 3, 4]


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_a_backbone_of_another_network_is_refused(tmp_path: Path) -> None:
    import torch
    from torchvision.models.resnet import BasicBlock, ResNet

    torch.save(ResNet(BasicBlock, [1, 1, 1, 1]).state_dict(), tmp_path / "small.pth")
    unreadable = import_module("assay_payloads.datasets.feed").UnreadableSampleError
    options = Namespace(image_size=48, blocks=RESNET34_BLOCKS, backbone=tmp_path / "small.pth")
    with pytest.raises(unreadable, match=r"small\.pth does not contain this network's weights"):
        import_module("assay_payloads.training.ssd").detector(options, 2)
