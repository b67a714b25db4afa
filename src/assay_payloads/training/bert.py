"""Pre-training of BERT-large: masked words and next sentences, as in MLPerf since round 0.7.

    python -m assay_payloads.training.bert --layers 2 --width 64 --heads 4 --feedforward 128 --length 32 \
        --masked 5 --steps 4
    torchrun --nproc-per-node 8 -m assay_payloads.training.bert --mode real --data /data/bert \
        --weights ckpt-28252.pt --precision bf16

The model is transformers' BertForPreTraining (Devlin et al. 2019), the optimizer is LAMB (You et al. 2020).
masked_text.py describes the data, which is in the directories training/ and eval/.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForPreTraining

from assay_payloads.datasets.masked_text import NEXT, NO_WORD, Batch, MaskedTextShards, collate, masked_words
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.training import arguments, train

NOT_DECAYED = ("bias", "LayerNorm.weight")
SIZES = ("vocabulary_size", "width", "layers", "heads", "feedforward", "length")
EPSILON = 1e-6


class PretrainingModel(nn.Module):
    """BERT with both heads. Only masked words are predicted, which saves most of that head's work."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.model = BertForPreTraining(config)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the masked words, batch × masked × vocabulary, and of the next sentence, batch × 2."""
        word_ids, mask = batch["input_ids"], None
        if "input_mask" in batch:  # absent without padding: the fastest attention accepts no mask
            # A 4-D mask is used as it is; for a 2-D mask, transformers would wait to see whether it is full.
            mask = batch["input_mask"].bool()[:, None, None, :].expand(-1, -1, word_ids.shape[1], -1)
        encoded = self.model.bert(word_ids, attention_mask=mask, token_type_ids=batch["segment_ids"])
        states = encoded.last_hidden_state
        places = batch["masked_lm_positions"][:, :, None].expand(-1, -1, states.shape[2])
        logits, following = self.model.cls(states.gather(1, places), encoded.pooler_output)
        return logits, following

    def load(self, path: Path) -> None:
        """Start from these weights, with the names that MLPerf's reference and transformers use.

        Tables with fewer words than the model's are padded with zeros. Raises ValueError if the weights are
        for another model.
        """
        weights_by_name = torch.load(path, map_location="cpu", weights_only=True)
        weights_by_name = weights_by_name.get("model", weights_by_name)
        own = self.model.state_dict()
        tied = {name for name in own if name.startswith("cls.predictions.decoder.")}
        lacking, more = own.keys() - weights_by_name.keys() - tied, weights_by_name.keys() - own.keys()
        if lacking or more:
            raise ValueError(f"it lacks {sorted(lacking)[:3]} and has unknown ones: {sorted(more)[:3]}")
        vocabulary = self.model.config.vocab_size
        for name, weights in weights_by_name.items():
            shape, shape_there = own[name].shape, weights.shape
            fills_up = shape[0] == vocabulary and shape_there[0] < vocabulary
            if shape[fills_up:] != shape_there[fills_up:]:
                raise ValueError(f"its {name} is {tuple(shape_there)}, but the model's is {tuple(shape)}")
            own[name].zero_()[: shape_there[0]] = weights


class BertTraining(TrainingBenchmark):
    """BERT as a benchmark; a sample, for throughput, is a token that is not padding."""

    name = "bert"
    round = "v4.0"
    sample = "tokens"
    quality = "masked_lm_accuracy"
    progress = "samples"
    clip_norm = 1.0
    collate = staticmethod(collate)

    def shards(self, directory: str) -> MaskedTextShards:
        """The samples of one of the two directories."""
        options = self.options
        return MaskedTextShards(
            options.data / directory, options.length, options.masked, options.vocabulary_size
        )

    @cached_property
    def train_set(self) -> MaskedTextShards:
        """The training set."""
        return self.shards("training")

    @cached_property
    def eval_set(self) -> MaskedTextShards:
        """The evaluation set."""
        return self.shards("eval")

    def training_data(self, epoch: int) -> MaskedTextShards:
        return self.train_set

    def evaluation_data(self) -> MaskedTextShards:
        """The evaluation set."""
        return self.eval_set

    def train_samples(self) -> int:
        return len(self.train_set)

    def eval_samples(self) -> int:
        return len(self.eval_set)

    def model(self) -> PretrainingModel:
        rows, width, layers, heads, feedforward, length = (getattr(self.options, name) for name in SIZES)
        model = PretrainingModel(
            BertConfig(
                vocab_size=rows,
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=feedforward,
                max_position_embeddings=length,
                hidden_dropout_prob=self.options.dropout,
                attention_probs_dropout_prob=self.options.dropout,
            )
        )
        weights = self.options.weights
        if weights is not None:
            try:
                model.load(weights)
            except (OSError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
                self.rank.fail(f"--weights {weights}: not weights of this model: {error}")
        return model

    def optimizer(self, model: nn.Module) -> LAMB:
        named = list(model.named_parameters())
        decayed = [weight for name, weight in named if not name.endswith(NOT_DECAYED)]
        others = [weight for name, weight in named if name.endswith(NOT_DECAYED)]
        groups = [
            {"params": decayed, "weight_decay": self.options.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return LAMB(groups, (self.options.beta_1, self.options.beta_2))

    def learning_rate(self, step: int) -> float:
        """Linear rise during warm-up, then linear decay, as if from the first step, to 0 after the last."""
        rate: float = self.options.learning_rate
        if self.options.mode == "synthetic":
            return rate
        if step < self.options.lr_warmup_steps:
            return rate * (step + 1) / self.options.lr_warmup_steps
        return rate * max(0.0, 1 - step / self.most_steps)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The micro-batch's mean over masked words plus its mean over next sentences."""
        word_logits, following = model(batch)
        masked = functional.cross_entropy(
            word_logits.flatten(0, 1).float(), masked_words(batch).flatten(), ignore_index=NO_WORD
        )
        return masked + functional.cross_entropy(following.float(), batch[NEXT])

    def samples(self, batch: Batch) -> int:
        tokens: int = batch["tokens"]
        return tokens

    def synthetic(self) -> Batch:
        """Random words without padding, with as many masked as a sample may have."""
        options, device = self.options, self.rank.device
        size, rows = options.batch_size, options.vocabulary_size
        wide, masked = (size, options.length), (size, options.masked)
        return {
            "input_ids": torch.randint(rows, wide, device=device),
            "segment_ids": torch.randint(2, wide, device=device),
            "masked_lm_positions": torch.randint(1, options.length, masked, device=device),
            "masked_lm_ids": torch.randint(rows, masked, device=device),
            NEXT: torch.randint(2, (size,), device=device),
            "tokens": size * options.length,
        }

    def evaluate(self, model: nn.Module) -> float:
        """Share of the masked words that are predicted correctly, 0 to 1."""
        right, seen = (torch.zeros((), device=self.rank.device) for _ in range(2))
        for batch in self.feed.evaluation(self.evaluation_data()):
            labels = masked_words(batch)
            right += (model(batch)[0].argmax(-1) == labels).sum()
            seen += (labels != NO_WORD).sum()
        counted = self.rank.over_ranks([right.item(), seen.item()], "SUM")
        if not counted[1]:
            self.rank.fail(f"{self.options.data}/eval has no masked words: there is nothing to evaluate")
        return counted[0] / counted[1]

    def stated(self) -> dict[str, object]:
        """Keys as named by closed_bert in the rules of rounds 0.7 to 5.0; one key changed its name."""
        options = self.options
        facts: dict[str, object] = {name: getattr(options, name) for name in (*SIZES, "masked")}
        facts |= {"opt_name": "lamb", "weights_given": options.weights is not None}
        if options.mode != "real":
            return facts
        return facts | {
            "opt_base_learning_rate": options.learning_rate,
            "opt_epsilon": EPSILON,
            "opt_lamb_epsilon": EPSILON,
            "opt_lamb_beta_1": options.beta_1,
            "opt_lamb_beta_2": options.beta_2,
            "opt_lamb_weight_decay_rate": options.weight_decay,
            "opt_learning_rate_training_steps": self.most_steps,
            "opt_learning_rate_warmup_steps": options.lr_warmup_steps,
            "num_warmup_steps": options.lr_warmup_steps,
            "start_warmup_step": 0,
            "max_sequence_length": options.length,
            "max_predictions_per_seq": options.masked,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(
        __doc__, batch_size=32, learning_rate=3.5e-4, max_steps=13_700, eval_every=0.001, target=None
    )
    add = parser.add_argument
    add("--vocabulary-size", type=int, default=30_528, help="rows of the word embedding table")
    add("--length", type=int, default=512, help="positions in a sample")
    add("--masked", type=int, default=76, help="maximum number of masked words in a sample")
    add("--width", type=int, default=1024, help="width of every layer; must be divisible by heads")
    add("--layers", type=int, default=24)
    add("--heads", type=int, default=16, help="of attention")
    add("--feedforward", type=int, default=4096, help="inner width of the feed-forward layers")
    add("--dropout", type=float, default=0.1, help="dropout rate during training")
    add("--weights", type=Path, help="file with initial weights; MLPerf starts from ckpt-28252")
    add("--lr-warmup-steps", type=int, default=0, help="steps over which the learning rate ramps up")
    add("--weight-decay", type=float, default=0.01)
    add("--beta-1", type=float, default=0.9, help="LAMB's decay rate for the mean of gradients")
    add("--beta-2", type=float, default=0.999, help="LAMB's decay rate for the mean of squared gradients")
    options = parser.parse_args()
    if min(getattr(options, name) for name in SIZES) < 1 or not 1 <= options.masked < options.length:
        parser.error(
            "sizes must be at least 1, and --masked less than --length: the first position is never masked"
        )
    if options.width % options.heads:
        parser.error(f"--width {options.width} must be a multiple of --heads {options.heads}")
    train(BertTraining, options)


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


if __name__ == "__main__":
    main()
