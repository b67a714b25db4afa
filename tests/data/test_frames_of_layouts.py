"""Label images of other layouts than A2D2's: read by the loaders that train and validate, staged or not."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import tarfile
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import made_a2d2
import validated_network
from assay import api
from assay.errors import InputError
from assay.frame_manifest import write_manifest
from assay_payloads.datasets.frame_files import FrameFiles
from assay_payloads.datasets.manifest import ChosenFrame, made, parsed
from command_line import assay as typed
from conftest import require

pytestmark = [pytest.mark.torch, pytest.mark.slow]
FRAMES = 6


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a2d2 with c.duckdb; s: its frames as shards, with s.duckdb and s.jsonl; net.pt: a network."""
    for name in ("torch", "segmentation_models_pytorch", "pyspng"):
        require(name, importlib.util.find_spec(name) is not None, "install the extras `training` and `data`")
    here = tmp_path_factory.mktemp("layouts")
    root = made_a2d2.make(here / "a2d2", frames=FRAMES, height=32, width=64)
    for source, manifest in ((root, "m.jsonl"), (here / "s", "s.jsonl")):
        catalog = (here / manifest).with_suffix(".duckdb")
        api.scan_data(source, catalog=catalog, processes=1)
        write_manifest(here / manifest, api.query_data(catalog=catalog))
        if source == root:
            api.stage_data(here / manifest, here / "s", shard_bytes=20_000)
    validated_network.checkpoint(here / "net.pt")
    return here


def benchmark(data: Path, manifest: Path, **options: object) -> object:
    given = {"camera": "", "frames": None, "held_out": 3, "batch_size": 2, "reduced": True, "source": None}
    given |= {"global_batch_size": None, "mode": "data-only", "image_size": [32, 64], "data": data}
    rank = Namespace(size=1, rank=0, log=lambda *_, **__: None, fail=_fail)
    segmentation = import_module("assay_payloads.training.segmentation").Segmentation
    return segmentation(rank, Namespace(**given | {"manifest": manifest} | options))


def _fail(why: str) -> None:
    raise AssertionError(why)


@pytest.mark.long
def test_frames_of_staged_shards_are_those_of_the_data_set_that_they_were_made_of(
    here: Path, tmp_path: Path
) -> None:
    done = api.stage_data(here / "s.jsonl", tmp_path / "cache", space_bytes=10_000_000)
    near = Path(done.directory)
    whole, staged = (
        benchmark(data, manifest)
        for data, manifest in ((here / "a2d2", here / "m.jsonl"), (near, near / "manifest.jsonl"))
    )
    assert staged.names == whole.names  # type: ignore[attr-defined]
    for part in ("training_data", "evaluation_data"):
        a, b = (getattr(one, part)(*([0] if part == "training_data" else [])) for one in (whole, staged))
        images = {
            (image.numpy().tobytes(), label.numpy().tobytes())
            for image, label in (a[i] for i in range(len(a)))
        }
        assert images == {
            (image.numpy().tobytes(), label.numpy().tobytes())
            for image, label in (b[i] for i in range(len(b)))
        }
        assert sum(map(a.stored_bytes, range(len(a)))) == sum(map(b.stored_bytes, range(len(b))))


@pytest.mark.long
def test_a_network_validated_over_shards_has_the_counts_of_the_data_set(here: Path) -> None:
    documents = []
    for manifest in ("m.jsonl", "s.jsonl"):
        words = ["data", "validate", "net.pt", manifest, "--into", f"v-{manifest}", "--workers", "1"]
        ran = typed(here, *words, "--page", f"{manifest}.html", "--json")
        assert ran.returncode == 0, ran.stderr
        documents.append(json.loads(ran.stdout))
    assert documents[0]["matrix"] == documents[1]["matrix"]
    assert documents[1]["validated"] == FRAMES
    assert "data:image/jpeg" in (here / "s.jsonl.html").read_text()


def test_labels_of_cityscapes_are_their_ids(here: Path, tmp_path: Path) -> None:
    ids = np.array([[7, 8, 26, 26], [23, 23, 40, 0]], dtype=np.uint8).repeat(16, 0).repeat(16, 1)
    frames = []
    for number in range(3):
        label, image = (
            f"gtFine/train/a/a_{number}_gtFine_labelIds.png",
            f"leftImg8bit/train/a/a_{number}_leftImg8bit.png",
        )
        for name, pixels in ((label, ids), (image, np.stack([ids] * 3, 2))):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / name)
        frames.append(
            ChosenFrame(label, image, *((tmp_path / name).stat().st_size for name in (label, image)))
        )
    write_manifest(tmp_path / "m.jsonl", made(str(tmp_path), "cityscapes", "all", frames))
    read = benchmark(tmp_path, tmp_path / "m.jsonl", batch_size=1)
    assert (len(read.names), read.names[26]) == (34, "car")  # type: ignore[attr-defined]
    files = import_module("assay_payloads.training.segmentation")
    found = files.Frames([tmp_path / frames[0].label], read.colors, (32, 64), [tmp_path / frames[0].image])  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="12% of its pixels have colors that are not"):
        found[0]
    ids[ids == 40] = 0
    Image.fromarray(ids).save(tmp_path / frames[0].label)
    assert (found[0][1].numpy() == ids).all()
    with pytest.raises(InputError, match=r"learned 20 classes \(Other, .*the frames 34"):
        api.validate_data(here / "net.pt", tmp_path / "m.jsonl", tmp_path / "v", workers=1)


def test_labels_without_a_class_per_pixel_are_said(here: Path, tmp_path: Path) -> None:
    for layout, label, said in (
        ("coco", "annotations/instances_val.json#{}", "frames of layout coco, whose labels are no images"),
        ("webdataset", "0.tar#{}.cls", "0.tar#0.cls, a label of the whole image"),
    ):
        frames = [ChosenFrame(label.format(number), f"i{number}", 1, 1) for number in range(2)]
        write_manifest(tmp_path / "m.jsonl", made(str(tmp_path), layout, "all", frames))
        with pytest.raises(InputError, match=said):
            api.validate_data(here / "net.pt", tmp_path / "m.jsonl", tmp_path / "v")
        with pytest.raises(AssertionError, match=said):
            benchmark(tmp_path, tmp_path / "m.jsonl")


def test_frames_that_a_cut_shard_lost_are_named_with_what_is_wrong(tmp_path: Path) -> None:
    shard = tmp_path / "0.tar"
    with tarfile.open(shard, "w") as opened:
        for name in ("0.png", "1.png", "2.png"):
            member = tarfile.TarInfo(name)
            member.size = 600
            opened.addfile(member, io.BytesIO(bytes(600)))
    whole, one = shard.read_bytes(), 3 * 512  # header and data of each
    shard.write_bytes(whole[: 2 * one])
    files = FrameFiles("webdataset")
    assert len(files.opened(Path(f"{shard}#1.png")).read()) == 600
    with pytest.raises(FileNotFoundError, match=r"no member 2\.png; the shard has no end after its last"):
        files.opened(Path(f"{shard}#2.png"))
    shard.write_bytes(whole[: one + 1000])
    files = FrameFiles("webdataset")
    assert len(files.opened(Path(f"{shard}#0.png")).read()) == 600
    with pytest.raises(tarfile.TarError, match="is cut within member 1"):
        files.opened(Path(f"{shard}#1.png"))


@pytest.mark.long
def test_a_training_from_staged_shards_learns_from_all_chosen_frames(here: Path, tmp_path: Path) -> None:
    form = {"encoder": "resnet18", "image_size": [32, 64], "batch_size": 2, "workers": 0, "mode": "real"}
    suite = {
        "suite": "shards",
        "workload": "segmentation",
        "params": {**form, "max_epochs": 1, "eval_every": 1, "checkpoint": "kept"},
        "data": {"manifest": "s.jsonl", "to": str(tmp_path / "cache")},
        "repeats": 1,
        "systems": ["local"],
    }
    shutil.copy(here / "s.jsonl", tmp_path)
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    ran = typed(tmp_path, "run", "suite.json", "--quiet")
    assert ran.returncode == 0, ran.stderr
    near = next(path for path in (tmp_path / "cache").iterdir() if not path.name.startswith("."))
    assert parsed(near / "manifest.jsonl").layout == "webdataset"
    trained = import_module("assay_payloads.training.validator").trained(tmp_path / "kept" / "trained.pt")
    assert trained.step == 2
    assert "RD normal street" in json.loads(trained.options["class_names"])
