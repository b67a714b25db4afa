"""Two sources of one signal agree; two signals that differ by more than the tolerance do not."""

from __future__ import annotations

import numpy as np
import pytest

from assay.telemetry.agreement import ERRORS, FLOOR, TOLERANCE, _means


def apart(rng: np.random.Generator, factor: float, duration_s: float = 600.0) -> bool | None:
    """Whether a source every second and one every 15 s are told apart, of a signal with correlated noise."""
    at = np.arange(0, duration_s)
    noise = np.zeros(len(at))
    for k in range(1, len(at)):
        noise[k] = 0.95 * noise[k - 1] + rng.normal(0, 0.1 * np.sqrt(1 - 0.95**2))
    signal = 500 * (1 + noise)
    seen = at[7::15]
    means = _means(at, signal, seen, factor * signal[seen.astype(int)], counter=False)
    if means is None:
        return None
    a, b, error = means
    return bool(abs(a - b) > max(TOLERANCE * max(a, b), FLOOR["W"]) + ERRORS * error)


@pytest.mark.long
def test_one_signal_seen_twice_is_told_apart_in_none_of_400_and_another_in_all() -> None:
    rng = np.random.default_rng(7)
    assert sum(bool(apart(rng, 1.0)) for _ in range(400)) == 0
    assert sum(bool(apart(rng, 1.15)) for _ in range(100)) == 100


def test_a_short_time_in_common_says_nothing() -> None:
    assert apart(np.random.default_rng(7), 2.0, duration_s=50) is None


def test_counters_are_compared_by_their_increase_and_a_reset_says_nothing() -> None:
    at = np.arange(0.0, 300.0)
    seen = at[::15]
    means = _means(at, 1e6 + 3 * at, seen, 5 + 3 * seen, counter=True)
    assert means is not None
    assert means[:2] == (pytest.approx(3), pytest.approx(3))
    reset = np.where(seen < 150, 3 * seen, 3 * (seen - 150))
    assert _means(at, 3 * at, seen, reset, counter=True) is None
