"""Count the distinct values of two million integers; print how many were looked at per second."""

import time

import numpy as np

VALUES, REPEATS = 2_000_000, 5
data = np.random.default_rng(1).integers(0, 1000, VALUES)
assert np.unique(data).size == 1000  # checked, and a warm-up
began = time.perf_counter()
for _ in range(REPEATS):
    np.unique(data)
print(f"rate: {VALUES * REPEATS / (time.perf_counter() - began):.6g} values/s")
