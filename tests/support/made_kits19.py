"""Small volumes in the layout of KiTS19 as MLPerf preprocesses it: bright kidneys with brighter tumours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CASES = 210  # as in KiTS19: 168 to train on, 42 to evaluate


def make_kits19(directory: Path, edge: int = 16, cases: int = CASES) -> Path:
    """Volumes of edge × edge × edge voxels, each with a kidney and in it a tumour; the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for case in range(cases):
        chance = np.random.default_rng(case)
        labels = np.zeros((1, edge, edge, edge), dtype=np.uint8)
        low = chance.integers(1, edge // 2 - 1, 3)
        labels[(0, *(slice(start, start + edge // 2) for start in low))] = 1
        labels[(0, *(slice(start + 1, start + edge // 4 + 1) for start in low))] = 2
        image = labels * 1.5 - 1 + chance.normal(0, 0.2, labels.shape)
        np.save(directory / f"case_{case:05}_x.npy", image.astype(np.float32))
        np.save(directory / f"case_{case:05}_y.npy", labels)
    return directory
