"""Training of GNMT, translation from English to German with LSTMs and attention, as in MLPerf 0.7.

    python -m assay_payloads.training.gnmt --width 64 --vocabulary-size 512 --steps 4
    torchrun --nproc-per-node 8 -m assay_payloads.training.gnmt --mode real --data /data/wmt \\
        --batch-size 256 --precision bf16

The model is that of Wu et al. 2016, "Google's Neural Machine Translation System", with the changes of
MLPerf's reference: 4 + 4 layers; the encoder's first layer reads in both directions; attention (Bahdanau et
al. 2015, with normalized weights) is queried by the decoder's first layer and passed to all later ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from assay_payloads.datasets.parallel_text import PAD
from assay_payloads.training.training import arguments, train
from assay_payloads.training.translation import BeamSearch, Translation, add_options, check_options

LAYERS = 4  # of the encoder, and of the decoder
RANGE = 3.2  # divided by the root of the width: initial weights are uniform, up to 0.1 at width 1024
SEARCH = BeamSearch(beam=5, longest=150, length=0.6, coverage=0.1)
LOWEST = 0.01  # start of the learning rate's rise
DECAY = 0.5
State = list[tuple[Tensor, Tensor]]


def lstm(inputs: int, width: int) -> nn.LSTM:
    """One layer, batch first."""
    return nn.LSTM(inputs, width, batch_first=True)


def backwards(states: Tensor, lengths: Tensor) -> Tensor:
    """Each row's first `lengths` states in reverse order; the padding after them keeps its place.

    So a layer reads a sentence from its end, without padding first, and without a packed sequence, whose
    lengths the host would have to wait for.
    """
    place = torch.arange(states.shape[1], device=states.device).expand(states.shape[:2])
    mirrored = lengths[:, None] - 1 - place
    index = torch.where(mirrored >= 0, mirrored, place)
    return states.gather(1, index[:, :, None].expand_as(states))


class Encoder(nn.Module):
    """Pieces in, their meanings in their sentences out; both are batch × length × width."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.forwards, self.backwards = lstm(width, width), lstm(width, width)
        self.layers = nn.ModuleList(lstm(2 * width if n == 1 else width, width) for n in range(1, LAYERS))

    def forward(self, pieces: Tensor, lengths: Tensor) -> Tensor:
        pieces = self.dropout(pieces)
        ahead, _ = self.forwards(pieces)
        back, _ = self.backwards(backwards(pieces, lengths))
        states = torch.cat([ahead, backwards(back, lengths)], -1)
        for number, layer in enumerate(self.layers, 1):
            output, _ = layer(self.dropout(states))
            states = output + states if number > 1 else output
        return states


class Attention(nn.Module):
    """Mean of the encoder's states, weighted by how well each matches a query of the decoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.question, self.key = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.direction, self.scale = nn.Parameter(torch.empty(width)), nn.Parameter(torch.tensor(width**-0.5))

    def forward(self, questions: Tensor, states: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Context, batch × queries × width, and weights, batch × queries × states."""
        sums = self.question(questions)[:, :, None] + self.key(states)[:, None]
        fit = torch.tanh(sums) @ (self.scale * functional.normalize(self.direction, dim=0))
        weights = fit.masked_fill(padding[:, None], -torch.inf).softmax(-1).to(states.dtype)
        return weights @ states, weights


class GNMT(nn.Module):
    """Encoder and decoder, with one embedding table for both."""

    def __init__(self, rows: int, width: int, dropout: float) -> None:
        super().__init__()
        self.pieces = nn.Embedding(rows, width, padding_idx=PAD)
        self.encoder, self.attention = Encoder(width, dropout), Attention(width)
        self.dropout = nn.Dropout(dropout)
        self.first = lstm(width, width)
        self.layers = nn.ModuleList(lstm(2 * width, width) for _ in range(1, LAYERS))
        self.classifier = nn.Linear(width, rows)
        for weights in self.parameters():
            if weights is not self.attention.scale:
                nn.init.uniform_(weights, -RANGE / width**0.5, RANGE / width**0.5)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """States, batch × length × width, and where the source is padding, batch × length."""
        padding = source == PAD
        return self.encoder(self.pieces(source), (~padding).sum(1)), padding

    def decode(
        self, word_ids: Tensor, states: Tensor, padding: Tensor, state: State | None = None
    ) -> tuple[Tensor, Tensor, State]:
        """Logits after each word, attention, and the layers' states after the last."""
        before: list[tuple[Tensor, Tensor] | None] = [None] * LAYERS if state is None else [*state]
        inputs = self.dropout(self.pieces(word_ids))
        hidden, after = self.first(inputs, before[0])
        context, weights = self.attention(hidden, states, padding)
        ends = [after]
        for number, layer in enumerate(self.layers, 1):
            inputs = self.dropout(torch.cat([hidden, context], -1))
            output, after = layer(inputs, before[number])
            hidden = output + hidden if number > 1 else output
            ends.append(after)
        return self.classifier(hidden), weights, ends

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of what follows each piece of the target except the last, batch × (length - 1) × rows."""
        logits, _, _ = self.decode(target[:, :-1], *self.encode(source))
        return logits


class GnmtDecoder:
    """The model during a beam search: the layers' states of each hypothesis."""

    def __init__(self, model: GNMT, source: Tensor, beam: int) -> None:
        self.model = model
        self.state: State | None = None
        states, padding = model.encode(source)
        self.states, self.padding = states.repeat_interleave(beam, 0), padding.repeat_interleave(beam, 0)

    def next(self, prefix: Tensor) -> tuple[Tensor, Tensor]:
        """Logits after the prefix, whose earlier pieces are in the states, and attention to the source."""
        logits, weights, self.state = self.model.decode(prefix[:, -1:], self.states, self.padding, self.state)
        return logits[:, 0], weights[:, 0]

    def follow(self, rows: Tensor) -> None:
        """Continue from these hypotheses; those of a sentence share its source."""
        self.state = [(hidden[:, rows], cell[:, rows]) for hidden, cell in self.state or []]


class GnmtTraining(Translation):
    """GNMT as a benchmark; a sample is one piece of the source or target."""

    name = "gnmt"
    clip_norm = 5.0

    def model(self) -> GNMT:
        return GNMT(self.options.vocabulary_size, self.options.width, self.options.dropout)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), fused=self.rank.device.type == "cuda")

    def learning_rate(self, step: int) -> float:
        """Exponential rise over the warm-up; later halved once per interval, a limited number of times."""
        options = self.options
        rise = LOWEST ** max(0.0, 1 - step / options.lr_warmup_steps)
        falls = max(0, math.ceil((step - options.remain_steps + 1) / options.decay_interval))
        rate: float = options.learning_rate * rise * DECAY ** min(falls, options.decay_steps)
        return rate

    def decoder(self, model: nn.Module, source: Tensor) -> tuple[GnmtDecoder, BeamSearch]:
        return GnmtDecoder(model, source, SEARCH.beam), SEARCH

    def optimisation(self) -> dict[str, object]:
        options = self.options
        return {
            "opt_learning_rate_alt_warmup_func": True,
            "opt_learning_rate_alt_decay_func": True,
            "opt_learning_rate_remain_steps": options.remain_steps,
            "opt_learning_rate_decay_interval": options.decay_interval,
            "opt_learning_rate_decay_steps": options.decay_steps,
            "opt_learning_rate_decay_factor": DECAY,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(__doc__, batch_size=128, learning_rate=2e-3, max_epochs=8.0)
    add_options(parser, vocabulary_size=32_320, max_length=75, lr_warmup_steps=200, dropout=0.2)
    add = parser.add_argument
    add("--width", type=int, default=1024, help="width of every layer")
    add("--remain-steps", type=int, default=6453, help="steps before the learning rate's first decay")
    add("--decay-interval", type=int, default=809, help="steps between decays")
    add("--decay-steps", type=int, default=4, help="number of decays; each halves the learning rate")
    options = parser.parse_args()
    check_options(parser, options, "remain_steps", "decay_interval")
    train(GnmtTraining, options)


if __name__ == "__main__":
    main()
