"""Small HDF5 files in the form of MLPerf's Wikipedia: every sample says one word all the time."""

from __future__ import annotations

from pathlib import Path

LENGTH, MASKED, ROWS = 16, 3, 16
START, MASK, FIRST, WORDS = (
    1,
    2,
    4,
    8,
)  # numbers of the marks, of the first word, and how many words there are


def make_wikipedia(directory: Path, train: int = 256, test: int = 64) -> None:
    """Two files to train on, of different sizes, and one to evaluate with; most samples end in padding."""
    write(directory / "training" / "part_00000.hdf5", train // 4, seed=1)
    write(directory / "training" / "deeper" / "part_00001.hdf5", train - train // 4, seed=2)
    write(directory / "eval" / "part_eval.hdf5", test, seed=3)


def write(path: Path, samples: int, seed: int) -> None:
    """So many samples; the label of the next sentence says whether the word's number is odd."""
    import h5py
    import numpy as np

    chosen = np.random.default_rng(seed)
    words = chosen.integers(FIRST, FIRST + WORDS, samples)
    lengths = chosen.integers(LENGTH - 6, LENGTH + 1, samples)
    places = np.stack([chosen.permutation(9)[:MASKED] + 1 for _ in range(samples)])
    places[:, -1] *= chosen.integers(0, 2, samples)  # half of them have one masked word less
    mask = np.arange(LENGTH) < lengths[:, None]
    inputs = np.where(mask, words[:, None], 0)
    inputs[:, 0] = START
    rows = np.arange(samples)[:, None]
    inputs[rows, places] = np.where(places > 0, MASK, START)
    tables = {
        "input_ids": inputs.astype(np.int32),
        "input_mask": mask.astype(np.int8),
        "segment_ids": (np.arange(LENGTH) >= LENGTH // 2) * mask.astype(np.int8),
        "masked_lm_positions": places.astype(np.int32),
        "masked_lm_ids": np.where(places > 0, words[:, None], 0).astype(np.int32),
        "next_sentence_labels": (words % 2).astype(np.int8),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, table in tables.items():
            file.create_dataset(name, data=table)
