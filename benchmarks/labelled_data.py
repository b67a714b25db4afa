"""Labelled data: pixels counted per core, questions to a large catalog, and staging, next to others.

Counting is compared with Pillow and NumPy's unique, and with the same without isal; a question with the same
one to Parquet and to a table per class; staging with `cp` and, where they are installed, rsync and rclone.
Staging waits for the disk and reads each file back to compare it; the others don't, unless a second pass of
rsync compares checksums. Shards of the same frames are compared with `tar`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from options import absent, parse, sized
from paired import in_turn, ratio, wall_s

from assay import api
from assay.data.catalog import FIXED
from assay.frame_manifest import write_manifest
from assay_payloads.datasets.label_images import HEADER_BYTES

HEIGHT, WIDTH = 1208, 1920  # of A2D2
FRAMES, MILLION_ROWS, PAIRS, STAGED = 48, 10.0, 10, 200
QUICK = {"frames": 16, "pairs": 5, "staged": 60}
IMAGE_BYTES = 2_500_000  # of a camera's image; a scan reads no more than its header
COLOURS = {0xFF0000: "Car 1", 0xFF00FF: "RD normal street", 0x87CEFF: "Sky", 0xB65906: "Bicycle 1"}
QUESTION = "road_blocks > 1% and camera = cam_front_center"
COLUMNS = ("car", "bicycle", "pedestrian", "road_blocks", "rd_normal_street", "sky")
SQL = "SELECT count(*) FROM {} WHERE road_blocks > 0.01 * pixels AND camera = 'cam_front_center'"


def main() -> None:
    """Print speeds and ratios."""
    options = parse(
        sized(
            __doc__,
            QUICK,
            frames=(FRAMES, 4, "labels that are counted"),
            million_rows=(MILLION_ROWS, 0.01, "frames of the catalog that is asked"),
            staged=(STAGED, 4, "frames that are staged"),
            pairs=(PAIRS, 2, "times that each runs"),
        )
    )
    try:
        import pyspng  # noqa: F401
    except ImportError:
        absent("pyspng, of the extra `data`")
    with tempfile.TemporaryDirectory() as name:
        labels = [label(np.random.default_rng(seed)) for seed in range(options.frames)]
        counting(labels, options.pairs)
        asking(Path(name), round(options.million_rows * 1e6), options.pairs)
        staging(Path(name), labels, options.staged, options.pairs)


def label(chance: np.random.Generator) -> bytes:
    """A label of A2D2's size: streets, sky, and some hundred objects, as a PNG."""
    from PIL import Image

    pixels = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    colours = [tuple(value.to_bytes(3, "big")) for value in COLOURS]
    pixels[: HEIGHT // 2], pixels[HEIGHT // 2 :] = colours[2], colours[1]
    for _ in range(300):
        top, left = int(chance.integers(0, HEIGHT - 60)), int(chance.integers(0, WIDTH - 80))
        height, width = chance.integers(4, 60, 2)
        pixels[top : top + height, left : left + width] = colours[int(chance.integers(0, len(colours)))]
    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, "PNG")
    return kept.getvalue()


def counting(labels: list[bytes], pairs: int) -> None:
    """Frames per second on one core."""
    from PIL import Image

    from assay_payloads.datasets import label_images
    from assay_payloads.datasets.label_images import counts, keep_freed_memory

    keep_freed_memory()  # as each worker of a scan does

    def ours() -> float:
        begin = time.process_time()
        for data in labels:
            counts(data)
        return len(labels) / (time.process_time() - begin)

    def without_isal() -> float:
        fast, label_images.isal_zlib = label_images.isal_zlib, None
        try:
            return ours()
        finally:
            label_images.isal_zlib = fast

    def pillow() -> float:
        begin = time.process_time()
        for data in labels:
            pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(np.uint32)
            np.unique((pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2], return_counts=True)
        return len(labels) / (time.process_time() - begin)

    for name, way in (("Pillow and numpy.unique", pillow), ("the same without isal", without_isal)):
        own, other = in_turn(ours, way, pairs)
        print(f"labels of {WIDTH} × {HEIGHT} counted on one core: {median(own):.1f} frames/s of its time")
        print(f"  over {name} ({median(other):.1f} frames/s): {ratio(own, other)}")


def asking(folder: Path, rows: int, pairs: int) -> None:
    """One question, warm, on two threads."""
    import duckdb

    wide, tall, parquet = folder / "wide.duckdb", folder / "tall.duckdb", folder / "frames.parquet"
    with duckdb.connect(str(wide)) as made:
        made.execute("SET enable_progress_bar = false")
        fixed = ", ".join(name for name, _ in FIXED if name not in ("camera", "pixels"))
        chance = ", ".join(
            f"(CASE WHEN random() < 0.1 THEN random() * 99999 ELSE 0 END)::INTEGER AS {name}"
            for name in COLUMNS
        )
        values = (
            "i::VARCHAR AS label, '' AS image, (i // 5000)::VARCHAR AS scene, i AS taken_us, 1920 AS width, "
        )
        values += "1208 AS height, 1 AS label_bytes, 1 AS image_bytes, 1 AS changed_ns"
        made.execute(
            f"CREATE TABLE frames AS SELECT {fixed}, "
            "CASE WHEN i % 6 = 0 THEN 'cam_front_center' ELSE 'cam_side' END AS camera, "
            f"2319360 AS pixels, 0 AS unknown, {', '.join(COLUMNS)} FROM "
            f"(SELECT {values}, {chance}, i FROM range({rows}) t(i))"
        )
        made.execute(f"COPY frames TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)")
    with duckdb.connect(str(tall)) as made:
        made.execute(f"ATTACH '{wide}' AS w (READ_ONLY)")
        made.execute("CREATE TABLE f AS SELECT label, camera, pixels FROM w.frames")
        for name in COLUMNS:
            made.execute(f"CREATE TABLE {name} AS SELECT label, {name} FROM w.frames WHERE {name} > 0")

    def asked(path: Path | None, text: str) -> Callable[[], float]:
        connection = duckdb.connect(str(path or ":memory:"), read_only=path is not None)
        connection.execute("SET threads = 2; SET enable_progress_bar = false")

        def once() -> float:
            begin = time.perf_counter()
            connection.execute(text).fetchall()
            return time.perf_counter() - begin

        return once

    others = {
        "Parquet": asked(None, SQL.format(f"read_parquet('{parquet}')")),
        "a table per class": asked(
            tall,
            "SELECT count(*) FROM f JOIN road_blocks USING (label) WHERE road_blocks > 0.01 * pixels "
            "AND camera = 'cam_front_center'",
        ),
    }
    own = asked(wide, SQL.format("frames"))
    for name, other in others.items():
        ours, theirs = in_turn(own, other, pairs)
        print(
            f"{rows:,} frames asked `{QUESTION}`: {1000 * median(ours):.1f} ms; over {name} "
            f"({1000 * median(theirs):.1f} ms): {ratio(ours, theirs)}"
        )


def staging(folder: Path, labels: list[bytes], count: int, pairs: int) -> None:
    """Bytes per second, files that the page cache has, onto the disk of the temporary directory."""
    root = folder / "a2d2"
    root.mkdir()
    names = {f"#{colour:06x}": name for colour, name in COLOURS.items()}
    (root / "class_list.json").write_text(json.dumps(names))
    chance = np.random.default_rng(1)
    for number in range(count):
        data = labels[number % len(labels)]
        for kind, content in (("camera", data[:HEADER_BYTES] + chance.bytes(IMAGE_BYTES)), ("label", data)):
            at = root / "20180807_145028" / kind / "cam_front_center"
            at.mkdir(parents=True, exist_ok=True)
            (at / f"20180807145028_{kind}_frontcenter_{number:09}.png").write_bytes(content)
    begin = time.process_time()
    api.scan_data(root, catalog=folder / "c.duckdb", processes=1)
    rate = count / (time.process_time() - begin)
    print(f"a whole scan, with the images' headers and the catalog: {rate:.1f} frames/s of one core's time")
    chosen = api.query_data("", catalog=folder / "c.duckdb")
    write_manifest(folder / "m.jsonl", chosen)
    size = sum(path.stat().st_size for path in root.rglob("*.png"))

    def staged() -> float:
        begin = time.perf_counter()
        api.stage_data(folder / "m.jsonl", folder / "staged")
        took = time.perf_counter() - begin
        shutil.rmtree(folder / "staged")
        return size / took

    def sharded() -> float:
        begin = time.perf_counter()
        api.stage_data(folder / "m.jsonl", folder / "staged", shard_bytes=max(size // 8, 1))
        took = time.perf_counter() - begin
        shutil.rmtree(folder / "staged")
        return size / took

    def copied(passes: list[list[str]]) -> float:
        (folder / "copied").mkdir()
        took = sum(wall_s(argv) for argv in passes)
        os.sync()
        shutil.rmtree(folder / "copied")
        return size / took

    here, there = f"{root}/", f"{folder / 'copied'}/"
    rsync = ["rsync", "-a", here, there]
    tar = ["tar", "-cf", f"{there}shard.tar", "-C", here, "."]
    programs = {
        "cp": (staged, [["cp", "-r", f"{here}.", there]]),
        "rsync": (staged, [rsync]),
        "rsync, then a pass that compares checksums": (staged, [rsync, ["rsync", "-acn", here, there]]),
        "rclone": (staged, [["rclone", "--config", "", "copy", "--transfers", "8", here, there]]),
        "tar": (sharded, [tar]),
    }
    for name, (own, passes) in programs.items():
        if shutil.which(passes[0][0]) is None:
            print(f"absent: {passes[0][0]}")
            continue
        ours, theirs = in_turn(own, partial(copied, passes), pairs)
        what = "packed into shards" if own is sharded else "staged"
        print(
            f"{size / 1e6:.0f} MB {what} and compared at {median(ours) / 1e9:.3f} GB/s; over {name} "
            f"({median(theirs) / 1e9:.3f} GB/s): {ratio(ours, theirs)}"
        )


if __name__ == "__main__":
    main()
