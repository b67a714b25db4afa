"""A catalog of labelled frames: what is counted, what is damaged, and that a kill loses nothing."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import made_a2d2
from assay import api
from assay.data.catalog import Rows, writing
from assay.data.classes import CITYSCAPES, Classes, class_list
from assay.errors import HostError, InputError
from assay_payloads.datasets import label_images
from assay_payloads.datasets.label_images import LabelImageError, counts
from assay_payloads.datasets.places import place
from command_line import assay as typed
from conftest import long_but

pytest.importorskip("pyspng")
FRAMES, HEIGHT, WIDTH = 12, 64, 96


@pytest.fixture
def a2d2(tmp_path: Path) -> Path:
    return made_a2d2.make(tmp_path / "a2d2", frames=FRAMES)


def rows(catalog: Path, sql: str) -> list[tuple[object, ...]]:
    return list(api.query_data_sql(sql, catalog=catalog).rows)


def test_every_pixel_is_counted_once_and_what_no_class_has_apart(a2d2: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "c.duckdb"
    done = api.scan_data(a2d2, catalog=catalog, processes=2)
    assert (done.total, done.read, done.damaged, done.orphans) == (FRAMES, FRAMES, 0, ())
    of_all = "pixels = unknown + car + rd_normal_street + sky + bicycle"
    assert rows(catalog, f"SELECT count(*) FROM frames WHERE {of_all}") == [(FRAMES,)]
    for number in (0, 7):
        label = made_a2d2.file(a2d2, number, "label")
        pixels = np.asarray(Image.open(label)).reshape(-1, 3)
        expected = tuple(int((pixels == c).all(axis=1).sum()) for c in (made_a2d2.SKY, made_a2d2.STREET))
        name = label.relative_to(a2d2).as_posix()
        ((sky, street, unknown, camera, scene),) = rows(
            catalog,
            f"SELECT sky, rd_normal_street, unknown, camera, scene FROM frames WHERE label = '{name}'",
        )
        assert (sky, street, unknown) == (*expected, made_a2d2.UNKNOWN_PIXELS)
        assert (camera, scene) == (made_a2d2.CAMERA, made_a2d2.SCENES[number % 2])


def test_only_what_is_new_or_changed_is_read_again(a2d2: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "c.duckdb"
    api.scan_data(a2d2, catalog=catalog)
    again = api.scan_data(a2d2, catalog=catalog)
    assert (again.read, again.unchanged) == (0, FRAMES)
    changed, gone = made_a2d2.file(a2d2, 1, "label"), made_a2d2.file(a2d2, 2, "label")
    Image.new("RGB", (WIDTH, HEIGHT), made_a2d2.SKY).save(changed)
    gone.unlink()
    later = api.scan_data(a2d2, catalog=catalog)
    assert (later.read, later.unchanged, later.vanished) == (1, FRAMES - 2, 1)
    assert later.orphans == (made_a2d2.file(a2d2, 2, "camera").relative_to(a2d2).as_posix(),)
    assert rows(catalog, "SELECT count(*) FROM frames WHERE sky = pixels") == [(1,)]
    assert rows(catalog, "SELECT count(*), count(DISTINCT label) FROM frames") == [(FRAMES - 1, FRAMES - 1)]


def test_what_cannot_be_counted_is_kept_by_name_and_reason_until_it_is_mended(
    a2d2: Path, tmp_path: Path
) -> None:
    catalog, label = tmp_path / "c.duckdb", [made_a2d2.file(a2d2, number, "label") for number in range(8)]
    whole = label[0].read_bytes()
    label[0].write_bytes(whole[:-40])
    label[1].write_bytes(b"")
    label[2].write_text("not an image")
    Image.new("P", (WIDTH, HEIGHT)).save(label[3])
    label[4].write_bytes(png(WIDTH, HEIGHT, bits=16))
    Image.new("RGB", (WIDTH, HEIGHT + 1), made_a2d2.SKY).save(label[5])
    label[6].write_bytes(png(60_000, 60_000))
    made_a2d2.file(a2d2, 7, "camera").unlink()
    done = api.scan_data(a2d2, catalog=catalog)
    assert (done.read, done.damaged) == (FRAMES, 8)
    found = dict(rows(catalog, "SELECT label, why FROM damaged"))
    reasons = [str(found[path.relative_to(a2d2).as_posix()]) for path in label]
    for reason, said in zip(
        reasons,
        (
            *("is damaged", "is empty", "is not a PNG", "has a palette", "16 bits per channel"),
            *("96 × 65 pixels, but its image 96 × 64", "claims 60000 × 60000 pixels", "has no image"),
        ),
        strict=True,
    ):
        assert said in reason
    assert rows(catalog, "SELECT count(*) FROM frames") == [(FRAMES - 8,)]
    label[0].write_bytes(whole)
    assert api.scan_data(a2d2, catalog=catalog).read == 1
    assert rows(catalog, "SELECT count(*) FROM frames") == [(FRAMES - 7,)]


def fill(path: Path, classes: Classes, added: list[str]) -> None:
    """Add frames to a catalog until it can't be written; `added` gets those that were committed."""
    with writing(path, Path("/data"), "a2d2", classes) as catalog:
        while len(added) < 50_000:
            names = [f"s/label/x/{len(added) + number}.png" for number in range(500)]
            own = [[name, name, "s", "x", None, 9, 9, 81, 1, 1, 1, 0] for name in names]
            counts = [[hash((name, column)) % 2**31 for column in classes.columns] for name in names]
            catalog.add(Rows([[*a, *b] for a, b in zip(own, counts, strict=True)]))
            added += names


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_said_and_the_next_scan_resumes(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(small)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    columns = tuple(f"c{number}" for number in range(38))
    classes, added = Classes(columns, columns, {}), list[str]()
    try:
        with pytest.raises(HostError, match=r"c\.duckdb: can't be written: .*No space left.* again"):
            fill(small / "c.duckdb", classes, added)
        subprocess.run(["mount", "-o", "remount,size=50m", str(small)], check=True)
        with writing(small / "c.duckdb", Path("/data"), "a2d2", classes) as catalog:
            assert catalog.known().keys() == set(added)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def png(width: int, height: int, bits: int = 8) -> bytes:
    """A PNG of a few bytes that claims to be so large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 100)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("kills", long_but(1, [3, 10]))
def test_killed_at_any_moment_the_next_scan_has_all_of_it(tmp_path: Path, kills: int) -> None:
    root, catalog = made_a2d2.make(tmp_path / "a2d2", frames=240), tmp_path / "c.duckdb"
    whole = tmp_path / "whole.duckdb"
    api.scan_data(root, catalog=whole)
    (tmp_path / "scan.py").write_text(
        "import assay.data.scanning as s\n"
        "from assay import api\n"
        "if __name__ == '__main__':\n"
        "    s.ADDED_AT_ONCE = s.IN_A_TASK = 4\n"
        "    tell = lambda scan: print(scan.read, flush=True)\n"
        f"    api.scan_data({str(root)!r}, catalog={str(catalog)!r}, processes=1, tell=tell)\n"
    )
    chance = random.Random(5)
    for _ in range(kills):
        scan = subprocess.Popen(
            [sys.executable, str(tmp_path / "scan.py")], start_new_session=True, stdout=subprocess.PIPE
        )
        assert scan.stdout is not None
        for _ in range(chance.randint(0, 5)):  # answers of the worker, four frames each
            assert scan.stdout.readline(), "the scan ended before it was killed"
        time.sleep(chance.uniform(0, 0.02))
        os.killpg(scan.pid, signal.SIGKILL)
        scan.wait()
        scan.stdout.close()
    last = api.scan_data(root, catalog=catalog)
    assert 0 < last.read < last.total + last.unchanged == 240
    everything = "SELECT * FROM frames ORDER BY label"
    assert rows(catalog, everything) == rows(whole, everything)
    api.scan_data(root, catalog=catalog, parquet=tmp_path / "a.parquet", processes=1)
    api.scan_data(root, catalog=whole, parquet=tmp_path / "b.parquet", processes=2)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_catalog_is_of_one_data_set_and_one_version(a2d2: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "c.duckdb"
    api.scan_data(a2d2, catalog=catalog)
    other = made_a2d2.make(tmp_path / "other", frames=2)
    with pytest.raises(InputError, match=r"its directory is .*a2d2, but that of the data to scan is .*other"):
        api.scan_data(other, catalog=catalog)
    (tmp_path / "text.duckdb").write_text("hello " * 1000)
    with pytest.raises(InputError, match="is not a catalog"):
        api.scan_data(a2d2, catalog=tmp_path / "text.duckdb")
    import duckdb

    with duckdb.connect(str(catalog)) as connection:
        connection.execute("UPDATE about SET version = 7")
    for use in (lambda: api.class_shares(catalog=catalog), lambda: api.scan_data(a2d2, catalog=catalog)):
        with pytest.raises(
            InputError, match="catalog of version 7, and this Assay reads version 2: scan again"
        ):
            use()
    with pytest.raises(InputError, match="no such catalog; make it with `assay data scan"):
        api.class_shares(catalog=tmp_path / "none.duckdb")


@pytest.mark.long
def test_a_catalog_of_version_1_is_upgraded_by_a_scan_that_reads_no_frame_again(
    a2d2: Path, tmp_path: Path
) -> None:
    import duckdb

    catalog = tmp_path / "c.duckdb"
    api.scan_data(a2d2, catalog=catalog)
    before = rows(catalog, "FROM frames ORDER BY label")
    with duckdb.connect(str(catalog)) as connection:  # as version 1 was
        connection.execute("UPDATE about SET version = 1")
        for table in ("extra", "joined_from"):
            connection.execute(f"DROP TABLE {table}")
    with pytest.raises(InputError, match=r"version 1, .*: `assay data scan .*a2d2 --catalog .*` upgrades it"):
        api.class_shares(catalog=catalog)
    done = api.scan_data(a2d2, catalog=catalog)
    assert (done.read, done.unchanged) == (0, FRAMES)
    assert rows(catalog, "FROM frames ORDER BY label") == before


def test_links_out_of_the_data_set_are_not_followed(a2d2: Path, tmp_path: Path) -> None:
    outside = made_a2d2.make(tmp_path / "outside", frames=2)
    scene = a2d2 / "20990101_000000"
    scene.symlink_to(outside / made_a2d2.SCENES[0])
    label = made_a2d2.file(a2d2, 99, "label")
    label.symlink_to(made_a2d2.file(outside, 1, "label"))
    assert api.scan_data(a2d2, catalog=tmp_path / "c.duckdb").total == FRAMES


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ('{"#ff0000": "Car 1", "#FF0000": "Car 2"}', "#ff0000 is there twice"),
        ('{"red": "Car 1"}', "found the color 'red'"),
        ('{"#ff0000": 3}', "found 3; expected the name of a class"),
        ("[1]", "found no table"),
        ("{", "is not JSON"),
        ("{}", "found no table"),
    ],
)
def test_a_list_of_classes_that_is_none_is_refused(tmp_path: Path, listed: str, said: str) -> None:
    (tmp_path / "class_list.json").write_text(listed)
    with pytest.raises(InputError, match=said):
        class_list(place(str(tmp_path)), "class_list.json")


def test_classes_become_words_each_once(tmp_path: Path) -> None:
    names = ("Obstacles / trash", "obstacles trash", "2 wheels x", "Image")
    listed = {f"#00000{number}": name for number, name in enumerate(names)}
    (tmp_path / "class_list.json").write_text(json.dumps(listed))
    found = class_list(place(str(tmp_path)), "class_list.json")
    assert found.columns == ("obstacles_trash", "obstacles_trash_2", "class_2_wheels_x", "image_2")
    listed = {"#000001": "  Poles  1 ", "#000002": "Poles 2", "#000003": "Poles"}
    (tmp_path / "class_list.json").write_text(json.dumps(listed))
    assert class_list(place(str(tmp_path)), "class_list.json").names == ("Poles",)


def test_cityscapes_labels_are_counted_by_their_ids(tmp_path: Path) -> None:
    ids = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    ids[:10], ids[10:] = CITYSCAPES.index("sky"), CITYSCAPES.index("road")
    ids[0, 0] = 200
    root = tmp_path / "cityscapes"
    for folder, kind, image in (
        ("gtFine", "gtFine_labelIds", Image.fromarray(ids)),
        ("leftImg8bit", "leftImg8bit", Image.new("RGB", (WIDTH, HEIGHT))),
    ):
        (root / folder / "train/bonn").mkdir(parents=True)
        image.save(root / folder / f"train/bonn/bonn_000001_000019_{kind}.png")
    done = api.scan_data(root, catalog=tmp_path / "c.duckdb")
    assert (done.read, done.damaged, done.orphans) == (1, 0, ())
    sql = "SELECT scene, sky, road, unknown, car FROM frames"
    assert rows(tmp_path / "c.duckdb", sql) == [("train/bonn", 10 * WIDTH - 1, (HEIGHT - 10) * WIDTH, 1, 0)]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["RGB", "RGBA", "L"]))
def test_counts_are_those_of_the_pixels(seed: int, kind: str) -> None:

    chance = np.random.default_rng(seed)
    height, width = chance.integers(1, 20, 2)
    palette = chance.integers(0, 256, (int(chance.integers(1, 6)), {"RGB": 3, "RGBA": 4, "L": 1}[kind]))
    if kind == "RGBA":
        palette[:, 3] = 255
    pixels = palette[chance.integers(0, len(palette), (height, width))].astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if kind == "L" else pixels).save(file, "PNG")
    size, found = counts(file.getvalue())
    assert (size.width, size.height) == (width, height)
    expected: dict[int, int] = {}
    for pixel in pixels.reshape(height * width, -1):
        colour = int(pixel[0]) if kind == "L" else int(pixel[0]) << 16 | int(pixel[1]) << 8 | int(pixel[2])
        expected[colour] = expected.get(colour, 0) + 1
    assert found == expected


@given(st.binary(max_size=200), st.integers(0, 199))
def test_no_bytes_are_an_accident(noise: bytes, at: int) -> None:
    whole = png(4, 4)
    for data in (noise, whole[:at] + noise, whole[:at] + noise + whole[at + len(noise) :]):
        try:
            size, found = counts(data)
        except LabelImageError:
            continue
        assert sum(found.values()) == size.width * size.height


@pytest.mark.long
def test_typed_with_damage_and_without_a_data_set(a2d2: Path, tmp_path: Path) -> None:
    done = typed(tmp_path, "data", "scan", "a2d2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 frames read in" in done.stdout
    made_a2d2.file(a2d2, 3, "label").write_bytes(b"x")
    done = typed(tmp_path, "data", "scan", "a2d2", "--json")
    assert done.returncode == 1
    (damaged,) = json.loads(done.stdout)["damaged_frames"]
    assert damaged["why"] == "is not a PNG"
    done = typed(tmp_path, "data", "scan", ".")
    assert done.returncode == 4
    assert "it has a2d2/, which is A2D2's: scan that" in done.stderr


def chunked(width: int, height: int, rows: bytes, *, cut: int = 0, spoilt: bool = False) -> bytes:
    """A PNG of grey values with these compressed rows."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data) ^ spoilt * (kind == b"IDAT")
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(rows)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", packed[: len(packed) - cut]), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_a_label_that_inflates_to_more_than_it_claims_is_not_inflated() -> None:
    assert counts(chunked(4, 2, b"\0aaaa\0aaab"))[1] == {97: 7, 98: 1}
    bomb = chunked(4, 2, b"\0" * 50_000_000)
    tracemalloc.start()
    with pytest.raises(LabelImageError, match="is damaged: 11 bytes of pixels, expected 10"):
        counts(bomb)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000
    for damaged, said in (
        (chunked(4, 2, b"\0aaaa"), "5 bytes of pixels, expected 10"),
        (chunked(4, 2, b"\0aaaa\0aaab", cut=5), "is damaged"),
        (chunked(4, 2, b"\0aaaa\0aaab", spoilt=True), "its checksum differs"),
        (chunked(4, 2, b"\0aaaa\0aaab")[:-12], "it is cut before its end"),
    ):
        with pytest.raises(LabelImageError, match=said):
            counts(damaged)


def test_colors_that_differ_only_by_alpha_are_one() -> None:
    pixels = np.zeros((3, 4, 4), dtype=np.uint8)
    pixels[..., 0], pixels[..., 3] = 255, np.arange(12).reshape(3, 4)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    assert counts(file.getvalue())[1] == {0xFF0000: 12}


def test_counts_are_the_same_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(2).integers(0, 3, (30, 50, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    found = counts(file.getvalue())
    monkeypatch.setattr(label_images, "isal_zlib", None)
    assert counts(file.getvalue()) == found


def test_a_name_that_is_not_utf8_is_a_damaged_frame_and_the_rest_is_scanned(tmp_path: Path) -> None:
    root = made_a2d2.make(tmp_path / "a2d2", frames=4)
    scene = root / made_a2d2.SCENES[0]
    (scene / "label" / "cam_front_left").mkdir()
    (scene / "camera" / "cam_front_left").mkdir()
    for kind in ("label", "camera"):
        name = f"x_{kind}_1\udcff.png"
        shutil.copy(made_a2d2.file(root, 0, kind), scene / kind / "cam_front_left" / name)
    for _ in range(2):
        done = api.scan_data(root, catalog=tmp_path / "c.duckdb", processes=1)
    assert (done.total, done.unchanged) == (0, 5)
    rows = api.query_data_sql("SELECT label, why FROM damaged", catalog=tmp_path / "c.duckdb").rows
    assert [(label.endswith(r"x_label_1\udcff.png"), why) for label, why in rows] == [
        (True, "has a name that is not UTF-8; rename it")
    ]
    assert len(api.query_data(catalog=tmp_path / "c.duckdb").frames) == 4
