"""Segmentation of A2D2's street scenes: the class of each pixel of a camera image.

    python -m assay_payloads.training.segmentation --encoder resnet18 --image-size 64 96 --batch-size 2 \\
        --steps 4
    torchrun --nproc-per-node 8 -m assay_payloads.training.segmentation --mode real \\
        --data /data/camera_lidar_semantic --max-epochs 10

    DIR/class_list.json                     {"#ff0000": "Car 1", …}
    DIR/20180807_145028/camera/cam_front_center/20180807145028_camera_frontcenter_000001617.png
    DIR/20180807_145028/label/cam_front_center/20180807145028_label_frontcenter_000001617.png

A DeepLabV3+ or U-Net of segmentation-models-pytorch learns a reduced set of classes, or all, for a number of
epochs or steps; the log ends with the confusion matrix over the held-out frames. Data: Geyer et al., A2D2:
Audi Autonomous Driving Dataset, 2020. Pixels whose color is not in class_list.json are counted but not used
in training; an image with more than 1 % of them is an error.
"""

from __future__ import annotations

import argparse
import colorsys
import json
import re
from collections.abc import Sequence
from pathlib import Path
from tarfile import TarError

import segmentation_models_pytorch as models
import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset
from torchvision.transforms.functional import InterpolationMode, pil_to_tensor, resize

from assay_payloads.datasets.feed import UnreadableSampleError
from assay_payloads.datasets.frame_files import (
    CITYSCAPES,
    WITH_PIXELS,
    FrameFiles,
    ReadThrough,
    without_pixels,
)
from assay_payloads.datasets.manifest import Manifest, ManifestError, changed, parsed
from assay_payloads.datasets.places import PlaceError
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.training import arguments, train

ARCHITECTURES = {"deeplabv3plus": models.DeepLabV3Plus, "unet": models.Unet}
OTHER = "Other"  # class 0 of the reduced set
# The 38 classes are 55 colors without the number after the name. This reduction keeps what a car must tell
# apart. Its order has the classes that the Redbook on DGX-1 names where its confusion matrix has them:
# 1 normal street, 9 sky, 11 nature, 19 bicycle (the Redbook's own set of classes was not published).
REDUCED = {
    "RD normal street": ("RD normal street",),
    "Solid line": ("Solid line",),
    "Dashed line": ("Dashed line",),
    "Sidewalk": ("Sidewalk", "Curbstone"),
    "Other ground": (
        *("Non-drivable street", "Drivable cobblestone", "Slow drive area", "Parking area"),
        *("Painted driv. instr.", "Zebra crossing", "RD restricted area", "Speed bumper"),
    ),
    "Car": ("Car", "Ego car"),
    "Truck": ("Truck", "Utility vehicle", "Tractor"),
    "Small vehicles": ("Small vehicles",),
    "Sky": ("Sky",),
    "Buildings": ("Buildings",),
    "Nature object": ("Nature object",),
    "Poles": ("Poles", "Signal corpus"),
    "Traffic signal": ("Traffic signal",),
    "Traffic sign": ("Traffic sign", "Electronic traffic", "Traffic guide obj."),
    "Grid structure": ("Grid structure", "Sidebars"),
    "Road blocks": ("Road blocks",),
    "Obstacles / trash": ("Obstacles / trash", "Animals"),
    "Pedestrian": ("Pedestrian",),
    "Bicycle": ("Bicycle",),
}
SPLIT_SEED = 0  # the held-out frames don't depend on a training's seed
NOT_LEARNED = 255  # label of a pixel that has no class
MOST_UNKNOWN = 0.01  # fraction of an image
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, 0 to 1
MOMENTUM, POWER = 0.9, 0.9  # POWER: of the learning rate's decay: Chen et al., DeepLab, 2017
Batch = tuple[torch.Tensor, torch.Tensor]


class Colors:
    """class_list.json: the classes in order, and the class of each of the 2²⁴ colors."""

    def __init__(self, path: Path, *, reduced: bool) -> None:
        try:
            listed = json.loads(path.read_text(encoding="utf-8"))
            name_by_color = {int(color.removeprefix("#"), 16): name for color, name in listed.items()}
        except (OSError, ValueError, AttributeError) as error:
            what = f'{path} can\'t be read as {{"#ff0000": "Car 1", …}}: {error}'
            raise UnreadableSampleError(what) from error
        single = {color: re.sub(r" \d$", "", name) for color, name in name_by_color.items()}
        if reduced:
            merged = {part: name for name, parts in REDUCED.items() for part in parts}
            single = {color: merged.get(name, OTHER) for color, name in single.items()}
        self.names = [OTHER, *REDUCED] if reduced else list(dict.fromkeys(single.values()))
        self._classes = torch.full((1 << 24,), NOT_LEARNED, dtype=torch.uint8)
        for color, name in single.items():
            self._classes[color] = self.names.index(name)

    def classes(self, pixels: torch.Tensor) -> torch.Tensor:
        """Class of each pixel (uint8, H × W) of a label image (uint8, 3 × H × W)."""
        red, green, blue = pixels.int()
        return self._classes[(red << 16) + (green << 8) + blue]

    def shown(self) -> torch.Tensor:
        """The first color of each class (uint8, 256 × 3); black if it has none."""
        shades = torch.zeros((256, 3), dtype=torch.uint8)
        for number in range(len(self.names)):
            colors = (self._classes == number).nonzero().flatten()
            if len(colors):
                shades[number] = torch.tensor([int(colors[0]) >> bits & 255 for bits in (16, 8, 0)])
        return shades


class GreyValues(Colors):
    """Classes whose gray value is their number."""

    def __init__(self, names: Sequence[str]) -> None:
        if len(names) >= NOT_LEARNED:
            raise UnreadableSampleError(f"found {len(names)} classes; expected fewer than {NOT_LEARNED}")
        self.names = list(names)
        self._classes = torch.full((1 << 24,), NOT_LEARNED, dtype=torch.uint8)
        for number in range(len(names)):
            self._classes[number * 0x010101] = number

    def shown(self) -> torch.Tensor:
        """A color for each class, far apart for classes next to each other."""
        hues = [
            colorsys.hsv_to_rgb(number * 0.618 % 1, 0.65, 0.95 - 0.35 * (number % 2)) for number in range(256)
        ]
        return (torch.tensor(hues) * 255).to(torch.uint8)


def classes_of(layout: str, data: Path, *, reduced: bool) -> Colors:
    """The classes of a data set; only A2D2's own are reduced.

    Raises UnreadableSampleError if nothing says what the values of its label images mean.
    """
    if layout == "cityscapes":
        return GreyValues(CITYSCAPES)
    listed, named = data / "class_list.json", data / "classes.txt"
    if layout != "webdataset":
        return Colors(listed, reduced=reduced)
    if listed.exists():
        whole = Colors(listed, reduced=False)
        return Colors(listed, reduced=True) if reduced and "RD normal street" in whole.names else whole
    try:
        lines = named.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        what = f"{data} has neither class_list.json nor a readable classes.txt: {error}"
        raise UnreadableSampleError(what) from error
    return GreyValues([line.strip() for line in lines if line.strip()])


class Frames(Dataset):  # type: ignore[misc]
    """Images (uint8, 3 × H × W) and the class of each pixel (uint8, H × W), scaled to the same size."""

    def __init__(
        self,
        labels: Sequence[Path],
        colors: Colors,
        size: Sequence[int],
        images: Sequence[Path] | None = None,
        files: FrameFiles | None = None,
    ) -> None:
        """Frames of these labels.

        images  in the same order; None: found by the names of the labels
        files   reads them; None: they are plain files
        """
        self.labels, self.colors, self.size = labels, colors, list(size)
        self.images, self.files = images, files or FrameFiles()

    def __len__(self) -> int:
        return len(self.labels)

    def location(self, index: int) -> Path:
        """The path of the image: …/label/…_label_… becomes …/camera/…_camera_…"""
        if self.images is not None:
            return self.images[index]
        label = self.labels[index]
        name = label.name.replace("_label_", "_camera_")
        return label.parents[2] / "camera" / label.parent.name / name

    def stored_bytes(self, index: int) -> int:
        """Size of image and label."""
        paths = self.location(index), self.labels[index]
        return sum(map(self.files.size, paths))

    def __getitem__(self, index: int) -> Batch:
        image, label = (pixels(path, self.files) for path in (self.location(index), self.labels[index]))
        if image.shape != label.shape:
            sizes = [f"{part.shape[2]} × {part.shape[1]}" for part in (label, image)]
            raise UnreadableSampleError(
                f"{self.labels[index]} has {sizes[0]} pixels, but its image {sizes[1]}"
            )
        classes = self.colors.classes(label)
        unknown = (classes == NOT_LEARNED).float().mean().item()
        if unknown > MOST_UNKNOWN:
            what = f"{unknown:.0%} of its pixels have colors that are not in the list of classes"
            raise UnreadableSampleError(f"{self.labels[index]}: {what}")
        return (
            resize(image, self.size, antialias=True),
            resize(classes[None], self.size, InterpolationMode.NEAREST)[0],
        )


def pixels(path: Path, files: FrameFiles) -> torch.Tensor:
    """An image's pixels, uint8, 3 × H × W. Raises UnreadableSampleError with the file's name."""
    try:
        with files.opened(path) as file, Image.open(file) as picture:
            return pil_to_tensor(picture.convert("RGB"))
    except (OSError, PlaceError, SyntaxError, ValueError, TarError, Image.DecompressionBombError) as error:
        raise UnreadableSampleError(f"{path} can't be read: {type(error).__name__}: {error}") from error


def pixel_scores(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Scores of every pixel's classes, n·H·W × classes, for images of 0 to 255, n × 3 × H × W."""
    shape = (1, 3, 1, 1)
    mean = torch.tensor(MEAN, device=images.device).view(shape)
    deviation = torch.tensor(DEVIATION, device=images.device).view(shape)
    scores: torch.Tensor = model((images.float() / 255 - mean) / deviation)
    return scores.movedim(1, -1).flatten(0, 2)


class Segmentation(TrainingBenchmark):
    """The data for training and evaluation."""

    name, round, sample, quality = "a2d2_segmentation", "v3.1", "images", "mean_iou"

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        super().__init__(rank, options)
        self.names = [OTHER, *REDUCED]
        self.files = FrameFiles(kept=ReadThrough(options.data, options.source))
        self.images: dict[Path, Path] = {}  # of labels whose names don't say it
        if options.mode != "synthetic":
            self.trained_on, self.held_out = self._split()
            self.colors = classes_of(self.files.layout, options.data, reduced=options.reduced)
            self.names = self.colors.names
            if self.files.layout != "a2d2":  # so that no data set of other classes is taken for it
                options.class_names = json.dumps(self.names)

    def _split(self) -> tuple[list[Path], list[Path]]:
        """Labels for training and for evaluation: a random part of the camera's frames is held out."""
        options = self.options
        labels = self._of_manifest() if options.manifest is not None else self._of_camera()
        if options.frames is not None and options.frames > len(labels):
            where = f"{options.camera} has" if options.manifest is None else f"{options.manifest} has"
            self.rank.fail(f"--frames {options.frames}: {where} only {len(labels)} in {options.data}")
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED)).tolist()
        chosen = [labels[index] for index in order[: options.frames]]
        held_out = max(1, len(chosen) // options.held_out)
        # Only whole steps: a last micro-batch of one image has no variance to normalize by.
        left_over = (len(chosen) - held_out) % self.global_batch_size
        return chosen[held_out + left_over :], chosen[:held_out]

    def _of_camera(self) -> list[Path]:
        options = self.options
        labels = sorted(options.data.glob(f"*/label/{options.camera}/*.png"))
        if not labels:
            self.rank.fail(
                f"{options.data} has no */label/{options.camera}/*.png: it is not A2D2's directory"
            )
        return labels

    def _of_manifest(self) -> list[Path]:
        """Labels of the manifest's frames, whichever camera's, in their order."""
        options = self.options
        try:
            manifest = parsed(options.manifest)
        except (OSError, ManifestError) as error:
            self.rank.fail(f"--manifest {options.manifest}: {error}")
        if what := without_pixels(manifest.layout, manifest.frames):
            self.rank.fail(f"--manifest {options.manifest}: found {what}; expected {', '.join(WITH_PIXELS)}")
        if len(manifest.frames) < 2:
            self.rank.fail(f"--manifest {options.manifest}: found 1 frame; expected at least 2")
        self.files.layout = manifest.layout
        if manifest.layout != "a2d2":
            self.images = {
                options.data / frame.label: options.data / frame.image for frame in manifest.frames
            }
        self.rank.log("manifest_digest", manifest.digest, frames=len(manifest.frames), query=manifest.query)
        options.manifest_digest = manifest.digest  # a checkpoint of other frames is another training's
        if options.mode != "check" and options.source is None:  # what is read through isn't here yet
            self._are_as_chosen(manifest)
        return [options.data / frame.label for frame in manifest.frames]

    def _are_as_chosen(self, manifest: Manifest) -> None:
        """A job may wait for days: end now if frames have vanished or changed meanwhile."""
        here = manifest.frames[self.rank.rank :: self.rank.size]  # each rank looks at its part
        if wrong := changed(self.options.data, here, manifest.layout):
            more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            self.rank.fail(f"files changed since they were chosen: {'; '.join(wrong[:3])}{more}")

    def model(self) -> nn.Module:
        """The network, on the CPU."""
        options = self.options
        more = {"decoder_aspp_dropout": options.dropout} if options.architecture == "deeplabv3plus" else {}
        network: nn.Module = ARCHITECTURES[options.architecture](
            encoder_name=options.encoder, encoder_weights=None, classes=len(self.names), **more
        )
        return network

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """SGD with momentum."""
        options = self.options
        return torch.optim.SGD(
            model.parameters(), options.learning_rate, MOMENTUM, weight_decay=options.weight_decay
        )

    def learning_rate(self, step: int) -> float:
        """Decays to 0 at the last step, as in DeepLab."""
        last = self.most_steps if self.options.mode == "real" else self.options.steps
        rate: float = self.options.learning_rate * max(0.0, 1 - step / last) ** POWER
        return rate

    def predicted(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        """Scores of every pixel's classes, n·H·W × classes."""
        return pixel_scores(model, images)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Cross entropy, averaged over the pixels that have a class."""
        images, classes = batch
        scores = self.predicted(model, images)
        return functional.cross_entropy(scores.float(), classes.long().flatten(), ignore_index=NOT_LEARNED)

    def weight(self, batch: Batch) -> torch.Tensor:
        """Pixels that have a class."""
        return (batch[1] != NOT_LEARNED).sum()

    def synthetic(self) -> Batch:
        """Noise, with a random class for each pixel."""
        shape, device = (self.options.batch_size, *self.options.image_size), self.rank.device
        images = torch.randint(256, (shape[0], 3, *shape[1:]), dtype=torch.uint8, device=device)
        return images, torch.randint(len(self.names), shape, dtype=torch.uint8, device=device)

    def training_data(self, epoch: int) -> Frames:
        """The training frames."""
        return self._frames(self.trained_on)

    def evaluation_data(self) -> Frames:
        """The held-out frames."""
        return self._frames(self.held_out)

    def _frames(self, labels: Sequence[Path]) -> Frames:
        images = [self.images[label] for label in labels] if self.images else None
        return Frames(labels, self.colors, self.options.image_size, images, self.files)

    def train_samples(self) -> int:
        """Training frames."""
        return len(self.trained_on)

    def eval_samples(self) -> int:
        """Held-out frames."""
        return len(self.held_out)

    def evaluate(self, model: nn.Module) -> float:
        """Mean intersection over union of the classes that occur. Prints the confusion matrix, in pixels."""
        classes = len(self.names)
        counts = torch.zeros((classes + 1) * classes, dtype=torch.int64, device=self.rank.device)
        for images, true in self.feed.evaluation(self.evaluation_data()):
            rows = true.long().flatten().clamp(max=classes)  # the last row: pixels of unknown colors
            place = rows * classes + self.predicted(model, images).argmax(1)
            counts += torch.bincount(place, minlength=len(counts))
        table = torch.tensor(self.rank.over_ranks(counts.tolist(), "SUM")).view(classes + 1, classes)
        self._print(table.long().tolist())
        matrix = table[:classes]
        right, seen, predicted = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
        occurs = seen > 0
        return float((right / (seen + predicted - right))[occurs].mean())

    def _print(self, table: list[list[int]]) -> None:
        """Rows are true classes, columns predicted ones; then the classes that no held-out frame has."""
        if self.rank.rank != 0:
            return
        *matrix, unknown = table
        self.rank.log("confusion_matrix", matrix, classes=self.names)
        missing = [name for name, row in zip(self.names, matrix, strict=True) if not any(row)]
        self.rank.log("classes_not_evaluated", missing)
        self.rank.log("pixels_of_unknown_colour", sum(unknown), evaluated_pixels=sum(map(sum, table)))

    def stated(self) -> dict[str, object]:
        """The benchmark's configuration."""
        options = self.options
        height, width = options.image_size
        return {
            "architecture": options.architecture,
            "encoder": options.encoder,
            "image_height": height,
            "image_width": width,
            "classes": len(self.names),
            "weight_decay": options.weight_decay,
            "dropout": options.dropout,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(__doc__, batch_size=4, learning_rate=0.01, max_epochs=10, eval_every=10)
    add = parser.add_argument
    add("--architecture", choices=ARCHITECTURES, default="deeplabv3plus")
    add("--encoder", default="resnet50", help="one of segmentation-models-pytorch's")
    add(
        "--image-size",
        type=int,
        nargs=2,
        default=[1216, 1920],
        help="height and width in pixels; multiples of 32",
    )
    add("--reduced", action=argparse.BooleanOptionalAction, default=True, help="20 classes instead of 38")
    add("--camera", default="cam_front_center")
    add("--manifest", type=Path, help="frames chosen by `assay data query`, instead of a camera's")
    add("--source", help="place of the frames that --data lacks; it keeps each that is read")
    add("--frames", type=int, help="number of the camera's frames to draw at random; default: all")
    add("--held-out", type=int, default=10, help="one in this many frames is held out for the evaluation")
    add("--weight-decay", type=float, default=1e-4)
    add("--dropout", type=float, default=0.5, help="dropout rate of DeepLabV3+'s features")
    options = parser.parse_args()
    if any(side < 32 or side % 32 for side in options.image_size):
        parser.error("--image-size must be two multiples of 32: A2D2's 1208 rows become 1216, or 608")
    if options.architecture == "deeplabv3plus" and options.batch_size == 1:
        parser.error(
            "--batch-size must be at least 2: DeepLabV3+ normalizes one value per image over the batch"
        )
    if options.held_out < 2 or (options.frames is not None and options.frames < 2):
        parser.error("--held-out and --frames must be at least 2")
    train(Segmentation, options)


if __name__ == "__main__":
    main()
