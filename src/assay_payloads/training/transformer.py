"""Training of the big Transformer, translation from English to German, as in MLPerf 0.7.

    python -m assay_payloads.training.transformer --width 64 --heads 4 --feedforward 128 \\
        --vocabulary-size 512 --steps 4
    torchrun --nproc-per-node 8 -m assay_payloads.training.transformer --mode real --data /data/wmt \\
        --batch-size 352 --precision bf16

The model is that of Vaswani et al. 2017, "Attention Is All You Need", built from torch's layers. It
normalizes before each layer, not after it, as in MLPerf's reference; encoder, decoder, and classifier share
one embedding table.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from assay_payloads.datasets.parallel_text import PAD
from assay_payloads.training.training import arguments, train
from assay_payloads.training.translation import BeamSearch, Translation, add_options, check_options

BETAS, EPSILON = (0.9, 0.98), 1e-9
BEAM, LENGTH, MORE = 4, 0.6, 50  # MORE: pieces that a translation may have beyond its source's


def positions(length: int, width: int, device: torch.device) -> Tensor:
    """Sines and cosines of each position, length × width: section 3.5 of the paper."""
    rate = torch.exp(torch.arange(width // 2, device=device) * (-math.log(10_000) / (width // 2 - 1)))
    angle = torch.arange(length, device=device)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], 1)


class Transformer(nn.Module):
    """Encoder and decoder with this many layers each."""

    def __init__(
        self, rows: int, width: int, heads: int, feedforward: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.width, self.dropout = width, nn.Dropout(dropout)
        self.pieces = nn.Embedding(rows, width, padding_idx=PAD)
        nn.init.normal_(self.pieces.weight, std=width**-0.5)
        form = {"dropout": dropout, "batch_first": True, "norm_first": True}
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, heads, feedforward, **form),
            *(layers, nn.LayerNorm(width)),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(width, heads, feedforward, **form), layers, nn.LayerNorm(width)
        )
        for weights in [*self.encoder.parameters(), *self.decoder.parameters()]:
            if weights.dim() > 1:  # layers are copies of one layer: here each gets its own weights
                nn.init.xavier_uniform_(weights)

    def embed(self, numbers: Tensor) -> Tensor:
        """Pieces with their positions, batch × length × width."""
        places = positions(numbers.shape[1], self.width, numbers.device)
        embedded: Tensor = self.dropout(self.pieces(numbers) * math.sqrt(self.width) + places)
        return embedded

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """States, batch × length × width, and where the source is padding, batch × length."""
        padding = source == PAD
        return self.encoder(self.embed(source), src_key_padding_mask=padding), padding

    def decode(self, word_ids: Tensor, states: Tensor, padding: Tensor) -> Tensor:
        """States after each word, batch × length × width, each based only on the words up to its own."""
        ahead = nn.Transformer.generate_square_subsequent_mask(word_ids.shape[1], word_ids.device, torch.bool)
        decoded: Tensor = self.decoder(
            self.embed(word_ids), states, tgt_mask=ahead, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return decoded

    def classify(self, states: Tensor) -> Tensor:
        """Logits of the next piece, from the embedding table."""
        return functional.linear(states, self.pieces.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of what follows each piece of the target except the last, batch × (length - 1) × rows."""
        return self.classify(self.decode(target[:, :-1], *self.encode(source)))


class TransformerDecoder:
    """The model during a beam search. It decodes the whole prefix again for each piece: simple, and a small
    part of a training for sentences of 30 pieces.
    """

    def __init__(self, model: Transformer, source: Tensor, beam: int) -> None:
        states, padding = model.encode(source)
        self.model = model
        self.states, self.padding = states.repeat_interleave(beam, 0), padding.repeat_interleave(beam, 0)

    def next(self, prefix: Tensor) -> tuple[Tensor, None]:
        """Logits after the prefix; no attention, which only a coverage penalty needs."""
        return self.model.classify(self.model.decode(prefix, self.states, self.padding)[:, -1]), None

    def follow(self, rows: Tensor) -> None:
        """Hypotheses of a sentence share its source, and the search keeps the prefix."""


class TransformerTraining(Translation):
    """The Transformer as a benchmark; a sample is one piece of the target."""

    name = "transformer"
    counted = ("target",)
    sizes = ("width", "heads", "feedforward", "layers")

    def model(self) -> Transformer:
        options = self.options
        return Transformer(
            options.vocabulary_size,
            options.width,
            options.heads,
            options.feedforward,
            options.layers,
            options.dropout,
        )

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        fused = self.rank.device.type == "cuda"
        return torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPSILON, fused=fused)

    def learning_rate(self, step: int) -> float:
        """Linear rise during warm-up, then decay with the inverse square root of the step."""
        steps = self.options.lr_warmup_steps
        rate: float = self.options.learning_rate * min((step + 1) / steps, math.sqrt(steps / (step + 1)))
        return rate

    def decoder(self, model: nn.Module, source: Tensor) -> tuple[TransformerDecoder, BeamSearch]:
        return TransformerDecoder(model, source, BEAM), BeamSearch(BEAM, source.shape[1] + MORE, LENGTH)

    def optimisation(self) -> dict[str, object]:
        return {
            "opt_adam_beta_1": BETAS[0],
            "opt_adam_beta_2": BETAS[1],
            "opt_adam_epsilon": EPSILON,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(__doc__, batch_size=128, learning_rate=1.976e-3, max_epochs=12.0)
    add_options(parser, vocabulary_size=33_712, max_length=64, lr_warmup_steps=1000, dropout=0.1)
    add = parser.add_argument
    add("--width", type=int, default=1024, help="width of every layer; must be divisible by heads")
    add("--heads", type=int, default=16, help="of attention")
    add("--feedforward", type=int, default=4096, help="inner width of the feed-forward layers")
    add("--layers", type=int, default=6, help="layers in the encoder, and in the decoder")
    options = parser.parse_args()
    check_options(parser, options, "heads", "feedforward", "layers")
    if options.width % options.heads or options.width % 2 or options.width < 4:
        parser.error(
            f"--width {options.width} must be even, at least 4, and a multiple of --heads {options.heads}"
        )
    train(TransformerTraining, options)


if __name__ == "__main__":
    main()
