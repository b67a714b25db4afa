"""Training checkpoints: an interrupted training continues as if it had not been interrupted."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from assay_payloads.measuring.rank import Rank
from assay_payloads.training.step import Stepper

NAME = "checkpoint.pt"
TRAINED = "trained.pt"  # beside it: the network that a training ended with
# Options that may differ, because they change no weight.
FREE = {
    *("checkpoint", "checkpoint_every", "clear_caches", "data", "device", "division"),
    *("keep_memory", "prefetch", "profile", "window", "workers"),
}


class Checkpoint:
    """The newest state in the directory that `--checkpoint` names; without the option, nothing is kept.

    Rank 0 writes it atomically; every rank reads it.
    """

    def __init__(self, rank: Rank, options: argparse.Namespace, stepper: Stepper) -> None:
        self.rank, self.options, self.stepper = rank, options, stepper
        self.path: Path | None = options.checkpoint / NAME if options.checkpoint is not None else None

    def next_due(self, step: int) -> float:
        """The step after which the state is next saved; infinite if it is never saved."""
        every: int = self.options.checkpoint_every
        return math.inf if self.path is None else step - step % every + every

    def save(self, step: int) -> None:
        """Save model, optimizer, scaler, and every rank's random state; all ranks take part."""
        random = {"cpu": torch.get_rng_state()}
        if self.rank.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.rank.device)
        everyones: list[Any] = [random] * self.rank.size
        if self.rank.size > 1:
            dist.all_gather_object(everyones, random)
        if self.path is None or self.rank.rank != 0:
            return
        state = {
            "parameters": self._parameters(),
            "step": step,
            "model": self.stepper.module.state_dict(),
            "optimiser": self.stepper.optimizer.state_dict(),
            "scaler": self.stepper.scaler.state_dict(),
            "random": everyones,
        }
        _write(self.path, state)

    def save_trained(self, step: int) -> None:
        """Save the network alone, to be used: a training of which this is left is not resumed from it."""
        if self.path is None or self.rank.rank != 0:
            return
        state = {"parameters": self._parameters(), "step": step, "model": self.stepper.module.state_dict()}
        _write(self.path.with_name(TRAINED), state)

    def resume(self) -> int:
        """Load the saved state, if any; returns the steps done."""
        if self.path is None:
            return 0
        kept = torch.load(self.path, map_location="cpu", weights_only=True) if self.path.exists() else None
        step = int(kept["step"]) if kept else 0
        least, most = self.rank.over_ranks([-float(step), float(step)], "MAX")
        if -least != most:
            self.rank.fail(
                f"{self.path} is at step {step} here, but at {-least:.0f} to {most:.0f} over the ranks: "
                "all ranks need the same directory"
            )
        if kept is None:
            return 0
        self._compare(kept["parameters"])
        self.stepper.module.load_state_dict(kept["model"])
        self.stepper.optimizer.load_state_dict(kept["optimiser"])
        self.stepper.scaler.load_state_dict(kept["scaler"])
        random = kept["random"][self.rank.rank]
        torch.set_rng_state(random["cpu"])
        if self.rank.device.type == "cuda":
            torch.cuda.set_rng_state(random["cuda"], self.rank.device)
        return step

    def _parameters(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self.options).items() if name not in FREE}
        return {name: str(value) for name, value in own.items()} | {"ranks": str(self.rank.size)}

    def _compare(self, kept: dict[str, Any]) -> None:
        own = self._parameters()
        different = [
            f"{name} {kept.get(name, '(missing)')} there, {own.get(name, '(unknown)')} here"
            for name in sorted(own.keys() | kept.keys())
            if own.get(name) != kept.get(name)
        ]
        if different:
            self.rank.fail(
                f"{self.path} is from another training: {', '.join(different)}; set another --checkpoint "
                "directory, or use the same parameters"
            )


def _write(path: Path, state: dict[str, Any]) -> None:
    """A file that is there whole, or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
