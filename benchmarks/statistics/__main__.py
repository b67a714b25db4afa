"""The verdicts' promises, simulated: `python benchmarks/statistics` prints one table with its targets.

Rates over drawn sets of runs whose truth is known. The columns are runs per side; in sequential rows, the
planned maximum. Exits with 1 if a target is missed. `--quick` draws a twentieth of the sets, with targets
widened by three standard errors; `--markdown` prints the table for docs/explanation/statistics.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import agreement
import numpy as np
from arrangement import arrangement
from busy_machine import busy
from coarse_timer import coarse
from experiment import RUNS, Experiment, Target
from many_claims import FAMILIES_LESS, families
from many_looks import sequential
from one_look import dependent, fixed
from replication import needed, sessions
from today import common_practice

SEED = 20260301
SETS, QUICK_SETS = 40_000, 2_000


GROUPS = (
    fixed,
    dependent,
    sequential,
    families,
    sessions,
    needed,
    common_practice,
    busy,
    arrangement,
    coarse,
)


@dataclass(frozen=True)
class Row:
    """An experiment with its rates, one for each of `RUNS`; nan if it was not run."""

    experiment: Experiment
    rates: tuple[float, ...]
    met: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The rates as printed."""
        return tuple(_text(rate, factor=self.experiment.factor) for rate in self.rates)

    @property
    def against(self) -> tuple[str, str]:
        """The target as text, and whether it is met; dashes if the rate is only reported."""
        target = self.experiment.target
        return (target.words, "yes" if self.met else "NO") if target is not None else ("–", "–")


def rows(sets: int, *, allowed_errors: float) -> Iterator[Row]:
    """All experiments; each number of runs has its own seed."""
    for number, experiment in enumerate(chain.from_iterable(group() for group in GROUPS)):
        rates = tuple(experiment.rate(np.random.default_rng((SEED, number, n)), sets, n) for n in RUNS)
        target = experiment.target
        met = target is None or all(
            math.isnan(rate) or _met(target, rate, n, sets, allowed_errors)
            for rate, n in zip(rates, RUNS, strict=True)
        )
        yield Row(experiment, rates, met)


def _met(target: Target, rate: float, n: int, sets: int, allowed_errors: float) -> bool:
    slack = allowed_errors * math.sqrt(0.05 * 0.95 / (sets / FAMILIES_LESS))
    return any(target.met(near, n) for near in (rate, rate - slack, rate + slack))


def _text(rate: float, *, factor: bool) -> str:
    if math.isnan(rate):
        return "–"
    return f"{rate:.2f}" if factor else f"{100 * rate:.1f}"


def _printed(found: Sequence[Row]) -> Iterator[str]:
    group = ""
    yield f"{'':36}" + "".join(f"{f'n={n}':>7}" for n in RUNS) + "  target       met"
    for row in found:
        if row.experiment.group != group:
            group = row.experiment.group
            yield group
        target, met = row.against
        yield f"  {row.experiment.name:34}" + "".join(f"{c:>7}" for c in row.cells) + f"  {target:12} {met}"


def _markdown(found: Sequence[Row]) -> Iterator[str]:
    yield "| runs | rate, % | " + " | ".join(f"n = {n}" for n in RUNS) + " | target | met |"
    yield "|:--|:--|" + "--:|" * len(RUNS) + ":--|:--|"
    for row in found:
        cells = (row.experiment.group, row.experiment.name, *row.cells, *row.against)
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table; exit with 1 if a target is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", "--smallest", action="store_true")
    options.add_argument("--markdown", action="store_true")
    asked = options.parse_args()
    begin, sets = time.monotonic(), QUICK_SETS if asked.quick else SETS
    agreed = agreement.check()
    found = list(rows(sets, allowed_errors=3 if asked.quick else 0))
    print("\n".join((_markdown if asked.markdown else _printed)(found)))
    missed = [f"{row.experiment.group}: {row.experiment.name}" for row in found if not row.met]
    print(
        f"\n{sets:,} sets per rate, in % unless a factor; {agreed:,} comparisons equal to Assay's own; "
        f"seed {SEED}; {time.monotonic() - begin:.0f} s"
    )
    if missed:
        sys.exit("not met: " + "; ".join(missed))


if __name__ == "__main__":
    main()
