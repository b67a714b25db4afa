"""Boxes under LoadGen: both backends find the same, and what they find is scored as MLPerf scores it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_inference import directory, read, run

import made_coco
from assay.analyse.mlperf.inference_rules import asked_accuracy
from assay.records import Shape
from assay.workloads import WORKLOADS
from conftest import long_but, require
from payload_processes import Forks

SIDE = 48
SMALL: Mapping[str, Any] = {"model": "ssd-resnet34", "size": SIDE, "batch_size": 4}
ACCURACY: Mapping[str, Any] = SMALL | {"mode": "accuracy", "scenario": "Offline"}
RETINANET: Mapping[str, Any] = {"model": "retinanet", "size": 32, "warmup": 1, "min_duration_s": 0.1}
RUNS: Mapping[str, Mapping[str, Any]] = {
    "torch": ACCURACY,
    "onnx": ACCURACY | {"backend": "onnxruntime"},
    "broken": ACCURACY | {"weights": None},
    "onnx-offline": SMALL | {"scenario": "Offline", "min_queries": 24, "backend": "onnxruntime"},
    "retinanet-single": RETINANET | {"min_queries": 64},
    "retinanet-offline": RETINANET | {"scenario": "Offline", "min_queries": 16, "batch_size": 4},
    "retinanet-onnx-single": RETINANET | {"min_queries": 64, "backend": "onnxruntime"},
    "retinanet-onnx-offline": RETINANET
    | {"scenario": "Offline", "min_queries": 16, "batch_size": 4, "backend": "onnxruntime"},
}


@pytest.fixture
def _detection() -> None:
    for name in ("torchvision", "pycocotools"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `inference`")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A data set, the weights that workload ssd learned from it, and the precision that it found itself."""
    for name in ("torchvision", "pycocotools", "mlperf_loadgen", "onnxruntime"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `inference`")
    root = tmp_path_factory.mktemp("detection")
    made_coco.make(root / "coco", train=32, validation=12, side=SIDE)
    ssd = WORKLOADS["ssd"]
    params = {"mode": "real", "data": str(root / "coco"), "image_size": SIDE, "blocks": (1, 1, 1)}
    params |= {"batch_size": 8, "max_epochs": 14, "eval_every": 14, "learning_rate": 0.02, "workers": 0}
    params |= {"lr_warmup_steps": 5, "checkpoint": str(root), "checkpoint_every": 7, "device": "cpu"}
    argv = ssd.task(ssd.params(**params), Shape(1, 1), 1).argv
    done = subprocess.run(
        [sys.executable, *argv[1:]],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if '"eval_accuracy"' in line]
    return root, json.loads(line.partition(":::MLLOG ")[2])["value"]


@pytest.fixture(scope="module")
def ran(trained: tuple[Path, float], forks: Forks) -> Path:
    """A folder a run, with what it left behind."""
    root, _ = trained
    for name, params in RUNS.items():
        directory(root / name, of(root, params))
    run(forks, *(root / name for name in RUNS))
    return root


def of(root: Path, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with the data and, of the model that was trained, its weights."""
    weights = {"weights": str(root / "checkpoint.pt")} if params["model"] == "ssd-resnet34" else {}
    return {"data": str(root / "coco"), **weights, **params}


def logged(folder: Path) -> list[np.ndarray]:
    """Boxes of each sample, n × 7, from LoadGen's accuracy log."""
    entries = json.loads((folder / "mlperf_log_accuracy.json").read_text())
    found = {entry["qsl_idx"]: np.frombuffer(bytes.fromhex(entry["data"]), np.float32) for entry in entries}
    return [found[index].reshape(-1, 7) for index in range(len(found))]


def log_of(folder: Path, answers: Sequence[np.ndarray]) -> Path:
    """An accuracy log as LoadGen writes it."""
    entries = [
        {"seq_id": at, "qsl_idx": at, "data": rows.astype(np.float32).tobytes().hex().upper()}
        for at, rows in enumerate(answers)
    ]
    (folder / "log.json").write_text(json.dumps(entries))
    return folder / "log.json"


def worth(folder: Path, answers: Sequence[np.ndarray], data: Any) -> float:
    """What the program finds in a log of these answers."""
    program = import_module("assay_payloads.inference.loadgen_accuracy")
    found: float = program.accuracy(program.answered(log_of(folder, answers)), data)
    return found


def direct_precision(coco: Path, answers: Sequence[np.ndarray]) -> float:
    """COCO's AP by pycocotools alone."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(coco / "annotations" / "instances_val2017.json"))
        rows = []
        for image, boxes in zip(truth.dataset["images"], answers, strict=True):
            width, height = image["width"], image["height"]
            for _, top, left, bottom, right, score, category in boxes.tolist():
                box = [left * width, top * height, (right - left) * width, (bottom - top) * height]
                rows.append([image["id"], *box, score, category])
        evaluation = COCOeval(truth, truth.loadRes(np.array(rows)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


def truth(coco: Path) -> list[np.ndarray]:
    """The answers of a model that finds everything exactly."""
    found = made_coco.annotations(coco, "val2017")
    answers: list[list[list[float]]] = [[] for _ in found["images"]]
    place = {image["id"]: at for at, image in enumerate(found["images"])}
    for one in found["annotations"]:
        at = place[one["image_id"]]
        left, top, width, height = one["bbox"]
        tall, wide = found["images"][at]["height"], found["images"][at]["width"]
        corners = [top / tall, left / wide, (top + height) / tall, (left + width) / wide]
        answers[at].append([at, *corners, 0.9, one["category_id"]])
    return [np.array(rows, dtype=np.float32).reshape(-1, 7) for rows in answers]


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_the_accuracy_of_a_trained_model_is_what_its_training_and_pycocotools_found(
    ran: Path, trained: tuple[Path, float], backend: str
) -> None:
    reading = read(ran / backend, of(ran, RUNS[backend]))
    (accuracy,) = reading.measurements
    assert (accuracy.metric, reading.problems) == ("accuracy", ())
    assert accuracy.value > 0.2, "it has learned"
    assert accuracy.value == pytest.approx(trained[1], abs=1e-3)
    assert accuracy.value == pytest.approx(direct_precision(ran / "coco", logged(ran / backend)), abs=1e-3)


@pytest.mark.torch
@pytest.mark.long
def test_torch_and_onnx_runtime_find_the_same_boxes(ran: Path) -> None:
    pairs = list(zip(logged(ran / "torch"), logged(ran / "onnx"), strict=True))
    assert len(pairs) == 12
    for by_torch, by_onnx in pairs:
        assert len(by_torch) > 0
        assert by_torch == pytest.approx(by_onnx, abs=1e-4)
        assert {*by_torch[:, 6]} <= {3, 6}, "categories by their ids"


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, params in RUNS.items() if "mode" not in params])
def test_detection_is_valid_in_short_form_in_batches_on_both_backends(ran: Path, name: str) -> None:
    reading = read(ran / name, of(ran, RUNS[name]))
    assert reading.problems == ()
    assert (reading.facts["validity"], reading.facts["samples"]) == ("VALID", 12)
    whole = RUNS[name].get("batch_size", 1)
    assert whole - 1 < reading.facts["mean_batch"] <= whole, "the last batch is what is left"


@pytest.mark.torch
@pytest.mark.long
def test_a_broken_model_has_the_accuracy_of_one(ran: Path) -> None:
    (accuracy,) = read(ran / "broken", of(ran, RUNS["broken"])).measurements
    assert accuracy.value < 0.05


@pytest.mark.usefixtures("_detection")
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", long_but(1, ["retinanet", "ssd-mobilenet", "ssd-resnet34"]))
def test_what_is_found_in_an_image_is_what_torchvision_finds(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import torch

    models = import_module("assay_payloads.inference.loadgen_models")
    monkeypatch.setattr(models, "RESNET34", (1, 1, 1))
    size = 64  # torchvision fills RetinaNet's images up to multiples of 32
    torch.manual_seed(1)
    network = models.MODELS[name].build(size, 7).eval()
    images = torch.rand(2, 3, size, size)
    with torch.inference_mode():
        spread_scores(network, images)
        ours = network.boxes(network(images))
        theirs = as_torchvision(network, size)(list(images))
    for rows, found in zip(ours, theirs, strict=True):
        assert len(rows) > 20
        assert len(np.unique(rows[:, 4])) > 0.9 * len(rows), "no ties, whose order is anybody's"
        corners = found["boxes"].numpy()[:, [1, 0, 3, 2]] / size
        assert rows[:, :4] == pytest.approx(corners, abs=1e-5)
        assert rows[:, 4] == pytest.approx(found["scores"].numpy(), abs=1e-6)
        assert (rows[:, 5] == found["labels"].numpy()).all()


def spread_scores(network: Any, images: Any) -> None:
    """Make random weights tell boxes apart: maps of spread 1 into a head that keeps it."""
    import torch

    for name, weights in network.model.named_parameters():
        if weights.dim() > 1 and "head" not in name:
            torch.nn.init.kaiming_normal_(weights)
        elif "head" in name and name.endswith("bias"):
            weights.zero_()
    maps = [features / features.std() for features in network.model.backbone(images).values()]
    network.model.backbone.register_forward_hook(
        lambda _module, _inputs, _outputs: {str(at): features for at, features in enumerate(maps)}
    )
    for weights in network.model.head.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=1 / np.sqrt(weights[0].numel()))


def as_torchvision(network: Any, size: int) -> Any:
    """The library's own model, told to take images of this size as they are."""
    transform = network.model.transform
    transform.min_size, transform.max_size, transform.fixed_size = (size,), size, (size, size)
    return network.model


@pytest.mark.usefixtures("_detection")
@pytest.mark.torch
@pytest.mark.slow
def test_default_boxes_stay_exact_in_half_precision() -> None:
    import torch

    network = import_module("assay_payloads.inference.loadgen_models").MODELS["ssd-mobilenet"].build(320, 91)
    before = network.anchors.corners.clone()
    assert network.half().anchors.corners.dtype == torch.float32
    assert torch.equal(network.anchors.corners, before)
    assert network.model.head.classification_head.module_list[0][1].weight.dtype == torch.float16


@pytest.mark.usefixtures("_detection")
@pytest.mark.torch
@pytest.mark.parametrize("layout", ["coco", "openimages"])
def test_what_is_scored_are_the_boxes_of_the_log(tmp_path: Path, layout: str) -> None:
    """By hand: all boxes exact; half of them missing; one class for the other; none at all."""
    data = import_module("assay_payloads.inference.loadgen_data")
    made_coco.make(tmp_path, train=1, validation=6, side=SIDE)
    exact = truth(tmp_path)
    halved = [rows if at % 2 else rows[:0] for at, rows in enumerate(exact)]
    swapped = [np.column_stack([rows[:, :6], 9 - rows[:, 6]]) for rows in exact]
    expected = direct_precision(tmp_path, halved)
    if layout == "openimages":
        (tmp_path / "annotations" / "instances_val2017.json").rename(
            tmp_path / "annotations" / "openimages-mlperf.json"
        )
        (tmp_path / "validation").mkdir()
        (tmp_path / "val2017").rename(tmp_path / "validation" / "data")
    read = data.labeled(tmp_path, 16)
    assert (read.count, read.categories) == (6, (3, 6))
    (image,) = read.read(0)
    assert (image.shape, image.dtype, 0 <= image.min() <= image.max() <= 1) == ((3, 16, 16), np.float32, True)
    assert worth(tmp_path, exact, read) == pytest.approx(1)
    assert 0.2 < expected < 0.8
    assert worth(tmp_path, halved, read) == pytest.approx(expected, abs=1e-3)
    assert worth(tmp_path, swapped, read) == pytest.approx(0, abs=0.01)
    assert worth(tmp_path, [rows[:0] for rows in exact], read) == 0


@pytest.mark.usefixtures("_detection")
@pytest.mark.torch
def test_answers_to_other_samples_and_missing_ones_are_no_accuracy(tmp_path: Path) -> None:
    data = import_module("assay_payloads.inference.loadgen_data")
    made_coco.make(tmp_path, train=1, validation=3, side=SIDE)
    read, exact = data.labeled(tmp_path, 16), truth(tmp_path)
    with pytest.raises(ValueError, match="2 answers to 2 samples; expected one for each of 3"):
        worth(tmp_path, exact[:2], read)
    with pytest.raises(ValueError, match="the answer to sample 0 has boxes of sample 2"):
        worth(tmp_path, exact[::-1], read)


@pytest.mark.usefixtures("_detection")
@pytest.mark.torch
def test_annotations_and_images_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    data = import_module("assay_payloads.inference.loadgen_data")
    made_coco.make(tmp_path, train=1, validation=2, side=SIDE)
    image = tmp_path / "val2017" / "000000000002.png"
    image.write_bytes(image.read_bytes()[:60])
    read = data.labeled(tmp_path, 16)
    with pytest.raises(ValueError, match=r"000000000002\.png: can't be decoded"):
        read.read(1)
    (tmp_path / "annotations" / "instances_val2017.json").write_text("{")
    with pytest.raises(ValueError, match=r"instances_val2017\.json can't be read as COCO's annotations"):
        data.labeled(tmp_path, 16)


def test_the_accuracy_asked_for_is_that_of_the_rules_own_model_data_and_size() -> None:
    """As the results of MLPerf inference v5.0 state it: 37.1745 and 75.6954 %; F1 of 90.874 % is BERT's."""
    retinanet = {"model": "retinanet", "samples": 24_781, "image_size": 800}
    resnet50 = {"model": "resnet50", "samples": 50_000, "image_size": 224}
    bert = {"model": "bert-large", "samples": 10_833, "sequence_length": 384}
    assert asked_accuracy(retinanet) == pytest.approx(0.371745)
    assert asked_accuracy(resnet50) == pytest.approx(0.756954)
    assert asked_accuracy(bert) == pytest.approx(0.8996526)
    assert asked_accuracy(bert | {"sequence_length": 512}) is None
    assert asked_accuracy(retinanet | {"samples": 100}) is None
    assert asked_accuracy(retinanet | {"image_size": 640}) is None
    assert asked_accuracy(resnet50 | {"model": "ssd-resnet34"}) is None
