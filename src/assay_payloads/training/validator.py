"""What a trained segmentation network predicts for labeled frames: pixels by true and predicted class.

Chunks and batches are cut from the manifest alone and the arithmetic of a chunk runs on one thread or one
GPU, so that the counts don't depend on the number of workers. Pixels are counted at the size that the network
was trained at.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import nn

from assay_payloads.datasets.chunks import (
    LARGEST_BYTES,
    ManifestChunks,
    ValidatedChunk,
    ValidatedFrame,
)
from assay_payloads.datasets.feed import UNREADABLE, UnreadableSampleError
from assay_payloads.datasets.frame_files import FrameFiles
from assay_payloads.datasets.manifest import ChosenFrame
from assay_payloads.datasets.places import AbsentError, PlaceError, is_remote, place
from assay_payloads.training.segmentation import (
    ARCHITECTURES,
    OTHER,
    REDUCED,
    Colors,
    Frames,
    classes_of,
    pixel_scores,
)

VERSION = 1  # of the arithmetic: chunks of another one don't count
CLASS_LISTS = ("class_list.json", "classes.txt")
DECODERS = 8  # threads that decode ahead of a GPU
ENTROPY_DIGITS = 6
LONGEST_REASON = 300  # characters


class CheckpointError(Exception):
    """Why a file can't be validated as a network."""


@dataclass(frozen=True)
class Setup:
    """What is validated, and how. Workers get it with each of their tasks.

    checkpoint  a file that a training of `segmentation` saved
    sha256      of it: a worker that finds another file there ends
    manifest    digest of the frames
    data        the data set's directory, on the workers, or its address in a store
    names       the network's classes
    size        height and width of its images, pixels
    batch_size  frames at once; chunk_frames: frames of a chunk
    device      auto: a GPU if there is one
    """

    checkpoint: str
    sha256: str
    manifest: str
    data: str
    names: tuple[str, ...]
    size: tuple[int, int]
    batch_size: int
    chunk_frames: int
    device: str = "auto"
    layout: str = "a2d2"

    @property
    def key(self) -> str:
        """The same for chunks that add up to the same: a digest of everything that may change a count."""
        about = {name: value for name, value in asdict(self).items() if name not in PLACES}
        return hashlib.sha256(json.dumps({**about, "version": VERSION}).encode()).hexdigest()


PLACES = {"checkpoint", "data", "device", "layout"}  # of a setup: where it is done changes no count


@dataclass(frozen=True)
class Trained:
    """What a checkpoint says about its network: options of its training as text, and its steps."""

    options: Mapping[str, str]
    step: int
    sha256: str
    weights: Mapping[str, Any]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its images, pixels."""
        height, width = ast.literal_eval(self.options["image_size"])
        return int(height), int(width)

    def network(self, classes: int) -> nn.Module:
        """With its weights, on the CPU. Raises CheckpointError if it has other classes."""
        network: nn.Module = ARCHITECTURES[self.options["architecture"]](
            encoder_name=self.options["encoder"], encoder_weights=None, classes=classes
        )
        try:
            network.load_state_dict(self.weights)
        except RuntimeError as error:
            why = str(error).splitlines()[-1].strip()
            raise CheckpointError(f"doesn't fit {classes} classes and its own options: {why}") from None
        return network.eval()


def trained(path: Path) -> Trained:
    """A checkpoint of `segmentation`. Raises CheckpointError if it is none; OSError."""
    data = path.read_bytes()
    try:
        kept = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        options, step, weights = kept["parameters"], int(kept["step"]), kept["model"]
        checkpoint = Trained(options, step, hashlib.sha256(data).hexdigest(), weights)
        known = options["architecture"] in ARCHITECTURES and checkpoint.size and options["encoder"]
    except (*UNREADABLE, UnpicklingError) as error:  # what torch raises for files of others
        what = f"{type(error).__name__}: {str(error).splitlines()[0][:LONGEST_REASON] if str(error) else ''}"
        raise CheckpointError(f"is not a checkpoint of `segmentation` ({what})") from None
    if not known:
        raise CheckpointError(f"has a network that is unknown here: {options['architecture']}")
    return checkpoint


def colors(data: str, options: Mapping[str, str], layout: str = "a2d2") -> Colors:
    """The classes that the network learned.

    Raises UnreadableSampleError without a list of classes, CheckpointError if it learned others; PlaceError.
    """
    with _lists_of_classes(data) as directory:
        classes = classes_of(layout, directory, reduced=options["reduced"] == "True")
    plain = [OTHER, *REDUCED] if layout != "a2d2" else classes.names  # what a network of A2D2 learned
    learned = json.loads(options["class_names"]) if "class_names" in options else plain
    if learned != classes.names:
        what = f"{len(learned)} classes ({', '.join(learned[:3])} …), the frames {len(classes.names)}"
        raise CheckpointError(f"learned {what} ({', '.join(classes.names[:3])} …)")
    return classes


@contextmanager
def _lists_of_classes(data: str) -> Iterator[Path]:
    """A directory with the files that name a data set's classes. Raises PlaceError."""
    if not is_remote(data):
        yield Path(data)
        return
    store = place(data)
    with tempfile.TemporaryDirectory() as near:
        for name in CLASS_LISTS:
            with suppress(AbsentError):
                (Path(near) / name).write_bytes(store.read(name, 0, LARGEST_BYTES))
        try:
            yield Path(near)
        except UnreadableSampleError as error:
            raise UnreadableSampleError(str(error).replace(near, data)) from None


def setup(
    checkpoint: Path, manifest: ManifestChunks, data: str, *, batch_size: int, device: str = "auto"
) -> Setup:
    """What is validated. Raises CheckpointError, UnreadableSampleError, PlaceError, or OSError."""
    network = trained(checkpoint)
    names = tuple(colors(data, network.options, manifest.about.layout).names)
    network.network(len(names))
    return Setup(
        str(checkpoint.absolute()),
        network.sha256,
        manifest.about.digest,
        data if is_remote(data) else str(Path(data).absolute()),
        names,
        network.size,
        batch_size,
        manifest.size,
        device,
        manifest.about.layout,
    )


class Validator:
    """A network that is loaded, with the loader of its frames. One in each worker."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.device = device_of(setup.device)
        torch.set_num_threads(1)  # sums of floats depend on the number of threads
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        network = trained(Path(setup.checkpoint))
        if network.sha256 != setup.sha256:
            raise CheckpointError(f"{setup.checkpoint} is another file on this node than where this began")
        self.colors = colors(setup.data, network.options, setup.layout)
        store = place(setup.data) if is_remote(setup.data) else None
        self.root = Path(setup.data) if store is None else Path()
        self.files = FrameFiles(setup.layout, store=store)
        self.model = network.network(len(setup.names)).to(self.device)
        at_once = 1 if store is None else store.at_once
        self.threads = ThreadPoolExecutor(max(at_once, DECODERS if self.device.type == "cuda" else 1))

    def chunk(self, number: int, frames: Sequence[ChosenFrame]) -> ValidatedChunk:
        """The counts of a chunk's frames."""
        classes = len(self.setup.names)
        matrix = torch.zeros((classes, classes), dtype=torch.int64)
        done: list[ValidatedFrame] = []
        unreadable: list[tuple[int, str]] = []
        for first in range(0, len(frames), self.setup.batch_size):
            batch = frames[first : first + self.setup.batch_size]
            first_index = number * self.setup.chunk_frames + first
            for offset, result in enumerate(self.batch(batch)):
                if isinstance(result, str):
                    unreadable.append((first_index + offset, result[:LONGEST_REASON]))
                    continue
                table, entropy = result
                known = table[:classes]
                matrix += known
                done.append(_frame(first_index + offset, known, int(table[classes].sum()), entropy))
        cells = [
            (true, predicted, int(matrix[true, predicted])) for true, predicted in matrix.nonzero().tolist()
        ]
        return ValidatedChunk(self.setup.key, number, cells, done, unreadable)

    def batch(self, frames: Sequence[ChosenFrame]) -> Iterator[tuple[torch.Tensor, float] | str]:
        """For each frame: pixels by true (the last row: unknown) and predicted class, and the mean entropy.

        For one that can't be read, why.
        """
        loaded = list(self.threads.map(self.load, frames))
        readable = [frame for frame in loaded if not isinstance(frame, str)]
        results = iter(self.predict(readable))
        for frame in loaded:
            if isinstance(frame, str):
                yield frame
            else:
                table, entropy, _ = next(results)
                yield table, entropy

    def load(self, frame: ChosenFrame) -> tuple[torch.Tensor, torch.Tensor] | str:
        """Image and label as the training loads them, or why they can't be read.

        Raises PlaceError if the store fails rather than the frame.
        """
        try:
            labels, images = [self.root / frame.label], [self.root / frame.image]
            return Frames(labels, self.colors, self.setup.size, images, self.files)[0]
        except (UnreadableSampleError, *UNREADABLE) as error:
            cause = error.__cause__
            if isinstance(cause, PlaceError) and not isinstance(cause, AbsentError):
                raise cause from None
            return " ".join(str(error).split())

    @torch.inference_mode()
    def predict(
        self, batch: Sequence[tuple[torch.Tensor, torch.Tensor]]
    ) -> Iterator[tuple[torch.Tensor, float, torch.Tensor]]:
        """For each frame: pixels by true and predicted class, mean entropy in bits, predicted classes."""
        if not batch:
            return
        classes, (height, width) = len(self.setup.names), self.setup.size
        images = torch.stack([image for image, _ in batch]).to(self.device)
        labels = torch.stack([label for _, label in batch]).to(self.device)
        scores = pixel_scores(self.model, images).view(len(batch), height * width, classes)
        for own, label in zip(scores, labels, strict=True):
            predicted = own.argmax(1)
            rows = label.long().flatten().clamp(max=classes)  # the last row: pixels of unknown colors
            counts = torch.bincount(rows * classes + predicted, minlength=(classes + 1) * classes)
            logs = own.float().log_softmax(1)
            entropy = float(-(logs.exp() * logs).sum(1).mean()) / math.log(2)
            yield (
                counts.view(classes + 1, classes).cpu(),
                round(max(0.0, entropy), ENTROPY_DIGITS),
                predicted.view(height, width).to(torch.uint8).cpu(),
            )


def device_of(name: str) -> torch.device:
    """The device of this worker: of several GPUs, the workers of a machine take one after the other."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    number = multiprocessing.current_process().name.rpartition("-")[2]  # SpawnProcess-1, …
    place = os.environ.get("LOCAL_RANK") or (number if number.isdecimal() else "0")
    return torch.device("cuda", int(place) % torch.cuda.device_count())


def _frame(index: int, table: torch.Tensor, unknown: int, entropy: float) -> ValidatedFrame:
    right, true, predicted = table.diagonal(), table.sum(1), table.sum(0)
    there = (true + predicted).nonzero().flatten().tolist()
    rows = [(name, int(right[name]), int(true[name]), int(predicted[name])) for name in there]
    return ValidatedFrame(index, unknown, entropy, rows)


@lru_cache(maxsize=1)
def validator(setup: Setup) -> Validator:
    """The validator of this process, made at the first call."""
    return Validator(setup)


def validated(task: tuple[Setup, int, Sequence[ChosenFrame]]) -> tuple[int, str]:
    """A chunk's number and its text: what workers are sent, and what they return."""
    setup, number, frames = task
    return number, validator(setup).chunk(number, frames).text()


def pictures(
    setup: Setup, frames: Sequence[tuple[str, str]]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray] | None]:
    """Image, label and prediction (height × width × 3, uint8) of each frame; None if it can't be read.

    frames  label and image, below the data set's directory
    """
    worker = Validator(setup)
    colors = worker.colors.shown().numpy()
    for label, image in frames:
        loaded = worker.load(ChosenFrame(label, image, 0, 0))
        if isinstance(loaded, str):
            yield None
            continue
        ((_, _, predicted),) = worker.predict([loaded])
        yield loaded[0].permute(1, 2, 0).numpy(), colors[loaded[1].numpy()], colors[predicted.numpy()]
