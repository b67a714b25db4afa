"""Samples for pre-training BERT: the HDF5 files that MLPerf's reference makes from Wikipedia.

Any number of files below a directory, each with these tables:

    input_ids, input_mask, segment_ids    samples × length
    masked_lm_positions, masked_lm_ids    samples × maximum masked; 0 if a sample has fewer
    next_sentence_labels                  samples
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from assay_payloads.datasets.feed import UnreadableSampleError

WIDE = ("input_ids", "input_mask", "segment_ids")
MASKED = ("masked_lm_positions", "masked_lm_ids")
NEXT = "next_sentence_labels"
TOGETHER = 8  # files whose samples are mixed, and which are open at the same time
NO_WORD = -100  # a label that the loss ignores
Batch = dict[str, Any]


class MaskedTextShards(Dataset[Batch]):
    """Samples of all HDF5 files below a directory, in the order of their names."""

    draws = False

    def __init__(self, directory: Path, length: int, masked: int, rows: int) -> None:
        self.paths = sorted(directory.rglob("*.hdf5"))
        if not self.paths:
            raise UnreadableSampleError(f"{directory} has no *.hdf5 files")
        self.length, self.masked, self.rows = length, masked, rows
        self.ends = np.cumsum([self._check(path) for path in self.paths])

    def _check(self, path: Path) -> int:
        """Samples of a file, whose tables must all exist and have the same length."""
        try:
            with h5py.File(path) as file:
                shapes = {name: file[name].shape for name in (*WIDE, *MASKED, NEXT)}
        except OSError as error:
            raise UnreadableSampleError(f"{path} can't be read as HDF5: {error}") from error
        except KeyError as error:
            raise UnreadableSampleError(f"{path} lacks a table: {error}") from error
        samples = shapes[NEXT][0]
        expected = dict.fromkeys(WIDE, (samples, self.length)) | {NEXT: (samples,)}
        expected |= dict.fromkeys(MASKED, (samples, self.masked))
        for name, shape in shapes.items():
            if shape != expected[name]:
                raise UnreadableSampleError(
                    f"{path}: {name} is {shape}, expected {expected[name]}: set the length and the number of "
                    "masked positions with which the files were made"
                )
        return int(samples)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def file_of(self, index: Any) -> Any:
        """Number of the file with a sample, or with each sample of an array."""
        return np.searchsorted(self.ends, index, side="right")

    def __getitem__(self, index: int) -> Batch:
        path, row = self._place(index)
        sample = {name: np.asarray(table[row], np.int64) for name, table in opened(path).items()}
        limits = {"input_ids": self.rows, "masked_lm_ids": self.rows, "masked_lm_positions": self.length}
        limits |= {"input_mask": 2, "segment_ids": 2, NEXT: 2}
        for name, limit in limits.items():
            least, most = sample[name].min(), sample[name].max()
            if least < 0 or most >= limit:
                raise UnreadableSampleError(
                    f"{path}: {name} of sample {row} are {least} to {most}, expected 0 to {limit - 1}"
                )
        return {name: torch.as_tensor(values) for name, values in sample.items()}

    def _place(self, index: int) -> tuple[Path, int]:
        """File of a sample, and its row there."""
        file = int(np.searchsorted(self.ends, index, side="right"))
        return self.paths[file], index - (int(self.ends[file - 1]) if file else 0)

    def location(self, index: int) -> str:
        """File and row."""
        path, row = self._place(index)
        return f"{path}: sample {row}"

    def stored_bytes(self, index: int) -> int:
        """Bytes of the sample's part of its file."""
        file = int(np.searchsorted(self.ends, index, side="right"))
        samples = self.ends[file] - (self.ends[file - 1] if file else 0)
        return int(self.paths[file].stat().st_size / samples)

    def arranged(self, order: Sequence[int], step: int) -> list[int]:
        """The same samples, grouped by a few files at a time, so that each file is opened once per epoch."""
        files = np.searchsorted(self.ends, order, side="right")
        _, first, which = np.unique(files, return_index=True, return_inverse=True)
        turn = np.argsort(np.argsort(first)) // TOGETHER  # files in the order of their first samples
        result: list[int] = np.asarray(order)[np.argsort(turn[which], kind="stable")].tolist()
        return result


@lru_cache(TOGETHER)
def opened(path: Path) -> dict[str, Any]:
    """The tables of a file, kept open while its neighbors are read: opening takes longer than reading."""
    file = h5py.File(path)
    return {name: file[name] for name in (*WIDE, *MASKED, NEXT)}


def masked_words(batch: Batch) -> Tensor:
    """IDs of the masked words, batch × masked; NO_WORD if none: position 0 is never masked."""
    word_ids: Tensor = batch["masked_lm_ids"].masked_fill(batch["masked_lm_positions"] == 0, NO_WORD)
    return word_ids


def collate(samples: Sequence[Batch]) -> Batch:
    """One tensor per table, and how many positions are not padding."""
    tokens = sum(int(sample["input_mask"].sum()) for sample in samples)
    return {**default_collate(list(samples)), "tokens": tokens}
