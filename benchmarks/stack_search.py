"""How good a stack each search of `assay stack explore` finds, with planted effects and equal budgets.

    python benchmarks/stack_search.py
    python benchmarks/stack_search.py --smallest

A landscape has 4 packages with 5 versions, 2 interpreters and 2 variables with 4 values each. The logarithm
of a stack's speed is a sum of effects, one for each value, and in half of the landscapes also of effects of
pairs. A measurement adds noise of 1 %. Regret is how much faster the best stack of all is than the one that
the search measured as the best. Every search has the same landscapes, noise level and number of measurements;
the difference of its regret from random search's is paired by landscape.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable

from options import parse

from assay.analyse.statistics.intervals import t_quantile
from assay.stacks.explore_spec import SEARCHES, Dimension, Space, StackChoice, Tried, space_of

NOISE = 0.01
SIZES = {"a": 5, "b": 5, "c": 5, "d": 5, "python": 2, "e": 4, "f": 4}


def landscape(seed: int, pairs: bool) -> tuple[Space, Callable[[StackChoice], float]]:
    """A space, and the logarithm of the speed of each of its stacks."""
    order = random.Random(seed)
    dimensions = [Dimension("package", name, tuple(map(str, range(size)))) for name, size in SIZES.items()]
    single = {(d.key, value): order.gauss(0, 0.05) for d in dimensions for value in d.values}
    double: dict[tuple[object, object], float] = {}
    keys = list(single)
    for at, one in enumerate(keys):
        for other in keys[at + 1 :]:
            if pairs and one[0] != other[0]:
                double[one, other] = order.gauss(0, 0.03)

    def speed(choice: StackChoice) -> float:
        values = choice.values
        both = ((one, other) for at, one in enumerate(values) for other in values[at + 1 :])
        return sum(single[one] for one in values) + sum(double.get(pair, 0.0) for pair in both)

    return space_of(dimensions, {}), speed


def regret(name: str, seed: int, budget: int, pairs: bool) -> float:
    """Logarithm of the best speed of all over that of the stack measured as the best."""
    space, speed = landscape(seed, pairs)
    noise = random.Random(f"{seed} noise")
    own = speed(space.incumbent)
    tried: list[Tried] = []
    for _ in range(budget):
        choice = SEARCHES[name](space, tried, seed)
        if choice is None:
            break
        tried.append(Tried(choice, speed(choice) - own + noise.gauss(0, NOISE)))
    found = max([Tried(space.incumbent, 0.0), *tried], key=lambda one: one.gain or 0.0)
    return max(map(speed, space.choices())) - speed(found.choice)


def main() -> None:
    """Print the regret of each search, and its difference from random search's."""
    options = parse(argparse.ArgumentParser(description=__doc__))
    number, budgets = (3, (10,)) if options.smallest else (30, (20, 40))
    for pairs in (False, True):
        for budget in budgets:
            found = {name: [regret(name, at, budget, pairs) for at in range(number)] for name in SEARCHES}
            kind = "effects of pairs too" if pairs else "effects add up"
            print(f"{kind}, {budget} stacks, {number} landscapes")
            for name, values in found.items():
                less = [a - b for a, b in zip(values, found["random"], strict=True)]
                half = t_quantile(0.975, number - 1) * statistics.stdev(less) / number**0.5
                mean = statistics.mean(less)
                interval = f"({100 * (mean - half):+.1f} to {100 * (mean + half):+.1f})"
                print(
                    f"  {name:10}  regret {100 * statistics.mean(values):5.1f} %"
                    f"   minus random's {100 * mean:+5.1f} % {interval}"
                )


if __name__ == "__main__":
    main()
