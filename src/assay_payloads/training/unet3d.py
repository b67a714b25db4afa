"""Training of a 3D U-Net on KiTS19's kidneys and tumors, as in MLPerf v1.0 to v4.0.

    python -m assay_payloads.training.unet3d --filters 8 16 32 --patch-size 16 --batch-size 2 --steps 3
    torchrun --nproc-per-node 8 -m assay_payloads.training.unet3d --mode real --data kits19/ \\
        --batch-size 7 --target 0.908

--data contains the cases as MLPerf's preprocess_dataset.py writes them, case_00000_x.npy, case_00000_y.npy,
and so on. The 42 cases of its evaluation_cases.txt are for evaluation, the others for training. The network
is MONAI's DynUNet with the sizes of MLPerf's reference.

Differences from MLPerf's reference: a patch that must show foreground is placed around a random foreground
voxel (as in nnU-Net), not around a connected component; volumes are evaluated whole, while the reference
first cuts off a margin that a window doesn't fill.
Sources: Isensee et al., "nnU-Net" (2021); mlcommons/training, image_segmentation.
"""

from __future__ import annotations

import argparse
from functools import cached_property
from typing import Any

import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceLoss
from monai.networks.nets import DynUNet
from torch import Tensor, nn
from torch.nn import functional

from assay_payloads.datasets.feed import moved
from assay_payloads.datasets.kits19 import CLASSES, Cases, Patches
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.training import arguments, train

PADDING = -2.2  # the value of air after preprocessing
MOMENTUM, FIRST_RATE = 0.9, 1e-4
OVERLAP = 0.5  # of neighboring windows
SMOOTH = 1e-6  # keeps the Dice of a class absent from both volumes at 1


def dice(predicted: Tensor, labels: Tensor) -> Tensor:
    """Dice of kidney and tumor in one volume; 1 if the class is absent from both.

    predicted, labels  the class of each voxel, same shape
    """
    scores = []
    for label in range(1, CLASSES):
        marked, true = predicted == label, labels == label
        both, either = (marked & true).sum(), marked.sum() + true.sum()
        scores.append((2 * both + SMOOTH) / (either + SMOOTH))
    return torch.stack(scores)


class UNet3D(TrainingBenchmark):
    """Segmentation of kidneys and tumors: trained on patches, scored on whole volumes."""

    name = "unet3d"
    round = "v4.0"
    sample = "patches"
    quality = "mean_dice"
    progress = "samples"

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        super().__init__(rank, options)
        if len(options.filters) < 3 or options.patch_size % 2 ** (len(options.filters) - 1):
            rank.fail(
                f"--filters of {len(options.filters)} levels don't fit --patch-size {options.patch_size}: "
                "it needs at least 3 levels, and each level but the first halves the patch"
            )
        self.dice_loss = DiceLoss(
            include_background=False, to_onehot_y=True, softmax=True, smooth_nr=SMOOTH, smooth_dr=SMOOTH
        )

    @cached_property
    def patches(self) -> Patches:
        """The training set."""
        return Patches(self.options.data, self.options.patch_size, self.options.oversampling)

    @cached_property
    def volumes(self) -> Cases:
        """The evaluation set."""
        return Cases(self.options.data, evaluated=True)

    def model(self) -> nn.Module:
        """Two convolutions per level, each with instance normalization; each level halves the resolution."""
        return network(self.options.filters)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=1.0, momentum=MOMENTUM, nesterov=True)

    def learning_rate(self, step: int) -> float:
        """Rises from FIRST_RATE by epoch, then constant."""
        top, warmup = self.options.learning_rate, self.options.warmup_epochs
        epoch = step // self.steps_per_epoch + 1 if self.options.mode == "real" else warmup
        return FIRST_RATE + (top - FIRST_RATE) * min(1.0, epoch / warmup) if warmup else top

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Half cross entropy over all voxels, half 1 - Dice of kidney and tumor."""
        images, labels = batch
        logits = model(images).float()
        # voxels in one row: cross entropy of volumes has no deterministic GPU kernel
        rows, classes = logits.movedim(1, -1).flatten(0, -2), labels.flatten().long()
        return 0.5 * (functional.cross_entropy(rows, classes) + self.dice_loss(logits, labels))

    def synthetic(self) -> tuple[Tensor, Tensor]:
        shape = (self.options.batch_size, 1, *[self.options.patch_size] * 3)
        images, labels = torch.randn(shape), torch.randint(CLASSES, shape, dtype=torch.uint8)
        return moved((images, labels), self.rank.device, channels_last=self.options.channels_last)

    def training_data(self, epoch: int) -> Patches:
        return self.patches

    def train_samples(self) -> int:
        return len(self.patches)

    def eval_samples(self) -> int:
        return len(self.volumes)

    def evaluate(self, model: nn.Module) -> float:
        """Mean Dice of kidney and tumor over the volumes, each predicted in windows of a patch's size."""
        total = torch.zeros((), dtype=torch.float64)
        for index in range(self.rank.rank, len(self.volumes), self.rank.size):
            image, labels = (
                torch.from_numpy(each)[None].to(self.rank.device) for each in self.volumes.pair(index)
            )
            logits = sliding_window_inference(
                image, self.options.patch_size, self.options.batch_size, model,
                overlap=OVERLAP, mode="gaussian", cval=PADDING,
            )  # fmt: skip
            total += dice(logits.argmax(1), labels[:, 0]).mean().double().cpu()
        return self.rank.over_ranks([float(total)], "SUM")[0] / len(self.volumes)

    def stated(self) -> dict[str, Any]:
        options = self.options
        samples = {"opt_learning_rate_warmup_epochs": options.warmup_epochs}
        return samples | {
            "opt_name": "sgd",
            "opt_base_learning_rate": options.learning_rate,
            "opt_initial_learning_rate": FIRST_RATE,
            "opt_momentum": MOMENTUM,
            "opt_weight_decay": 0.0,
            "opt_learning_rate_decay_boundary_epochs": [],
            "opt_learning_rate_decay_factor": 1.0,
            "oversampling": options.oversampling,
            "training_input_shape": [options.patch_size] * 3,
            "validation_input_shape": [options.patch_size] * 3,
            "validation_overlap": OVERLAP,
        }


def network(filters: list[int]) -> nn.Module:
    """From n × 1 × depth × height × width to n × CLASSES × the same."""
    levels = len(filters)
    return DynUNet(
        spatial_dims=3, in_channels=1, out_channels=CLASSES, filters=filters, kernel_size=[3] * levels,
        strides=[1] + [2] * (levels - 1), upsample_kernel_size=[2] * (levels - 1), act_name="relu",
    )  # fmt: skip


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(
        __doc__, batch_size=2, learning_rate=2.0, max_epochs=4000, eval_every=20, first_eval=1000
    )
    add = parser.add_argument
    add("--patch-size", type=int, default=128, help="voxels along each edge")
    add("--filters", type=int, nargs="+", default=[32, 64, 128, 256, 320, 320], help="filters at each level")
    add("--oversampling", type=float, default=0.4, help="share of the patches that must contain foreground")
    add("--warmup-epochs", type=int, default=1000, help="epochs over which the learning rate ramps up")
    train(UNet3D, parser.parse_args())


if __name__ == "__main__":
    main()
