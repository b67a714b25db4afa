"""Street scenes: the training contract on scenes drawn in A2D2's layout, classes, confusion matrix."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import made_a2d2
from assay.cli import assay
from assay.formats.mllog import EventReader
from assay.workloads.segmentation import FLOPS_A_PIXEL, SEGMENTATION, SegmentationParams
from conftest import ROOT, long_rows_but
from training_contract import TrainingContract

SMALL: dict[str, Any] = {"encoder": "resnet18", "image_size": (64, 96)}


@pytest.mark.long
class TestSegmentationTraining(TrainingContract):
    workload = "segmentation"
    real: ClassVar = SMALL | {
        "batch_size": 4,
        "max_epochs": 4,
        "eval_every": 2,
        "learning_rate": 0.05,
        "target": 0.5,
    }

    chance: ClassVar = {"dropout": 0.0}

    @staticmethod
    def make_data(directory: Path) -> None:
        made_a2d2.make(directory, frames=36)

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = made_a2d2.file(directory, 3, "camera")
        victim.write_bytes(victim.read_bytes()[:300])
        return str(victim)

    def test_a_training_reaches_a_target_that_a_model_that_learns_nothing_misses(
        self, tmp_path: Path, data: Path
    ) -> None:
        super().test_a_training_reaches_a_target_that_a_model_that_learns_nothing_misses(tmp_path, data)
        facts, tables = evaluated(tmp_path / "learns" / "rank-0.log")
        street, car, sky, bicycle = (facts["classes"].index(name) for name in SEEN)
        last = tables[-1]
        assert last[sky][sky] > sum(last[sky]) / 2
        assert [sum(last[kind]) > 0 for kind in (street, car, sky, bicycle)] == [True, True, True, False]
        assert facts["missing"] == [name for name in facts["classes"] if name not in SEEN[:3]]

    def test_two_ranks_and_a_resumed_run_train_as_one_rank_in_one_go(
        self, tmp_path: Path, data: Path
    ) -> None:
        super().test_two_ranks_and_a_resumed_run_train_as_one_rank_in_one_go(tmp_path, data)
        for log in ("straight", "together"):  # three frames held out, each counted on one rank
            facts, [table] = evaluated(tmp_path / log / "rank-0.log")
            assert facts["unknown"] == 3 * made_a2d2.UNKNOWN_PIXELS
            assert sum(map(sum, table)) + facts["unknown"] == 3 * 64 * 96


SEEN = ("RD normal street", "Car", "Sky", "Bicycle")  # the last is a class that no frame shows


def evaluated(log: Path) -> tuple[dict[str, Any], list[list[list[int]]]]:
    """What the evaluations of a log say, and the confusion matrix of each."""
    events = list(EventReader(log))
    tables = [event for event in events if event.key == "confusion_matrix"]
    values = {event.key: event.value for event in events}
    facts = {
        "classes": tables[0].metadata["classes"],
        "missing": values["classes_not_evaluated"],
        "unknown": values["pixels_of_unknown_colour"],
    }
    return facts, [event.value for event in tables]


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(("architecture", "encoder"), long_rows_but(1, [*FLOPS_A_PIXEL]))
def test_its_flops_are_those_that_torch_counts(architecture: str, encoder: str) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    network = import_module("assay_payloads.training.segmentation").ARCHITECTURES[architecture]
    with FlopCounterMode(display=False) as counter, torch.device("meta"):
        network(encoder_name=encoder, encoder_weights=None, classes=20)(torch.empty(2, 3, 1216, 1920))
    params = SegmentationParams(architecture=architecture, encoder=encoder)
    assert 3 * counter.get_total_flops() / 2 == pytest.approx(SEGMENTATION.reader.flops(params), rel=0.01)


def colors(directory: Path, *, reduced: bool = True, **classes: str) -> Any:
    """Of a class_list.json with these, or with the made one's."""
    listed = {f"#{colour}": name for colour, name in classes.items()} or made_a2d2.CLASSES
    (directory / "class_list.json").write_text(json.dumps(listed))
    return import_module("assay_payloads.training.segmentation").Colors(
        directory / "class_list.json", reduced=reduced
    )


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_the_classes_are_those_of_class_list_without_their_number_reduced_to_twenty(tmp_path: Path) -> None:
    import torch

    reduced = colors(tmp_path, ff0000="Car 1", c80000="Car 2", ccff99="Animals", e12345="Something new")
    assert len(reduced.names) == 20
    named = {
        name: reduced.names.index(name) for name in ("RD normal street", "Sky", "Nature object", "Bicycle")
    }
    assert list(named.values()) == [1, 9, 11, 19], "where the Redbook's confusion matrix has them"
    pixels = torch.tensor([[0xFF, 0, 0], [0xC8, 0, 0], [0xCC, 0xFF, 0x99], [0xE1, 0x23, 0x45], [9, 9, 9]])
    found = reduced.classes(pixels.T[:, None].to(torch.uint8))[0].tolist()
    car, trash = reduced.names.index("Car"), reduced.names.index("Obstacles / trash")
    assert found == [car, car, trash, 0, 255]
    assert colors(tmp_path, reduced=False).names == ["Car", "RD normal street", "Sky", "Bicycle"]


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_frames_that_cannot_be_trained_on_are_named(tmp_path: Path) -> None:
    from PIL import Image

    module, unreadable = (
        import_module("assay_payloads.training.segmentation"),
        import_module("assay_payloads.datasets.feed").UnreadableSampleError,
    )
    made_a2d2.make(tmp_path, frames=4)
    labels = [made_a2d2.file(tmp_path, number, "label") for number in range(4)]
    data = module.Frames(labels, colors(tmp_path), (64, 96))
    Image.new("RGB", (96, 64), (1, 2, 3)).save(labels[0])
    with pytest.raises(unreadable, match=rf"{labels[0].name}: 100% of its pixels have colors that are not"):
        data[0]
    Image.new("RGB", (48, 32), made_a2d2.SKY).save(labels[1])
    with pytest.raises(unreadable, match=rf"{labels[1].name} has 48 × 32 pixels, but its image 96 × 64"):
        data[1]
    data.location(2).unlink()
    with pytest.raises(unreadable, match=rf"{data.location(2).name} can't be read: FileNotFoundError"):
        data[2]
    labels[3].write_bytes(labels[3].read_bytes()[:200])
    with pytest.raises(unreadable, match=rf"{labels[3].name} can't be read"):
        data[3]
    (tmp_path / "class_list.json").write_text('["ff0000"]')
    with pytest.raises(unreadable, match=r"class_list\.json can't be read as"):
        module.Colors(tmp_path / "class_list.json", reduced=True)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_frames_held_out_are_no_frames_trained_on_and_the_seed_does_not_move_them(tmp_path: Path) -> None:
    made_a2d2.make(tmp_path, frames=20)
    given = {"camera": made_a2d2.CAMERA, "frames": 15, "held_out": 5, "batch_size": 5, "reduced": True}
    given |= {"global_batch_size": None, "mode": "real", "data": tmp_path, "manifest": None, "source": None}
    benchmark = import_module("assay_payloads.training.segmentation").Segmentation
    parts = [benchmark(Namespace(size=1), Namespace(**given, seed=seed)) for seed in (1, 2)]
    for part in parts:
        assert (part.train_samples(), part.eval_samples()) == (10, 3), "whole steps of five"
        assert not set(part.trained_on) & set(part.held_out)
    assert parts[0].held_out == parts[1].held_out


@pytest.mark.long
def test_the_playbook_asks_for_as_many_pods_and_gpus_as_its_shapes_say() -> None:
    suite = ROOT / "examples" / "a2d2" / "suite.yaml"
    listed = CliRunner().invoke(assay, ["plan", str(suite), "--json"])
    assert listed.exit_code == 0, listed.output
    trials = json.loads(listed.stdout)["trials"]
    assert {trial["id"] for trial in trials} == {
        f"{benchmark}-{shape}-r0{block}"
        for benchmark in ("training", "reading", "computing")
        for shape in ("8x1x1", "16x1x2", "1x8", "2x8")
        for block in range(1, 6)
    }
    shown = CliRunner().invoke(assay, ["plan", str(suite), "--show", "training-16x1x2-r01"])
    assert shown.exit_code == 0, shown.output
    objects = [entry for entry in YAML(typ="safe").load_all(shown.stdout) if entry]
    files = {name: text for entry in objects for name, text in entry.get("data", {}).items()}
    [job] = [entry for entry in objects if entry["kind"] == "MPIJob"]
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]
    [container] = worker["template"]["spec"]["containers"]
    assert worker["replicas"] == 16
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert "/dev/shm" in mounts
    assert mounts["/data"]["readOnly"] is True
    argv = " ".join(json.loads(files["spec.json"])["argv"])
    assert argv.startswith(
        "python3 -m assay_payloads.training.segmentation --mode real --data /data/camera_lidar_semantic "
    )
    for option in ("--frames 27300", "--batch-size 16", "--image-size 608 960", "--precision fp16"):
        assert option in argv


def test_the_playbook_names_only_commands_that_there_are() -> None:
    text = (ROOT / "examples" / "a2d2" / "README.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("assay ")]
    assert lines
    for line in lines:
        assert CliRunner().invoke(assay, [line.split()[1], "--help"]).exit_code == 0, line
