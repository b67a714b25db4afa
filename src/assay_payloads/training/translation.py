"""Translation from English to German as a benchmark: what GNMT and Transformer share except the model.

parallel_text.py describes the data. The quality is BLEU on newstest2014, translated with beam search.
"""

from __future__ import annotations

import argparse
import math
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from assay_payloads.datasets.parallel_text import (
    BEGIN,
    MARKS,
    PAD,
    STOP,
    VOCABULARY,
    Newstest,
    TrainingPairs,
    Vocabulary,
    padded,
)
from assay_payloads.datasets.parallel_text import collate as collate_pairs
from assay_payloads.training.benchmark import TrainingBenchmark

SMOOTHING = 0.1


class Decoder(Protocol):
    """A model during translation: each sentence's hypotheses are consecutive rows."""

    def next(self, prefix: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits of the next piece, rows × vocabulary; attention to the source, rows × length, or None."""
        ...

    def follow(self, rows: Tensor) -> None:
        """Continue from these rows instead of all rows."""
        ...


class BeamSearch(NamedTuple):
    """Beam search.

    beam      hypotheses kept per sentence
    longest   largest number of pieces of a translation, including its end mark
    length    α of the length normalization ((5 + length) / 6)^α
    coverage  β of the coverage penalty, if the decoder returns its attention

    Source: Wu et al. 2016, section 7, equation 14; finished hypotheses stay in the beam at no cost.
    """

    beam: int
    longest: int
    length: float
    coverage: float = 0.0

    def translate(self, decoder: Decoder, sentences: int, device: torch.device) -> list[list[int]]:
        """The best translation of each sentence, without its start mark."""
        rows = sentences * self.beam
        first = torch.arange(0, rows, self.beam, device=device)[:, None]
        prefix = torch.full((rows, 1), BEGIN, device=device)
        scores = torch.full((sentences, self.beam), -math.inf, device=device)
        scores[:, 0] = 0  # all hypotheses start alike: only one of them counts
        lengths, done = torch.zeros(rows, device=device), torch.zeros(rows, dtype=torch.bool, device=device)
        attended: Tensor | None = None
        for _ in range(self.longest):
            logits, attention = decoder.next(prefix)
            likely = free_after_stop(functional.log_softmax(logits.float(), -1), done)
            pieces = likely.shape[-1]
            sums = scores[:, :, None] + likely.view(sentences, self.beam, pieces)
            scores, chosen = sums.flatten(1).topk(self.beam)
            origin = (chosen // pieces + first).flatten()
            if attention is not None:
                seen = attention.float().masked_fill(done[:, None], 0)
                attended = (seen if attended is None else attended + seen)[origin]
            lengths, done = (lengths + ~done)[origin], done[origin]
            prefix = torch.cat([prefix[origin], (chosen % pieces).view(-1, 1)], 1)
            decoder.follow(origin)
            done |= prefix[:, -1] == STOP
            if done.all():
                break
        scores = scores / ((5 + lengths.view_as(scores)) / 6) ** self.length
        if attended is not None:
            covered = torch.where(attended > 0, attended.clamp(max=1).log(), 0.0).sum(-1)
            scores = scores + self.coverage * covered.view_as(scores)
        best = (scores.argmax(1, keepdim=True) + first).flatten()
        best_translations: list[list[int]] = prefix[best, 1:].tolist()
        return best_translations


def free_after_stop(likely: Tensor, done: Tensor) -> Tensor:
    """Log likelihoods, rows × vocabulary, in which finished rows only continue with padding, at no cost."""
    free = torch.full_like(likely[0], -math.inf)
    free[PAD] = 0
    return torch.where(done[:, None], free, likely)


class Translation(TrainingBenchmark):
    """Samples are pieces, including marks but not padding, of the `counted` sides of a pair.

    sizes  options that set the model's size
    """

    round = "v0.7"
    sample = "tokens"
    quality = "BLEU"
    collate = staticmethod(collate_pairs)
    counted: tuple[str, ...] = ("source", "target")
    sizes: tuple[str, ...] = ("width",)

    def decoder(self, model: torch.nn.Module, source: Tensor) -> tuple[Decoder, BeamSearch]:
        """The model, ready to translate source (sentences × length), and its search settings."""
        raise NotImplementedError

    def optimisation(self) -> dict[str, object]:
        """What the round's rules require of its Adam, in addition to `stated`."""
        raise NotImplementedError

    def stated(self) -> dict[str, object]:
        """Keys as named by closed_gnmt and closed_transformer in the round's compliance rules."""
        options = self.options
        facts = {name: getattr(options, name) for name in ("vocabulary_size", *self.sizes)}
        if options.mode != "real":
            return facts | {"length": options.length}
        adam = {
            "opt_name": "adam",
            "opt_base_learning_rate": options.learning_rate,
            "opt_learning_rate_warmup_steps": options.lr_warmup_steps,
        }
        longest = {"max_sequence_length": (options.max_length, {"method": "discard"})}
        return facts | adam | self.optimisation() | longest

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The data set's vocabulary."""
        return Vocabulary(self.options.data / VOCABULARY, self.options.vocabulary_size)

    @cached_property
    def train_set(self) -> TrainingPairs:
        """The pairs that are short enough."""
        return TrainingPairs(self.options.data, self.vocabulary, self.options.max_length)

    @cached_property
    def eval_set(self) -> Newstest:
        """All of newstest2014."""
        return Newstest(self.options.data, self.vocabulary)

    def training_data(self, epoch: int) -> TrainingPairs:
        return self.train_set

    def train_samples(self) -> int:
        return len(self.train_set)

    def eval_samples(self) -> int:
        return len(self.eval_set)

    def synthetic(self) -> dict[str, Any]:
        """Pairs of random pieces, without padding."""
        options = self.options
        shape, rows = (options.batch_size, options.length), options.vocabulary_size
        sides = {s: torch.randint(MARKS, rows, shape, device=self.rank.device) for s in ("source", "target")}
        return sides | {f"{side}_pieces": options.batch_size * options.length for side in sides}

    def samples(self, batch: dict[str, Any]) -> int:
        return sum(batch[f"{side}_pieces"] for side in self.counted)

    def weight(self, batch: dict[str, Any]) -> float:
        """Pieces of the target that are predicted: all except the start marks."""
        return float(batch["target_pieces"] - len(batch["target"]))

    def loss(self, model: torch.nn.Module, batch: dict[str, Any]) -> Tensor:
        """Mean cross entropy of the pieces that are predicted, with label smoothing of 0.1."""
        logits, labels = model(batch["source"], batch["target"]), batch["target"][:, 1:]
        return functional.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )

    def evaluate(self, model: torch.nn.Module) -> float:
        """BLEU, 0 to 1: detokenized by Moses' rules, scored by sacrebleu, case-insensitive, with `intl`.

        As in MLPerf's GNMT: `detokenizer.perl -l de | sacrebleu -lc --tokenize intl`.
        """
        import sacrebleu
        from sacremoses import MosesDetokenizer

        detokenizer, data = MosesDetokenizer(lang="de"), self.eval_set
        mine = range(len(data))[self.rank.rank :: self.rank.size]
        translations = self.translations(model, sorted(mine, key=lambda line: len(data.sources[line])))
        plain = [detokenizer.detokenize(self.vocabulary.words(numbers)) for numbers in translations.values()]
        sums = [0.0] * 10
        if translations:
            references = [[data.references[line] for line in translations]]
            share = sacrebleu.corpus_bleu(plain, references, lowercase=True, tokenize="intl")
            sums = [float(x) for x in (*share.counts, *share.totals, share.sys_len, share.ref_len)]
        *grams, ours, theirs = (round(x) for x in self.rank.over_ranks(sums, "SUM"))
        whole = sacrebleu.BLEU.compute_bleu(grams[:4], grams[4:], ours, theirs, smooth_method="exp")
        return min(float(whole.score) / 100, 1.0)  # the geometric mean of four 1s is rounded to above 1

    def translations(self, model: torch.nn.Module, lines: list[int]) -> dict[int, list[int]]:
        """The piece numbers of each line's translation."""
        by_line: dict[int, list[int]] = {}
        for first in range(0, len(lines), self.options.batch_size):
            batch = lines[first : first + self.options.batch_size]
            source = padded([self.eval_set.sources[line] for line in batch]).to(self.rank.device)
            decoder, search = self.decoder(model, source)
            numbers = search.translate(decoder, len(batch), self.rank.device)
            by_line |= dict(zip(batch, numbers, strict=True))
        return by_line


def add_options(parser: argparse.ArgumentParser, **defaults: float) -> None:
    """The options of both benchmarks in addition to the common ones, most with their own defaults."""
    add = parser.add_argument
    add("--vocabulary-size", type=int, help="rows of the embedding tables")
    add("--max-length", type=int, help="longest training sentence, in pieces, including special tokens")
    add("--length", type=int, default=32, help="length of synthetic sentences")
    add("--lr-warmup-steps", type=int, help="steps over which the learning rate ramps up")
    add("--dropout", type=float, help="dropout rate during training")
    parser.set_defaults(**defaults)


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace, *more: str) -> None:
    """End the rank on sizes that no model can have."""
    names = ("width", "lr_warmup_steps", *more)
    if min(getattr(options, name) for name in names) < 1:
        parser.error(", ".join(f"--{name.replace('_', '-')}" for name in names) + " must be at least 1")
    if options.vocabulary_size <= MARKS or min(options.length, options.max_length) < 3:
        parser.error(
            "--vocabulary-size must be at least 5; --length and --max-length, which include special tokens, "
            "at least 3"
        )
