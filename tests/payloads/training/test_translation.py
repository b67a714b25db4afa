"""Translation's data, beam search and BLEU, which gnmt and transformer share."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from made_translations import GERMAN, NEWSTEST, ROWS, TRAIN, VOCABULARY, make_translations

pytestmark = pytest.mark.torch
PAD, UNKNOWN, BEGIN, STOP = range(4)


@pytest.fixture
def text() -> Any:
    """The module that reads the data."""
    pytest.importorskip("torch")
    return import_module("assay_payloads.datasets.parallel_text")


@pytest.fixture
def translation(text: Any) -> Any:
    """The module that trains on it."""
    return import_module("assay_payloads.training.translation")


def pairs(text: Any, directory: Path, longest: int = 75) -> Any:
    vocabulary = text.Vocabulary(directory / VOCABULARY, ROWS)
    return text.TrainingPairs(directory, vocabulary, longest)


def test_pairs_are_numbered_by_the_vocabulary_between_two_marks(text: Any, tmp_path: Path) -> None:
    make_translations(tmp_path)
    data = pairs(text, tmp_path)
    assert len(data) == 512
    source, target = data[0]
    for numbers, language in ((source, "en"), (target, "de")):
        line = (tmp_path / f"{TRAIN}.{language}").read_text(encoding="utf-8").splitlines()[0]
        assert (numbers[0], numbers[-1]) == (BEGIN, STOP)
        assert " ".join(data.vocabulary.pieces[n] for n in numbers[1:-1]) == line
    assert data.lengths[0] == len(source) + len(target)
    stored = sum((tmp_path / f"{TRAIN}.{language}").stat().st_size for language in ("en", "de"))
    assert sum(data.stored_bytes(index) for index in range(len(data))) == stored


def test_pairs_that_are_too_long_are_left_out_on_either_side(text: Any, tmp_path: Path) -> None:
    make_translations(tmp_path)
    data = pairs(text, tmp_path, longest=7)
    assert 0 < len(data) < 512
    assert max(len(side) for index in range(len(data)) for side in data[index]) == 7


def test_the_pieces_of_a_word_are_joined_up_to_the_stop_mark(text: Any, tmp_path: Path) -> None:
    make_translations(tmp_path)
    vocabulary = text.Vocabulary(tmp_path / VOCABULARY, ROWS)
    numbers = [vocabulary.numbers[piece] for piece in ("acht", "sie@@", "ben")]
    assert vocabulary.words([*numbers, STOP, numbers[0], PAD]) == ["acht", "sieben"]
    assert vocabulary.words([STOP]) == []


def spoil(directory: Path, name: str, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    path = directory / name
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    return path


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (f"{TRAIN}.de", lambda lines: lines[:-1], "has 512 lines, but {name} has 511; line n of one must"),
        (f"{TRAIN}.en", lambda lines: [], "{path} is empty; expected text"),
        (
            f"{TRAIN}.en",
            lambda lines: [lines[0], b"\n", *lines[2:]],
            "{path}:2 is empty; expected a sentence",
        ),
        (f"{TRAIN}.de", lambda lines: [lines[0], b"f\xfcnf\n", *lines[2:]], "{path}:2 is not UTF-8"),
        (f"{TRAIN}.de", lambda lines: [lines[0], b"nein\n", *lines[2:]], "{path}:2: piece 'nein' is not in"),
        (VOCABULARY, lambda lines: [*lines, b"a\n", b"b\n", b"c\n"], "--vocabulary-size 24 is too small"),
        (f"{NEWSTEST}.de", lambda lines: lines[1:], "has 32 lines, but {name} has 31"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_named(
    text: Any, tmp_path: Path, name: str, change: Any, said: str
) -> None:
    make_translations(tmp_path)
    path = spoil(tmp_path, name, change)

    def read() -> None:
        data = pairs(text, tmp_path)
        text.Newstest(tmp_path, data.vocabulary)
        assert data[1]

    with pytest.raises(import_module("assay_payloads.datasets.feed").UnreadableSampleError) as error:
        read()
    assert said.format(path=path, name=name) in str(error.value)


def test_a_missing_file_is_named(text: Any, tmp_path: Path) -> None:
    make_translations(tmp_path)
    (tmp_path / f"{TRAIN}.de").unlink()
    with pytest.raises(
        import_module("assay_payloads.datasets.feed").UnreadableSampleError,
        match=r"bpe\.32000\.de is missing",
    ):
        pairs(text, tmp_path)


def test_a_piece_of_newstest_that_training_has_not_is_unknown_and_no_error(text: Any, tmp_path: Path) -> None:
    make_translations(tmp_path)
    spoil(tmp_path, f"{NEWSTEST}.tok.bpe.32000.en", lambda lines: [b"one nine\n", *lines[1:]])
    vocabulary = text.Vocabulary(tmp_path / VOCABULARY, ROWS)
    news = text.Newstest(tmp_path, vocabulary)
    assert news.sources[0] == [BEGIN, vocabulary.numbers["one"], UNKNOWN, STOP]


def test_an_arranged_epoch_has_the_same_pairs_and_less_padding(text: Any, tmp_path: Path) -> None:
    make_translations(tmp_path)
    data = pairs(text, tmp_path)
    order = list(range(512))
    arranged = data.arranged(order, 32)
    assert sorted(arranged) == order
    assert arranged == data.arranged(order, 32), "the same on every rank"

    def spread(of: list[int]) -> int:
        steps = [data.lengths[of[first : first + 32]] for first in range(0, 512, 32)]
        return sum(int(step.max() - step.min()) for step in steps)

    assert spread(arranged) < spread(order) / 3
    means = [data.lengths[arranged[first : first + 32]].mean() for first in range(0, 512, 32)]
    assert means != sorted(means), "steps of like length don't follow each other by length"


def test_padding_is_counted_in_no_figure(text: Any) -> None:
    batch = text.collate([([2, 5, 3], [2, 6, 7, 3]), ([2, 5, 6, 7, 3], [2, 3])])
    assert batch["source"].shape == (2, 8)
    assert (batch["source_pieces"], batch["target_pieces"]) == (8, 6)
    assert int((batch["source"] != PAD).sum()) == 8


class Told:
    """A decoder that gives the probabilities that a table has for what may follow a prefix; others can't."""

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]], rows: int = 8) -> None:
        self.table, self.rows = table, rows

    def next(self, prefix: Any) -> tuple[Any, None]:
        import torch

        logits = torch.full((len(prefix), self.rows), -math.inf)
        for row, numbers in enumerate(prefix.tolist()):
            for piece, share in self.table.get(tuple(numbers[1:]), {STOP: 1.0}).items():
                logits[row, piece] = math.log(share)
        return logits, None

    def follow(self, rows: Any) -> None:
        """The prefix says it all."""


TEMPTING = {(): {4: 0.6, 5: 0.4}, (4,): {6: 0.55, 7: 0.45}, (5,): {6: 1.0}}


def test_a_beam_finds_what_the_best_first_piece_hides(translation: Any) -> None:
    greedy = translation.BeamSearch(beam=1, longest=5, length=0.0).translate(Told(TEMPTING), 1, "cpu")
    assert greedy[0][:2] == [4, 6]
    beam = translation.BeamSearch(beam=2, longest=5, length=0.0).translate(Told(TEMPTING), 2, "cpu")
    assert [row[:3] for row in beam] == [[5, 6, STOP]] * 2


def test_a_hypothesis_that_stopped_is_kept_at_its_score(translation: Any) -> None:
    table = {(): {4: 0.7, STOP: 0.3}, (4,): {4: 0.4, 5: 0.3, 6: 0.3}, (4, 4): {4: 0.5, 5: 0.5}}
    found = translation.BeamSearch(beam=2, longest=6, length=0.0).translate(Told(table), 1, "cpu")
    assert found[0][0] == STOP, "0.3 is more than 0.7 · 0.4 · 0.5"


def test_the_length_normalisation_favours_longer_translations(translation: Any) -> None:
    table = {(): {4: 0.5, STOP: 0.5}, (4,): {5: 0.9, 6: 0.1}, (4, 5): {6: 0.9, 5: 0.1}}
    short = translation.BeamSearch(beam=2, longest=6, length=0.0).translate(Told(table), 1, "cpu")
    assert short[0][0] == STOP
    longer = translation.BeamSearch(beam=2, longest=6, length=1.0).translate(Told(table), 1, "cpu")
    assert longer[0][:4] == [4, 5, 6, STOP]


def test_the_coverage_penalty_prefers_what_attends_to_all_of_the_source(translation: Any) -> None:
    import torch

    class Attending(Told):
        """After piece 4 it attends to the first state alone, after 5 to the second too."""

        def next(self, prefix: Any) -> tuple[Any, Any]:
            last = prefix[:, -1]
            seen = torch.where((last == 5)[:, None], torch.tensor([[0.1, 0.9]]), torch.tensor([[0.9, 0.1]]))
            return super().next(prefix)[0], seen

    table = {(): {4: 0.55, 5: 0.45}}
    plain = translation.BeamSearch(beam=2, longest=4, length=0.0).translate(Attending(table), 1, "cpu")
    covering = translation.BeamSearch(beam=2, longest=4, length=0.0, coverage=1.0)
    assert plain[0][0] == 4
    assert covering.translate(Attending(table), 1, "cpu")[0][0] == 5


def pieces(line: str) -> list[str]:
    """Of the one word that has two."""
    return line.replace("sieben", "sie@@ ben").split()


class Parrot:
    """A benchmark's evaluation whose model says given lines; ranks are asked one after the other."""

    def __init__(self, translation: Any, directory: Path, said: list[str]) -> None:
        self.translation, self.directory, self.said = translation, directory, said

    def bleu(self, ranks: int) -> float:
        sums: list[list[float]] = []
        for rank in range(ranks):
            sums.append([])
            self.of_rank(rank, ranks, lambda values, how, kept=sums[-1]: kept.extend(values) or values)
        whole = [sum(column) for column in zip(*sums, strict=True)]
        return self.of_rank(0, ranks, lambda values, how: whole)

    def of_rank(self, rank: int, ranks: int, over_ranks: Callable[..., list[float]]) -> float:
        benchmark = object.__new__(self.translation.Translation)
        benchmark.options = Namespace(data=self.directory, vocabulary_size=ROWS, batch_size=4)
        benchmark.rank = Namespace(rank=rank, size=ranks, device="cpu", over_ranks=over_ranks)
        numbers = benchmark.vocabulary.numbers
        benchmark.translations = lambda model, lines: {
            line: [*(numbers[piece] for piece in pieces(self.said[line])), STOP] for line in lines
        }
        return float(benchmark.evaluate(None))


def test_bleu_is_that_of_all_sentences_however_many_ranks_translate_them(
    translation: Any, tmp_path: Path
) -> None:
    import sacrebleu

    make_translations(tmp_path, train=8, test=12)
    right = (tmp_path / f"{NEWSTEST}.de").read_text(encoding="utf-8").splitlines()
    assert Parrot(translation, tmp_path, right).bleu(1) == pytest.approx(1)
    half = [line if n % 2 else " ".join(line.split()[::-1]) for n, line in enumerate(right)]
    expected = sacrebleu.corpus_bleu(half, [right], lowercase=True, tokenize="intl").score / 100
    assert 0.2 < expected < 0.9
    assert Parrot(translation, tmp_path, half).bleu(1) == pytest.approx(expected)
    assert Parrot(translation, tmp_path, half).bleu(5) == pytest.approx(expected)
    assert Parrot(translation, tmp_path, half).bleu(13) == pytest.approx(expected), (
        "one rank has nothing to do"
    )
    assert Parrot(translation, tmp_path, [GERMAN[0]] * 12).bleu(1) < 0.1
