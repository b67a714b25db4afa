"""Interim looks at the runs without inflating the error rate: repeated confidence intervals.

Whoever tests after every run from 3 to 20 and stops at the first "significant" one is wrong in 23 % of cases
without a difference. Here the looks are fixed by the largest number of runs, and at each look the interval
has confidence 1 − p, with one p for all looks, such that in 95 % of cases every interval of the
sequence contains the truth. So any conclusion at any look, whatever the reason for stopping, is
wrong in at most 5 % of cases.

The p are calibrated on the sequence of t statistics itself: constants made for known spreads (Pocock,
O'Brien and Fleming) let 5.5 to 6 % through. `benchmarks/sequential_table.py` generates the table.

Source: Jennison and Turnbull, Group Sequential Methods (1999), chapter 9, for repeated intervals.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

LOOKS = (3, 5, 8, 12, 20, 32, 50, 80, 125, 200)
"""Runs per side at the looks, up to the largest number planned."""

ALPHA = 0.05  # over all looks together

IN_FAMILY = 0.8
"""Share of a look's p that several claims may spend together: small levels add up over the looks by up to a
quarter more than 5 % does, because looks far out in the tails are less alike."""


def looks(max_repeats: int) -> tuple[int, ...]:
    """Runs per side at which to look if at most this many are planned; the last is the maximum itself.

    Raises ValueError below 3, where no interval is worth having, and above 200, where nothing is
    tabulated.

    >>> looks(15)
    (3, 5, 8, 12, 15)
    """
    if not LOOKS[0] <= max_repeats <= LOOKS[-1]:
        raise ValueError(
            f"{max_repeats} runs per side at most: looks are tabulated for {LOOKS[0]} to {LOOKS[-1]}"
        )
    return (*LOOKS[: bisect_left(LOOKS, max_repeats)], max_repeats)


def nominal_p(max_repeats: int, paired: bool, *, equal_n: bool = True) -> float:
    """The two-sided p of every look, such that all intervals jointly contain the truth in 95 % of cases.

    paired   the sides are paired by block; else Welch's t, whatever the ratio of the spreads
    equal_n  both sides have the same number of runs at each look; else one has up to four times the other's

    A maximum between two tabulated ones uses the larger one's p, which is on the safe side. A single look
    needs no correction. Raises ValueError as `looks` does.

    >>> nominal_p(20, paired=True)
    0.0129
    """
    planned = looks(max_repeats)
    if len(planned) == 1:
        return ALPHA
    table = _PAIRED if paired else _UNPAIRED if equal_n else _UNPAIRED_UNEQUAL
    return table[LOOKS[bisect_left(LOOKS, max_repeats)]]


def allowance(confidence: float, planned: Sequence[int]) -> str:
    """How an interval of this confidence allows for the looks, as text.

    planned  numbers of runs at the looks

    >>> allowance(0.9871, (3, 5, 8))
    'a 98.7 % interval, so that 95 % hold over all looks, at 3, 5 and 8 runs'
    """
    *most, last = map(str, planned)
    runs = f"{', '.join(most)} and {last}" if most else last
    return f"a {100 * confidence:.3g} % interval, so that 95 % hold over all looks, at {runs} runs"


# Largest number of runs per side → p, rounded down to three digits. The same seed gives the same table:
# seed 20260301, 1,000,000 replicates per configuration. The unpaired ones are the minimum over configurations
# of counts and spreads, because Welch's t errs most when a few noisy runs meet quiet ones.
_PAIRED = {
    5: 0.0281,
    8: 0.0199,
    12: 0.0157,
    20: 0.0129,
    32: 0.0109,
    50: 0.00956,
    80: 0.00849,
    125: 0.00768,
    200: 0.00695,
}
_UNPAIRED = {
    5: 0.0226,
    8: 0.0162,
    12: 0.0129,
    20: 0.0107,
    32: 0.00919,
    50: 0.00807,
    80: 0.00719,
    125: 0.00653,
    200: 0.00593,
}
_UNPAIRED_UNEQUAL = {
    5: 0.015,
    8: 0.0109,
    12: 0.00882,
    20: 0.00735,
    32: 0.00639,
    50: 0.00565,
    80: 0.00509,
    125: 0.00463,
    200: 0.00424,
}
