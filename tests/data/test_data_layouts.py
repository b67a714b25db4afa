"""COCO, ImageFolder and webdataset's shards in a catalog: what is counted, and what is refused by name."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from assay import api
from assay.data import coco_layout
from assay.data.catalog import reading
from assay.data.frames import Files, FoundFrame
from assay.data.layouts import layout_of
from assay.data.scanning import FramesToRead, Row, read_frames
from assay.errors import InputError
from assay_payloads.datasets.manifest import file_of
from assay_payloads.datasets.places import place

rle = pytest.importorskip("pycocotools.mask")
pytest.importorskip("pyspng")
HEIGHT, WIDTH = 40, 60


def scanned(root: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str], list[str]]:
    """Frames by label, damaged files with their reasons, and orphans: without a catalog and its processes."""
    there = place(str(root))
    files: Files = dict(there.files())
    layout = layout_of(there, files)
    found = layout.find(there, files, lambda _: None)
    rows: list[Row] = read_frames(FramesToRead(there.address, layout.name, found.classes, found.frames))
    names = (
        "label",
        "image",
        "scene",
        "camera",
        "taken_us",
        "width",
        "height",
        "pixels",
        "label_bytes",
        "image_bytes",
        "changed_ns",
        "unknown",
        *found.classes.columns,
        *(one.name for one in layout.extra),
    )
    frames = {str(row[0]): dict(zip(names, row, strict=True)) for row in rows if isinstance(row, list)}
    for frame in frames.values():
        assert sum(frame[name] for name in ("unknown", *found.classes.columns)) == frame["pixels"]
    return frames, {row[0]: row[1] for row in rows if isinstance(row, tuple)}, list(found.orphans)


def picture(path: Path, width: int = WIDTH, height: int = HEIGHT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded("JPEG", width, height))


def encoded(kind: str, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (9, 9, 9)).save(file, kind)
    return file.getvalue()


def box(left: int, top: int, right: int, bottom: int) -> list[list[float]]:
    """A rectangle as a polygon."""
    return [[left, top, right, top, right, bottom, left, bottom]]


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """Image 1: a car over a road, a crowd below both; image 2: nothing; image 3: missing."""
    root = tmp_path / "coco"
    for number in (1, 2, 9):
        picture(root / f"val/{number}.jpg")
    crowd = np.zeros((HEIGHT, WIDTH), dtype=np.uint8, order="F")
    crowd[:, :5] = 1
    compressed = rle.encode(crowd)
    annotations = [
        {"image_id": 1, "category_id": 7, "segmentation": box(0, 20, 60, 40)},  # 1200 pixels of road
        {
            "image_id": 1,
            "category_id": 3,
            "segmentation": box(10, 25, 20, 35),
            "iscrowd": 0,
        },  # 100, on the road
        {
            "image_id": 1,
            "category_id": 9,
            "iscrowd": 1,
            "segmentation": {"size": [HEIGHT, WIDTH], "counts": compressed["counts"].decode()},
        },
        {"image_id": 1, "category_id": 9, "bbox": [50, 0, 4, 5]},
        {"image_id": 1, "category_id": 99, "bbox": [55, 0, 1, 1]},  # no such category
        {"image_id": 5, "category_id": 3, "bbox": [0, 0, 1, 1]},  # no such image
    ]
    whole = {
        "categories": [{"id": 7, "name": "road"}, {"id": 3, "name": "car"}, {"id": 9, "name": "people"}],
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": WIDTH, "height": HEIGHT} for n in (1, 2, 3)],
        "annotations": annotations,
    }
    (root / "annotations").mkdir()
    (root / "annotations/instances_val.json").write_text(json.dumps(whole))
    return root


def test_each_pixel_of_coco_counts_once_the_smaller_object_over_the_larger(coco: Path) -> None:
    frames, damaged, orphans = scanned(coco)
    one, two = (frames[f"annotations/instances_val.json#{n}"] for n in (1, 2))
    assert (one["road"], one["car"], one["people"], one["unknown"]) == (1100, 100, 5 * 20 + 20, 1)
    assert one["background"] == HEIGHT * WIDTH - 1200 - 120 - 1
    assert (one["objects"], one["overlaps"]) == (5, 100 + 5 * 20)
    assert (one["image"], one["scene"]) == ("val/1.jpg", "val")
    assert (two["background"], two["objects"]) == (HEIGHT * WIDTH, 0)
    assert damaged == {
        "annotations/instances_val.json#3": "has no image '3.jpg'",
        "annotations/instances_val.json#5": "has 1 annotations, but is not one of the images",
    }
    assert orphans == ["val/9.jpg"]


def test_a_catalog_of_coco_is_asked_chosen_from_and_scanned_again(coco: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "c.duckdb"
    assert api.scan_data(coco, catalog=catalog, processes=1).damaged == 2
    chosen = api.query_data("overlaps > 100 and car > 1%", catalog=catalog)
    (frame,) = chosen.frames
    assert (frame.label, frame.image) == ("annotations/instances_val.json#1", "val/1.jpg")
    assert file_of(chosen.layout, frame.label) == "annotations/instances_val.json"
    again = api.scan_data(coco, catalog=catalog, processes=1)
    assert (again.read, again.unchanged) == (0, 4)
    with pytest.raises(InputError, match="objects is no number of pixels of a class"):
        api.query_data("objects > 1%", catalog=catalog)


@pytest.mark.parametrize(
    ("segmentation", "said"),
    [
        ({"size": [40, 60], "counts": [5]}, "an RLE of 5 pixels; expected 2400"),
        ({"size": [40, 60], "counts": [10**12]}, "counts are not numbers of pixels"),
        ({"size": [40, 60], "counts": "~~~~~~"}, "an RLE"),
        ({"size": [60, 40], "counts": [0, 2400]}, "an RLE of .60, 40."),
        ([[0, 0, 1e9, 0, 1e9, 1e9]], "a polygon far outside"),
        ([[0, 0, 1, 1]], "a polygon of 2 corners"),
        ([[0, 0, "x", 1, 2, 2]], "a polygon that is not a list"),
        ([7], "a polygon that is not a list"),
        ("words", "neither a mask nor a box"),
    ],
)
def test_a_mask_that_makes_no_sense_damages_its_frame_alone(
    coco: Path, segmentation: object, said: str
) -> None:
    file = coco / "annotations/instances_val.json"
    whole = json.loads(file.read_text())
    whole["annotations"] = [{"image_id": 1, "category_id": 3, "segmentation": segmentation}]
    file.write_text(json.dumps(whole))
    frames, damaged, _ = scanned(coco)
    assert set(frames) == {"annotations/instances_val.json#2"}
    assert np.any([said.replace(".60, 40.", "[60, 40]") in why for why in damaged.values()]), damaged


@given(st.integers(0, 2**32 - 1))
def test_run_lengths_are_those_of_pycocotools(seed: int) -> None:
    chance = np.random.default_rng(seed)
    mask = np.asfortranarray(chance.random((9, 13)) < chance.random(), dtype=np.uint8)
    counts = coco_layout._run_lengths(rle.encode(mask)["counts"].decode(), mask.size)
    there = np.repeat(np.arange(len(counts)) % 2, counts).reshape(13, 9).T
    assert (there == mask).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not COCO's annotations"),
        ('{"images": [], "categories": [], "annotations": []}', "has no categories"),
        (
            '{"images": [], "categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}',
            "category 1 is 'b', and",
        ),
        ('{"images": [{"id": "x"}], "categories": []}', "is not COCO's annotations"),
    ],
)
def test_annotations_that_are_none_are_refused(coco: Path, text: str, said: str) -> None:
    (coco / "annotations/instances_val.json").write_text(text)
    with pytest.raises(InputError, match=said):
        scanned(coco)


def test_an_image_folder_has_a_class_per_directory(tmp_path: Path) -> None:
    root = tmp_path / "images"
    for name in (
        "train/cat/a.jpg",
        "train/cat/deep/b.png",
        "train/dog/c.JPEG",
        "val/dog/d.jpg",
        "val/loose.jpg",
    ):
        picture(root / name)
    (root / "train/cat/e.jpg").write_bytes(b"")
    (root / "train/cat/f.jpg").write_bytes(b"not an image")
    (root / "train/cat/g.jpg").symlink_to(root / "train/cat/a.jpg")
    (root / "train/cat/notes.txt").write_text("hello")
    frames, damaged, orphans = scanned(root)
    assert {name: (one["cat"], one["dog"], one["scene"]) for name, one in frames.items()} == {
        "train/cat/a.jpg": (2400, 0, "train"),
        "train/cat/deep/b.png": (2400, 0, "train"),
        "train/dog/c.JPEG": (0, 2400, "train"),
        "val/dog/d.jpg": (0, 2400, "val"),
    }
    assert damaged == {
        "train/cat/e.jpg": "its image is empty",
        "train/cat/f.jpg": "its image has no header of an image",
    }
    assert orphans == ["val/loose.jpg"]
    flat, _, _ = scanned(root / "train")
    assert {one["scene"] for one in flat.values()} == {""}


def label_png(values: Mapping[int, int], width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """A grey label whose first pixels have these values."""
    pixels = np.zeros(height * width, dtype=np.uint8)
    at = 0
    for value, count in values.items():
        pixels[at : at + count] = value
        at += count
    file = io.BytesIO()
    Image.fromarray(pixels.reshape(height, width)).save(file, "PNG")
    return file.getvalue()


def add(shard: tarfile.TarFile, name: str, data: bytes = b"", **about: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for key, value in about.items():
        setattr(member, key, value)
    shard.addfile(member, io.BytesIO(data))


def test_shards_of_label_images_are_counted_and_harmful_members_refused_by_name(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    root.mkdir()
    (root / "classes.txt").write_text("nothing\nroad\ncar\n")
    jpeg = encoded("JPEG")
    with tarfile.open(root / "s-0.tar", "w") as shard:
        add(shard, "a/1.jpg", jpeg)
        add(shard, "a/1.png", label_png({1: 100, 2: 50, 7: 3}))
        add(shard, "a/1.json", b'{"scene": "s", "camera": "front", "cam_tstamp": 1533646228000000}')
        add(shard, "2.camera.png", encoded("PNG"))
        add(shard, "2.label.png", label_png({1: 7}, width=WIDTH - 1))
        add(shard, "3.png", encoded("PNG"))  # an image alone
        add(shard, "4.seg.png", label_png({}))
        add(shard, "../5.jpg", jpeg)
        add(shard, "/6.jpg", jpeg)
        add(shard, "7.jpg", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        add(shard, "8.jpg", type=tarfile.LNKTYPE, linkname="a/1.jpg")
        add(shard, "9.jpg", type=tarfile.FIFOTYPE)
        add(shard, "README")
    frames, damaged, orphans = scanned(root)
    (one,) = frames.values()
    assert (one["label"], one["image"]) == ("s-0.tar#a/1.png", "s-0.tar#a/1.jpg")
    assert (one["road"], one["car"], one["unknown"], one["nothing"]) == (100, 50, 3, HEIGHT * WIDTH - 153)
    assert (one["scene"], one["camera"], one["taken_us"]) == ("s", "front", 1533646228000000)
    assert orphans == ["s-0.tar#3.png"]
    assert damaged == {
        "s-0.tar#2.label.png": "has 59 × 40 pixels, but its image 60 × 40",
        "s-0.tar#4.seg.png": "has no image",
        "s-0.tar#../5.jpg": "leads out of the shard; expected a relative name",
        "s-0.tar#/6.jpg": "leads out of the shard; expected a relative name",
        "s-0.tar#7.jpg": "is a link; expected a plain file",
        "s-0.tar#8.jpg": "is a link; expected a plain file",
        "s-0.tar#9.jpg": "is no plain file; expected only those",
    }
    assert file_of("webdataset", one["label"]) == "s-0.tar"


def test_shards_with_classes_are_cut_or_bombs_and_the_rest_is_read(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    (root / "val").mkdir(parents=True)
    jpeg = encoded("JPEG")
    with tarfile.open(root / "train-0.tar", "w") as shard:
        for key, class_ in (("1", b"3\n"), ("2", b"11"), ("3", b"")):
            add(shard, f"{key}.jpg", jpeg)
            add(shard, f"{key}.cls", class_)
        add(shard, "4.jpg", jpeg)
        add(shard, "4.json", b'{"label": 3}')
        add(
            shard,
            "5.jpg",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\10\2\0\0\0abcd",
        )
        add(shard, "5.cls", b"3")
    whole = (root / "train-0.tar").read_bytes()
    (root / "val/cut.tar").write_bytes(whole[: 512 + 100])
    (root / "val/none.tar").write_bytes(b"hello" * 300)
    bomb = tarfile.TarInfo("x" * 300)  # a name that takes a header of its own
    header = bytearray(bomb.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header[:512]):06o}\0 ".encode()
    (root / "val/bomb.tar").write_bytes(bytes(header) + whole)
    frames, damaged, _ = scanned(root)
    assert {name: (one["class_3"], one["class_11"]) for name, one in frames.items()} == {
        "train-0.tar#1.cls": (2400, 0),
        "train-0.tar#2.cls": (0, 2400),
        "train-0.tar#4.json": (2400, 0),
    }
    assert damaged["train-0.tar#3.cls"] == "has the class '', which is none of the 2"
    assert "claims 60000 × 60000 pixels" in damaged["train-0.tar#5.cls"]
    assert "it is cut" in damaged["val/cut.tar#1.jpg"]
    assert "is not a whole tar file" in damaged["val/none.tar"]
    assert "a header claims 8,589,934,592 bytes" in damaged["val/bomb.tar"]


def test_a_shard_that_was_cut_between_members_is_named_and_its_whole_samples_count(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    root.mkdir()
    with tarfile.open(root / "whole.tar", "w") as shard:
        ends = []
        for key in ("1", "2", "3"):
            add(shard, f"{key}.cls", b"cat")
            add(shard, f"{key}.jpg", encoded("JPEG"))
            ends.append(shard.offset)
    whole = (root / "whole.tar").read_bytes()
    spoilt = bytearray(whole)
    spoilt[ends[1]] ^= 1
    for name, content in {
        "boundary": whole[: ends[1]],
        "midheader": whole[: ends[1] + 200],
        "no-end": whole[: ends[2]],
        "short-end": whole[: ends[2] + 512],  # one block of zeros: nothing is missing
        "spoilt": bytes(spoilt),
        "joined": whole + whole,
    }.items():
        (root / f"{name}.tar").write_bytes(content)
    frames, damaged, _ = scanned(root)
    counts = Counter(name.partition(".tar")[0] for name in frames)
    assert counts == {
        "whole": 3, "boundary": 2, "midheader": 2, "no-end": 3, "short-end": 3, "spoilt": 2, "joined": 3
    }  # fmt: skip
    cut = dict.fromkeys(("boundary", "midheader", "no-end"), "no end after its last whole member")
    expected = {**cut, "spoilt": f"damaged header at byte {ends[1]:,}", "joined": "goes on after its end"}
    assert damaged.keys() == {f"{name}.tar" for name in expected}
    for name, why in expected.items():
        assert why in damaged[f"{name}.tar"]


def test_a_shard_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    root.mkdir()
    for number in range(2):
        with tarfile.open(root / f"{number}.tar", "w") as shard:
            add(shard, "1.jpg", encoded("JPEG"))
            add(shard, "1.cls", b"cat")
    catalog = tmp_path / "c.duckdb"
    assert api.scan_data(root, catalog=catalog, processes=1).read == 2
    assert api.scan_data(root, catalog=catalog, processes=1).read == 0
    with reading(catalog) as opened:
        assert opened.about.names == ("cat",)
    (root / "1.tar").unlink()
    done = api.scan_data(root, catalog=catalog, processes=1)
    assert (done.read, done.vanished) == (0, 1)


def test_label_images_of_shards_need_the_meaning_of_their_values(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "1.tar", "w") as shard:
        add(shard, "1.jpg", encoded("JPEG"))
        add(shard, "1.png", label_png({1: 4}))
    with pytest.raises(InputError, match=r"put class_list.json .* or classes\.txt"):
        scanned(tmp_path)


def test_a_place_of_no_known_layout_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(InputError, match=r"found no known data set; expected .*A2D2.*COCO.*webdataset"):
        scanned(tmp_path)
    with pytest.raises(InputError, match="can't be read: No such file"):
        api.scan_data(tmp_path / "none", catalog=tmp_path / "c.duckdb")


def test_an_entry_is_in_its_file() -> None:
    frame = FoundFrame("train/s.tar#1.png", "", "", "", 0, 0, 0)
    assert file_of("webdataset", frame.label) == "train/s.tar"
    assert file_of("imagefolder", "a#b/1.jpg") == "a#b/1.jpg"


@pytest.mark.parametrize("kind", [b"L", b"x"])
def test_a_shard_of_headers_without_a_member_is_named_as_damaged(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = kind, 10
    block = header.tobuf(tarfile.GNU_FORMAT) + b"8 a=bcd\n\n".ljust(512, b"\0")
    (tmp_path / "0.tar").write_bytes(block * 20_000 + bytes(1024))
    with pytest.raises(InputError, match=r"0.tar: has hundreds of headers in a row"):
        scanned(tmp_path)
    with tarfile.open(tmp_path / "1.tar", "w") as shard:
        add(shard, "1.jpg", encoded("JPEG"))
        add(shard, "1.cls", b"cat")
    frames, damaged, _ = scanned(tmp_path)
    assert [*frames] == ["1.tar#1.cls"]
    assert damaged == {"0.tar": "has hundreds of headers in a row that have no member: it is damaged"}


UNUSABLE = {
    "cls": {b"7" * 5000: "has a .cls of 5,000 bytes"},
    "json": {
        b"[" * 200_000: "has a .json that is not a JSON object",
        b'{"label": 1e400}': "has a .json with the class inf; expected a name or a number",
        b'{"label": [1]}': "has a .json with the class [1]; expected a name or a number",
        b'{"label": 1' + b"0" * 5000 + b"}": "has a .json that is not a JSON object",
    },
}


@pytest.mark.parametrize(
    ("kind", "content", "why"), [(kind, *one) for kind, of in UNUSABLE.items() for one in of.items()]
)
def test_a_member_that_does_not_state_the_class_is_named(
    tmp_path: Path, kind: str, content: bytes, why: str
) -> None:
    with tarfile.open(tmp_path / "0.tar", "w") as shard:
        add(shard, "1.jpg", encoded("JPEG"))
        add(shard, f"1.{kind}", content)
    with pytest.raises(InputError) as refused:
        scanned(tmp_path)
    assert [str(one) for one in refused.value.problems] == [f"0.tar#1: {why}"]
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    assert scanned(tmp_path) == ({}, {f"0.tar#1.{kind}": why}, [])


def test_more_classes_than_a_table_has_columns_are_refused_before_an_image_is_read(tmp_path: Path) -> None:
    many = [{"id": number, "name": f"c{number}"} for number in range(4001)]
    (tmp_path / "annotations").mkdir()
    instances = tmp_path / "annotations/instances_val.json"
    instances.write_text(json.dumps({"images": [], "categories": many}))
    with pytest.raises(InputError, match=r"instances_val.json: has 4,001 categories; expected at most 4,000"):
        scanned(tmp_path)
    colors = {f"#{number:06x}": f"c {number}c" for number in range(4001)}
    instances.unlink()
    (tmp_path / "class_list.json").write_text(json.dumps(colors))
    with pytest.raises(InputError, match=r"class_list.json: has 4,001 classes; expected at most 4,000"):
        scanned(tmp_path)


def test_a_large_shard_reports_how_far_it_was_looked_at(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "0.tar", "w") as shard:
        for number in range(1000):
            add(shard, f"{number}.cls", b"1")
    seen: list[int] = []
    api.scan_data(
        tmp_path, catalog=tmp_path / "c.duckdb", processes=1, tell=lambda scan: seen.append(scan.members)
    )
    assert seen[0] == 1000
    assert set(seen[1:]) == {0}
