"""A trained segmentation network over many labeled frames: counts of pixels by true and predicted class.

    python -m assay_payloads.training.validation --checkpoint /runs/a2d2/trained.pt --manifest all.jsonl
    torchrun --nproc-per-node 8 -m assay_payloads.training.validation --checkpoint … --manifest …

The frames are cut into chunks, and rank r of n takes chunks r, r + n, …. Each becomes one line of the log
and, with --into, one durable file; the chunks that have one are not computed again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from assay_payloads.datasets.chunks import (
    LARGEST_BYTES,
    ChunkError,
    ManifestChunks,
    ValidatedChunk,
    parsed_chunk,
)
from assay_payloads.datasets.feed import UnreadableSampleError
from assay_payloads.datasets.frame_files import WITH_PIXELS, without_pixels
from assay_payloads.datasets.manifest import ManifestError
from assay_payloads.datasets.places import PlaceError
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.validator import CheckpointError, Setup, Validator, setup


def kept(path: Path, setup: Setup, number: int) -> ValidatedChunk | None:
    """The chunk of a file; None if it isn't there, is damaged, or is another one."""
    try:
        with path.open("rb") as file:
            chunk = parsed_chunk(json.loads(file.read(LARGEST_BYTES)), len(setup.names))
    except (OSError, ValueError, RecursionError, ChunkError):
        return None
    return chunk if (chunk.key, chunk.chunk) == (setup.key, number) else None


def keep(path: Path, text: str) -> None:
    """Write a chunk's file whole, and wait until the disk has it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with unfinished.open("w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def chunk_file(directory: Path, number: int) -> Path:
    """Where a chunk is kept."""
    return directory / "chunks" / f"{number:07}.json"


def run(rank: Rank, options: argparse.Namespace) -> None:
    """Validate this rank's chunks; rank 0 prints the figures of all."""
    chunks = ManifestChunks(options.manifest, options.chunk_frames)
    first = chunks.frames(0) if chunks.count else []
    if what := without_pixels(chunks.about.layout, first) or ("" if first else "no frame"):
        rank.fail(f"{options.manifest}: found {what}; expected {', '.join(WITH_PIXELS)}")
    data = options.data or chunks.about.root
    network_setup = setup(
        options.checkpoint, chunks, data, batch_size=options.batch_size, device=options.device
    )
    for key, value in stated(network_setup, chunks).items():
        rank.log(key, value)
    worker, classes = Validator(network_setup), len(network_setup.names)
    matrix = torch.zeros((classes, classes), dtype=torch.int64)
    computed = unreadable = 0
    begin = rank.clock()
    for number in range(rank.rank, len(chunks), rank.size):
        file = chunk_file(options.into, number) if options.into is not None else None
        done = kept(file, network_setup, number) if file is not None else None
        if done is None:
            done = worker.chunk(number, chunks.frames(number))
            computed += len(done.frames) + len(done.unreadable)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                keep(file, done.text())
        rank.log("validated_chunk", done.document(), chunk=number, chunks=len(chunks))
        unreadable += len(done.unreadable)
        for true, predicted, pixels in done.confusion:
            matrix[true, predicted] += pixels
    (elapsed,) = rank.over_ranks([rank.clock() - begin], "MAX")
    total = rank.over_ranks([float(computed), float(unreadable), *matrix.flatten().tolist()], "SUM")
    if rank.rank == 0:
        report(rank, network_setup, total, elapsed)


def stated(setup: Setup, chunks: ManifestChunks) -> dict[str, object]:
    """Facts of the log."""
    return {
        "checkpoint_sha256": setup.sha256,
        "manifest_digest": setup.manifest,
        "validation_key": setup.key,
        "frames": chunks.count,
        "chunks": len(chunks),
        "classes": len(setup.names),
        "image_height": setup.size[0],
        "image_width": setup.size[1],
    }


def report(rank: Rank, setup: Setup, total: Sequence[float], elapsed: float) -> None:
    """The figures of all ranks."""
    computed, unreadable, *cells = total
    classes = len(setup.names)
    matrix = torch.tensor(cells, dtype=torch.float64).long().view(classes, classes)
    right, true, predicted = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
    occurs = true > 0
    rank.log("unreadable_frames", int(unreadable))
    if not bool(occurs.any()):
        rank.fail(f"none of the frames could be read: {int(unreadable)} are unreadable")
    if not computed:
        rank.fail("every chunk was there already: nothing was measured; `assay data validate` shows them")
    rank.log("confusion_matrix", matrix.tolist(), classes=list(setup.names))
    names = [name for name, there in zip(setup.names, occurs.tolist(), strict=True) if not there]
    rank.log("classes_not_evaluated", names)
    figures = {
        "throughput": (computed / elapsed, "images/s"),
        "mean_iou": (float((right / (true + predicted - right))[occurs].double().mean()), ""),
        "pixel_accuracy": (float(right.sum() / true.sum()), ""),
    }
    for key, (value, unit) in figures.items():
        rank.log(key, value, unit=unit, labels={})


def main() -> None:
    """Parse the command line and validate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--checkpoint", type=Path, required=True, help="trained.pt or checkpoint.pt of a training")
    add("--manifest", type=Path, required=True, help="frames, from `assay data query --manifest`")
    add("--data", help="the data set's directory, or s3://BUCKET/PREFIX; default: as in the manifest")
    add("--into", type=Path, help="directory, shared by all ranks, that keeps each chunk")
    add("--batch-size", type=int, default=4, help="frames at once")
    add("--chunk-frames", type=int, default=64, help="frames of a chunk")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    options = parser.parse_args()
    rank = Rank()
    if options.batch_size < 1 or options.chunk_frames < 1:
        rank.fail("--batch-size and --chunk-frames must be at least 1")
    rank.join(options.device)
    try:
        run(rank, options)
    except ManifestError as error:
        rank.fail(f"--manifest {options.manifest}: {error}")
    except CheckpointError as error:
        rank.fail(f"--checkpoint {options.checkpoint}: {error}")
    except (UnreadableSampleError, PlaceError) as error:
        rank.fail(str(error))
    except OSError as error:
        rank.fail(f"{error.filename or options.checkpoint}: {error.strerror or error}")
    rank.leave()


if __name__ == "__main__":
    main()
