"""The LAMB optimizer, whose steps are proportional to each layer's weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

EPSILON = 1e-6


class LAMB(torch.optim.Optimizer):
    """Adam, with each tensor's step scaled to the tensor's norm times the learning rate.

    Groups whose weights don't decay (biases, normalizations) take Adam's step, as in MLPerf's
    reference. All tensors of a group are updated together, without waiting.

    Source: You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float]) -> None:
        super().__init__(groups, {"lr": 0.0, "betas": betas, "taken": 0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Take one step with the current gradients."""
        for group in self.param_groups:
            group["taken"] += 1
            weights = group["params"]
            steps = self._adam_steps(group)
            if group["weight_decay"]:
                torch._foreach_add_(steps, weights, alpha=group["weight_decay"])
                ours, theirs = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, steps))
                ratios = torch.where((ours > 0) & (theirs > 0), ours / theirs, 1.0)
                torch._foreach_mul_(steps, list(ratios.unbind()))
            torch._foreach_add_(weights, steps, alpha=-group["lr"])

    def _adam_steps(self, group: dict[str, Any]) -> Sequence[Tensor]:
        weights, (first, second) = group["params"], group["betas"]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] |= {"mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
        gradients = [weight.grad for weight in weights]
        means, squares = ([self.state[weight][name] for weight in weights] for name in ("mean", "square"))
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        spread = torch._foreach_sqrt(torch._foreach_div(squares, 1 - second ** group["taken"]))
        torch._foreach_add_(spread, EPSILON)
        steps: Sequence[Tensor] = torch._foreach_div(means, 1 - first ** group["taken"])
        torch._foreach_div_(steps, spread)
        return steps
