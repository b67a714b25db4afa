"""A trained network over labelled frames: its frames per second, next to a plain loop and with two workers.

Each side validates the same frames into an empty directory. The plain loop decodes and predicts the same
frames with Pillow and torch alone, on one thread, and keeps nothing. The ratio of two workers to one says
what the second is worth on this machine, with starting both and adding the chunks up. Then chunks of many
small frames are added up, and the largest memory of that is printed, for a tenth of the frames and for all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from options import absent, parse, sized
from paired import in_turn, ratio

MAKE_FRAMES = Path(__file__).resolve().parent.parent / "examples" / "a2d2" / "make_frames.py"
FRAMES, PAIRS, MANY = 256, 5, 100_000
SIZE = (96, 160)
CLASSES = 20
IMAGE, LABEL = "20180807_145028/camera/c/a_camera_b_{}.png", "20180807_145028/label/c/a_label_b_{}.png"


def main() -> None:
    """Print speeds, the ratio, and the memory of the driver."""
    options = parse(
        sized(
            __doc__,
            {"frames": 128, "pairs": 3, "many": 20_000},
            frames=(FRAMES, 16, "frames that are validated"),
            pairs=(PAIRS, 2, "times that each runs"),
            many=(MANY, 2_000, "frames that are added up"),
        )
    )
    try:
        import segmentation_models_pytorch as models
    except ImportError:
        absent("segmentation-models-pytorch, of the extra `training`")
    with tempfile.TemporaryDirectory() as name:
        workers(Path(name), models, options.frames, options.pairs)
        memory(Path(name), options.many)


def workers(here: Path, models: Any, frames: int, pairs: int) -> None:
    """Frames per second by the number of workers."""
    import torch

    from assay import api
    from assay.frame_manifest import write_manifest

    root, catalog, net = here / "a2d2", here / "c.duckdb", here / "net.pt"
    made = [sys.executable, str(MAKE_FRAMES), str(root), "--frames", str(frames), "--size", *map(str, SIZE)]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    api.scan_data(root, catalog=catalog, processes=1)
    write_manifest(here / "m.jsonl", api.query_data(catalog=catalog))
    torch.manual_seed(1)
    network = models.Unet(encoder_name="resnet18", encoder_weights=None, classes=CLASSES)
    options = {"architecture": "unet", "encoder": "resnet18", "image_size": str(SIZE), "reduced": "True"}
    torch.save({"parameters": options, "step": 0, "model": network.state_dict()}, net)

    def here_and_warm() -> float:
        shutil.rmtree(here / "v", ignore_errors=True)
        begin = time.perf_counter()
        api.validate_data(net, here / "m.jsonl", here / "v", workers=1, chunk_frames=16)
        return frames / (time.perf_counter() - begin)

    pairs_of_files = [(root / f.image, root / f.label) for f in api.query_data(catalog=catalog).frames]
    ours, plain = in_turn(here_and_warm, lambda: plain_loop(network, pairs_of_files), pairs)
    print(f"{frames} frames of {SIZE[1]} × {SIZE[0]}: one worker that is loaded {median(ours):.1f} frames/s")
    print(f"  over a plain loop of torch ({median(plain):.1f} frames/s): {ratio(ours, plain)}")

    def by(count: int) -> Callable[[], float]:
        def once() -> float:
            shutil.rmtree(here / "v", ignore_errors=True)
            argv = [sys.executable, "-m", "assay", "data", "validate", str(net), str(here / "m.jsonl")]
            argv += ["--into", str(here / "v"), "--workers", str(count), "--chunk-frames", "16", "--json"]
            begin = time.perf_counter()
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
            return frames / (time.perf_counter() - begin)

        return once

    two, one = in_turn(by(2), by(1), pairs)
    print(f"the same with its start: one worker {median(one):.1f} frames/s")
    print(f"  two workers ({median(two):.1f} frames/s) over one: {ratio(two, one)}")


def plain_loop(network: Any, files: list[tuple[Path, Path]]) -> float:
    """Frames per second of decoding and predicting alone, a batch of four at once."""
    import numpy as np
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    network.eval()
    begin = time.perf_counter()
    for first in range(0, len(files), 4):
        read = [
            [np.array(Image.open(path).convert("RGB")) for path in pair] for pair in files[first : first + 4]
        ]
        images = torch.from_numpy(np.stack([image for image, _ in read])).permute(0, 3, 1, 2).float() / 255
        with torch.inference_mode():
            network(images).argmax(1)
    return len(files) / (time.perf_counter() - begin)


def memory(here: Path, many: int) -> None:
    """The largest memory of adding chunks up, for a tenth of the frames and for all of them."""
    largest = {}
    for count in (many // 10, many):
        directory = here / f"many-{count}"
        prepared(directory, count)
        argv = [sys.executable, __file__, "--add-up", str(directory)]
        largest[count] = int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    few, all_of_them = largest.values()
    print(
        f"chunks of {many:,} frames added up with {all_of_them / 1e6:.0f} MB; "
        f"of {many // 10:,}: {few / 1e6:.0f} MB"
    )


def prepared(directory: Path, count: int) -> None:
    """A validation all of whose chunks are there, of frames that don't exist."""
    from dataclasses import asdict

    from assay.data.validation import ValidationAbout
    from assay.frame_manifest import ChosenFrame, made, write_manifest
    from assay_payloads.datasets.chunks import ValidatedChunk, ValidatedFrame

    (directory / "v" / "chunks").mkdir(parents=True)
    frames = [ChosenFrame(LABEL.format(n), IMAGE.format(n), 1, 1) for n in range(count)]
    manifest = made("/data", "a2d2", "all", frames)
    write_manifest(directory / "m.jsonl", manifest)
    key = hashlib.sha256(b"benchmark").hexdigest()
    names = tuple(f"class {n}" for n in range(CLASSES))
    about = ValidationAbout(key, key, 1, manifest.digest, "all", "/data", names, (32, 32), count, 64, 4)
    (directory / "v" / "validation.json").write_text(json.dumps(asdict(about)))
    for chunk in range(-(-count // 64)):
        own = range(64 * chunk, min(count, 64 * chunk + 64))
        each = [ValidatedFrame(n, 4, 0.5, [(1, 400, 500, 420), (9, 500, 520, 600)]) for n in own]
        cells = [
            (1, 1, 400 * len(own)),
            (1, 9, 100 * len(own)),
            (9, 1, 20 * len(own)),
            (9, 9, 500 * len(own)),
        ]
        text = ValidatedChunk(key, chunk, cells, each, []).text()
        (directory / "v" / "chunks" / f"{chunk:07}.json").write_text(text)


def add_up(directory: Path) -> None:
    """Add up what is there; print the largest memory of this process, in bytes."""
    from assay.data.validated_frames import reduced
    from assay.data.validation import opened, read_about
    from assay_payloads.datasets.chunks import ManifestChunks

    chunks = ManifestChunks(directory / "m.jsonl", 64)
    with opened(directory / "v", read_about(directory / "v")) as found:
        result = reduced(found, chunks)
    assert result.validated == chunks.count
    # Not getrusage: its maximum begins with that of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) * 1024)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--add-up"]:
        add_up(Path(sys.argv[2]))
    else:
        main()
