"""What lies beyond the measured sizes: laws that fit them part there, so an interval covers all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.analyse.scaling.laws import Fit
from assay.records import Estimate

FEWEST = 3  # sizes: any law fits two
STILL_FITS = 0.01  # least probability of the sizes' means under a law that counts; a true law is rarely lost


@dataclass(frozen=True)
class Extrapolation:
    """A throughput beyond the sizes.

    log_speed   its logarithm by the law that fits best, and the ends of the interval over all laws that fit
    efficiency  the same, of the efficiency
    laws        that the interval covers; empty if there is none
    why_none    why there is no interval; "" if there is one
    """

    log_speed: tuple[float, float | None, float | None]
    efficiency: Estimate
    laws: tuple[str, ...]
    why_none: str


def still_fits(fit: Fit) -> bool:
    """Whether the law may be the true one."""
    return fit.misfit is None or fit.misfit >= STILL_FITS


def extrapolate(
    preferred: Fit, candidates: Sequence[Fit], ranks: int, *, one_node: bool, suspect: str
) -> Extrapolation:
    """The throughput on this many ranks.

    preferred   law that the value is taken from if it fits
    candidates  laws of the same sizes, those that fit of which the interval covers
    one_node    all sizes are of one node, so that what further nodes cost was not measured
    suspect     why a size may be slow, so that a law that fits it too would be wrong; "" if none may be
    """
    fitting = [fit for fit in candidates if still_fits(fit)]
    central = preferred if preferred.fits or not fitting else max(fitting, key=lambda fit: fit.misfit or 0)
    speeds = [fit.log_speed(ranks) for fit in fitting]
    shares = [fit.efficiency(ranks) for fit in fitting]
    value, share = central.log_speed(ranks)[0], central.efficiency(ranks)
    why_none = _why_none(central, fitting, one_node=one_node, suspect=suspect)
    if why_none:
        return Extrapolation(
            (value, None, None),
            replace(share, low=None, high=None, confidence=preferred.confidence),
            (),
            why_none,
        )
    low, high = _hull([(low, high) for _, low, high in speeds])
    least, most = _hull([(efficiency.low, efficiency.high) for efficiency in shares])
    return Extrapolation(
        (value, low, high),
        replace(share, low=least, high=most, confidence=preferred.confidence),
        tuple(dict.fromkeys(fit.name for fit in fitting)),
        "",
    )


def _why_none(central: Fit, fitting: Sequence[Fit], *, one_node: bool, suspect: str) -> str:
    if len(central.sizes) < FEWEST:
        return f"any law fits {len(central.sizes)} sizes: measure a third one"
    if one_node:
        return "all sizes are of one node, so what further nodes cost is not known: measure two nodes"
    if suspect:
        return suspect
    if not any(fit.fits for fit in fitting):
        return "the measured sizes deviate from every law by more than the runs' scatter explains"
    if any(fit.log_speed(fit.sizes[0].ranks)[1] is None for fit in fitting):
        return "runs are too few, or too similar"
    return ""


def _hull(intervals: Sequence[tuple[float | None, float | None]]) -> tuple[float | None, float | None]:
    """From the lowest to the highest end; None where any is open."""
    lows, highs = zip(*intervals, strict=True)
    return (
        None if None in lows else min(lows),
        None if None in highs else max(highs),
    )
