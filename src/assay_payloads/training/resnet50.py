"""Training of ResNet-50 on ImageNet's images, as in MLPerf v4.0: top-1 accuracy 0.759.

    python -m assay_payloads.training.resnet50 --steps 5 --window 5 --image-size 64 --batch-size 8
    torchrun --nproc-per-node 8 -m assay_payloads.training.resnet50 --precision bf16 --batch-size 256 \\
        --steps 200
    torchrun --nproc-per-node 8 -m assay_payloads.training.resnet50 --mode real --data imagenet \\
        --batch-size 256 --precision bf16 \\
        --opt-name lars --learning-rate 8 --max-epochs 41 --target 0.759

`--data` contains train/ and val/: one directory of images per class (torchvision's ImageFolder), or tar
shards of `key.jpg` and `key.cls` (webdataset's layout). The network is torchvision's.

Sources: He et al. 2015, arXiv:1512.03385; MLPerf training v4.0, image classification.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
import torchvision
from torch.nn import functional

from assay_payloads.datasets.images import CLASSES, image_set, normalized
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.training import arguments, train

END_LEARNING_RATE, DECAY_POWER = 1e-4, 2


class LARS(torch.optim.Optimizer):
    """SGD with momentum that moves each layer in proportion to its own weights (LARS).

    Biases and normalizations (one dimension) are neither scaled nor decayed.
    Source: You, Gitman, Ginsburg 2017, arXiv:1708.03888; trust ratio 0.001, epsilon 0, as in MLPerf.
    """

    def __init__(self, parameters: Iterable[Any], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update all weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                gradient, rate = weight.grad, group["lr"]
                if weight.dim() > 1:
                    decayed = gradient + group["weight_decay"] * weight
                    norm = torch.linalg.vector_norm(weight)
                    length = torch.linalg.vector_norm(gradient) + group["weight_decay"] * norm
                    trust = torch.where((norm > 0) & (length > 0), 0.001 * norm / length, 1.0)
                    gradient = decayed * trust
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                momentum.mul_(group["momentum"]).add_(gradient * rate)
                weight.sub_(momentum)


class ResNet50(TrainingBenchmark):
    """Classification of images."""

    name = "resnet"
    sample = "images"

    @cached_property
    def train_set(self) -> Any:
        """The training images, with the reference's random crop and flip."""
        return image_set(self.rank, self.options.data / "train", self.options.image_size, training=True)

    @cached_property
    def eval_set(self) -> Any:
        """The evaluation images, center-cropped."""
        images = image_set(self.rank, self.options.data / "val", self.options.image_size, training=False)
        if images.classes != self.train_set.classes:
            self.rank.fail(
                f"{self.options.data}: train/ has {len(self.train_set.classes)} classes and val/ "
                f"{len(images.classes)}, but not the same ones: labels would mean different things"
            )
        return images

    def model(self) -> torch.nn.Module:
        classes = CLASSES if self.options.mode == "synthetic" else len(self.train_set.classes)
        build = getattr(torchvision.models, self.options.model)
        network: torch.nn.Module = build(weights=None, num_classes=classes)
        return network

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        options = self.options
        settings = {"lr": options.learning_rate, "momentum": options.momentum}
        if options.opt_name == "lars":
            return LARS(model.parameters(), weight_decay=options.weight_decay, **settings)
        groups = [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": options.weight_decay},
            {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.SGD(groups, fused=options.fused, **settings)

    def learning_rate(self, step: int) -> float:
        """Real: linear warm-up, then polynomial decay of power 2. Synthetic: constant."""
        rate: float = self.options.learning_rate
        if self.options.mode == "synthetic":
            return rate
        if step < self.warmup_steps:
            return rate * (step + 1) / self.warmup_steps
        left = 1 - (step - self.warmup_steps) / max(1, self.decay_steps)
        end = min(END_LEARNING_RATE, rate)
        return float(end + (rate - end) * max(0.0, left) ** DECAY_POWER)

    @property
    def warmup_steps(self) -> int:
        """Optimizer steps during which the learning rate rises."""
        return round(self.options.warmup_epochs * self.steps_per_epoch)

    @property
    def decay_steps(self) -> int:
        """Optimizer steps during which it falls."""
        return max(1, self.most_steps - self.warmup_steps)

    def loss(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        images, classes = batch
        smoothing = 0.0 if self.options.mode == "synthetic" else self.options.label_smoothing
        return functional.cross_entropy(model(normalized(images)), classes, label_smoothing=smoothing)

    def synthetic(self) -> Any:
        options, device = self.options, self.rank.device
        layout = torch.channels_last if options.channels_last else torch.contiguous_format
        shape = (options.batch_size, 3, options.image_size, options.image_size)
        images = torch.randn(shape, device=device).to(memory_format=layout)
        return images, torch.randint(CLASSES, (options.batch_size,), device=device)

    def training_data(self, epoch: int) -> Any:
        return self.train_set

    def evaluation_data(self) -> Any:
        """The evaluation images."""
        return self.eval_set

    def train_samples(self) -> int:
        return len(self.train_set)

    def eval_samples(self) -> int:
        return len(self.eval_set)

    def evaluate(self, model: torch.nn.Module) -> float:
        """Top-1 accuracy, 0 to 1."""
        right = torch.zeros((), device=self.rank.device)
        for images, classes in self.feed.evaluation(self.evaluation_data()):
            right += (model(normalized(images)).argmax(1) == classes).sum()
        return self.rank.over_ranks([right.item()], "SUM")[0] / len(self.eval_set)

    def stated(self) -> dict[str, object]:
        """Keys as named by closed_resnet_{sgd,lars} in the round's compliance rules."""
        options = self.options
        facts: dict[str, object] = {"image_size": options.image_size, "model": options.model}
        facts |= {"torchvision_version": torchvision.__version__}
        facts |= {"opt_name": options.opt_name, "fused": options.fused}
        if options.mode != "real":
            return facts
        facts |= {
            f"{options.opt_name}_opt_base_learning_rate": options.learning_rate,
            f"{options.opt_name}_opt_end_learning_rate": END_LEARNING_RATE,
            f"{options.opt_name}_opt_learning_rate_decay_poly_power": DECAY_POWER,
            f"{options.opt_name}_opt_learning_rate_decay_steps": self.decay_steps,
            f"{options.opt_name}_opt_momentum": options.momentum,
            f"{options.opt_name}_opt_weight_decay": options.weight_decay,
            "label_smoothing": options.label_smoothing,
        }
        if options.opt_name == "lars":
            return facts | {
                "lars_epsilon": 0.0,
                "lars_opt_learning_rate_warmup_epochs": options.warmup_epochs,
            }
        return facts | {
            "model_bn_span": options.batch_size,
            "opt_learning_rate_warmup_epochs": options.warmup_epochs,
        }


def parser() -> argparse.ArgumentParser:
    """The common options plus those of this benchmark."""
    cli = arguments(__doc__, max_epochs=41.0)
    cli.add_argument("--model", choices=["resnet18", "resnet34", "resnet50"], default="resnet50")
    cli.add_argument("--image-size", type=int, default=224, help="height and width in pixels, 32 or more")
    cli.add_argument("--opt-name", choices=["sgd", "lars"], default="sgd")
    switch = argparse.BooleanOptionalAction
    cli.add_argument("--fused", action=switch, default=True, help="run SGD's whole update in one kernel")
    cli.add_argument("--momentum", type=float, default=0.9)
    cli.add_argument("--weight-decay", type=float, default=5e-5)
    cli.add_argument(
        "--warmup-epochs", type=float, default=2.0, help="epochs over which the learning rate ramps up"
    )
    cli.add_argument("--label-smoothing", type=float, default=0.1)
    return cli


if __name__ == "__main__":
    chosen = parser()
    options = chosen.parse_args()
    if options.image_size < 32 or (options.batch_size == 1 and options.image_size == 32):
        chosen.error(
            "--image-size must be at least 32, or 33 for a batch of one: the last layer needs two values"
        )
    train(ResNet50, options)
