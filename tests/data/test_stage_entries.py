"""Frames that are entries of shards or of annotations come near with the files that hold them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from assay import api
from assay.errors import InputError
from assay.frame_manifest import write_manifest
from assay_payloads.datasets.frame_files import ReadThrough
from assay_payloads.datasets.manifest import ChosenFrame, made, parsed
from command_line import assay as typed


def shard(path: Path, *members: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as opened:
        for name in members:
            about = tarfile.TarInfo(name)
            about.size = len(name)
            opened.addfile(about, io.BytesIO(name.encode()))


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """s: two shards, of which m.jsonl names frames of the first, and a list of classes."""
    shard(tmp_path / "s" / "train" / "0.tar", "a.jpg", "a.seg.png", "b.jpg", "b.seg.png")
    shard(tmp_path / "s" / "train" / "1.tar", "c.jpg", "c.seg.png")
    (tmp_path / "s" / "classes.txt").write_text("road\ncar\n")
    frames = [ChosenFrame(f"train/0.tar#{key}.seg.png", f"train/0.tar#{key}.jpg", 9, 5) for key in ("a", "b")]
    write_manifest(tmp_path / "m.jsonl", made(str(tmp_path / "s"), "webdataset", "two", frames))
    return tmp_path / "s"


def files(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != "manifest.jsonl"
    }


def test_a_shard_with_several_chosen_members_is_copied_once_with_the_list_of_classes(
    shards: Path, tmp_path: Path
) -> None:
    done = api.stage_data(tmp_path / "m.jsonl", tmp_path / "near")
    assert (done.files, done.copied_files) == (2, 2)
    names = ("train/0.tar", "classes.txt")
    assert files(tmp_path / "near") == {name: (shards / name).read_bytes() for name in names}
    near = parsed(tmp_path / "near" / "manifest.jsonl")
    assert (near.root, near.frames[0].label) == (str(tmp_path / "near"), "train/0.tar#a.seg.png")
    again = api.stage_data(tmp_path / "m.jsonl", tmp_path / "near")
    assert (again.copied_files, again.present_files) == (0, 2)


def test_annotations_are_copied_once_for_all_images_of_them(tmp_path: Path) -> None:
    root = tmp_path / "coco"
    for name in ("annotations/instances_val.json", "val/1.jpg", "val/2.jpg", "val/3.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    frames = [ChosenFrame(f"annotations/instances_val.json#{n}", f"val/{n}.jpg", 0, 9) for n in (1, 2)]
    write_manifest(tmp_path / "m.jsonl", made(str(root), "coco", "two", frames))
    done = api.stage_data(tmp_path / "m.jsonl", tmp_path / "cache", space_bytes=1_000_000)
    assert sorted(files(Path(done.directory))) == ["annotations/instances_val.json", "val/1.jpg", "val/2.jpg"]


def test_a_cache_that_reads_through_has_only_the_list_of_classes_at_first(
    shards: Path, tmp_path: Path
) -> None:
    from assay_payloads.datasets.staging import stage

    near = tmp_path / "near"
    stage(parsed(tmp_path / "m.jsonl"), near, through=True)
    assert sorted(files(near)) == ["classes.txt"]
    ReadThrough(near, str(shards))(near / "train" / "0.tar")
    assert sorted(files(near)) == ["classes.txt", "train/0.tar"]


def test_a_shard_that_is_missing_is_named_and_shards_of_shards_are_refused(
    shards: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="stage it without --shards"):
        api.stage_data(tmp_path / "m.jsonl", tmp_path / "near", shard_bytes=1_000_000)
    (shards / "train" / "0.tar").unlink()
    said = typed(tmp_path, "data", "stage", "m.jsonl", "--to", "near")
    assert said.returncode == InputError.exit_code
    assert "has no train/0.tar;" in said.stderr
    assert json.dumps("train/0.tar#") not in said.stderr
