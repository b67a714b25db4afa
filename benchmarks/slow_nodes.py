"""The constants of `outliers.py`; how often nodes are blamed, and slow ones found.

Rates of a multiple of the median absolute deviation and of SuperBench's similarity are for comparison.

`python benchmarks/slow_nodes.py` takes about half an hour; the seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from options import parse, sized

from assay.analyse.statistics import outliers
from assay.analyse.statistics.outliers import FALSE_ALARM, FEWEST, MOST
from assay.analyse.sweeps.nodes import LEAST_LOSS, slow_nodes

SEED = 20260301
SIZES = (*range(FEWEST, 17), 20, 24, 26, 28, 32, 36, 40, 45, 64, 96, 128, 256, 500, 1_000, 2_000, MOST)
MOST_CROWDS = 100_000
CHUNK = 2_000_000
SPREAD, BETWEEN = (
    0.01,
    0.5,
)  # standard deviation of a run, as a share; that of healthy nodes, in multiples of a run's
OTHERS = ((0.02, 0.5), (0.01, 2.5))  # of other systems that the same threshold would have to fit
LOSSES = (0.05, 0.10, 0.25)

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Independent normal values of variance 1."""
    return random.standard_normal(shape)


def laplace(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Exponential tails on both sides, variance 1."""
    return random.laplace(scale=0.5**0.5, size=shape)


def t3(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Student's t with 3 degrees of freedom, variance 1."""
    return random.standard_t(3, shape) / 3**0.5


def heavy_nodes(share: float) -> Draw:
    """Nodes differ as t3, by `share` of their normal runs' spread: the bulk hides the tail."""

    def draw(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return (share * t3(random, shape) + normal(random, shape)) / math.hypot(share, 1)

    return draw


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A longer slow side than fast side: minus a gamma of shape 16 (skewness −0.5), variance 1."""
    return -(random.gamma(16.0, 0.25, shape) - 4.0)


def uniform(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """No tails at all, variance 1."""
    return (random.random(shape) - 0.5) * 12**0.5


def lognormal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A longer slow side, skewness −1.75, variance 1."""
    values = np.exp(0.5 * random.standard_normal(shape))
    return -(values - math.exp(0.125)) / math.sqrt(math.expm1(0.25) * math.exp(0.25))


TWO_LAWS: dict[str, Draw] = {"normal": normal, "t3": t3}
LAWS: dict[str, Draw] = {"normal": normal, "Laplace": laplace, "t3": t3}
CALIBRATED = (*LAWS.values(), heavy_nodes(1.0), heavy_nodes(0.5))
SINGLE = (normal, uniform, t3, skewed, lognormal)


def ratios(values: Floats) -> Floats:
    """Largest distance from the rest over its reach, for many crowds `values[crowd, member]` at once."""
    rest = outliers.rests(np.sort(values, axis=1))
    found: Floats = (rest.below / rest.reach)[:, 1:].max(axis=1)
    return found


def separations(values: Floats) -> Floats:
    """Largest separation of two sides of many crowds."""
    found: Floats = outliers.separations(np.sort(values, axis=1)).max(axis=1)
    return found


def drawn(draw: Draw, members: int, crowds: int, statistic: Callable[[Floats], Floats]) -> Floats:
    """The statistic of this many healthy crowds."""
    random = np.random.default_rng([SEED, members])
    at_once = max(min(CHUNK // members, crowds), 1)
    return np.concatenate([statistic(draw(random, (at_once, members))) for _ in range(crowds // at_once)])


def constants(members: int, draws: int) -> tuple[float, ...]:
    """The ratio that the worst law exceeds at each tabulated rate."""
    return _critical(CALIBRATED, members, draws, ratios, outliers.RATES)


def _critical(
    laws: Sequence[Draw],
    members: int,
    draws: int,
    statistic: Callable[[Floats], Floats],
    rates: Sequence[float],
) -> tuple[float, ...]:
    upper = [1 - rate for rate in rates]
    crowds = max(min(draws // members, MOST_CROWDS), 1)
    worst = np.max([np.quantile(drawn(law, members, crowds, statistic), upper) for law in laws], axis=0)
    return tuple(float(np.ceil(100 * ratio) / 100) for ratio in worst)


def separation(members: int, draws: int) -> float:
    """The separation that the worst single population exceeds at the tabulated rate."""
    return _critical(SINGLE, members, draws, separations, [outliers.BY_CHANCE])[0]


Rule = Callable[[Floats], Floats]
"""`speeds[sweep, node, run]`, logarithms → how suspect each node is; above a threshold it is named."""


def assay_rule(speeds: Floats) -> Floats:
    """2 for nodes that are named or in a slower group, 0 for others."""
    values = np.median(speeds, axis=2)
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    nodes = values.shape[1]
    rest = outliers.rests(ordered)
    limits = np.maximum(outliers.constant(nodes, FALSE_ALARM) * rest.reach, -math.log1p(-LEAST_LOSS))
    apart = (rest.below > limits)[:, 1:]
    counts = np.where(apart.any(axis=1), apart.shape[1] - apart[:, ::-1].argmax(axis=1), 0)
    found = np.zeros_like(values)
    np.put_along_axis(found, order, 2.0 * (np.arange(nodes) < counts[:, None]), axis=1)
    if nodes >= outliers.FEWEST_OF_TWO:
        for sweep in range(len(values)):
            if outliers.lower_population(values[sweep].tolist()) is not None:
                found[sweep] = _by_library(values[sweep])
    return found


def _by_library(values: Floats) -> Floats:
    """The same of one sweep whose nodes are two populations."""
    (crowd,) = slow_nodes({str(at): [math.exp(value)] for at, value in enumerate(values)}, "higher")
    slow = {*crowd.slow, *(crowd.group.nodes if crowd.group is not None and crowd.group.slower else ())}
    return np.array([2.0 * (str(at) in slow) for at in range(len(values))])


def mad_rule(speeds: Floats) -> Floats:
    """Deviation of the median run in median absolute deviations, scaled to standard deviations."""
    values = np.median(speeds, axis=2)
    deviations = values - np.median(values, axis=1, keepdims=True)
    scatter = outliers.TO_SIGMA * np.median(np.abs(deviations), axis=1)
    found: Floats = -deviations / scatter[:, None]
    return found


def similarity_rule(speeds: Floats) -> Floats:
    """SuperBench's rule: 1 − similarity to the most typical node, for nodes slower than that one.

    The distance of two nodes is the area between their empirical distributions over the largest figure.
    Source: Xiong et al., SuperBench, USENIX ATC 2024.
    """
    figures = np.exp(np.sort(speeds, axis=2))
    middle = np.median(figures, axis=1, keepdims=True)
    nearest = np.abs(figures - middle).sum(axis=2).argmin(axis=1)
    typical = figures[np.arange(len(figures)), nearest][:, None, :]
    distance = np.abs(figures - typical).mean(axis=2) / figures.max(axis=(1, 2))[:, None]
    return np.where(figures.mean(axis=2) < typical.mean(axis=2), distance, 0.0)


RULES: tuple[Rule, ...] = (assay_rule, mad_rule, similarity_rule)


def sweeps(
    draw: Draw, nodes: int, runs: int, count: int, spread: float = SPREAD, between: float = BETWEEN
) -> Iterator[Floats]:
    """`count` healthy sweeps, `speeds[sweep, node, run]`, in parts that fit into memory."""
    random = np.random.default_rng([SEED, nodes, runs])
    at_once = max(min(CHUNK // (nodes * runs), count), 1)
    for _ in range(count // at_once):
        own = between * draw(random, (at_once, nodes, 1))
        yield spread * (own + draw(random, (at_once, nodes, runs)))


def suspicion(draw: Draw, nodes: int, runs: int, count: int) -> tuple[list[Floats], list[list[Floats]]]:
    """By rule, each healthy sweep's largest value; by rule and loss, those of slow nodes, 1 % of all."""
    slow = max(nodes // 100, 1)
    healthy: list[list[Floats]] = [[] for _ in RULES]
    faulty: list[list[list[Floats]]] = [[[] for _ in LOSSES] for _ in RULES]
    for speeds in sweeps(draw, nodes, runs, count):
        for rule, greatest in zip(RULES, healthy, strict=True):
            greatest.append(rule(speeds).max(axis=1))
        for at, loss in enumerate(LOSSES):
            slowed = speeds.copy()
            slowed[:, :slow] += math.log1p(-loss)
            for rule, by_loss in zip(RULES, faulty, strict=True):
                by_loss[at].append(rule(slowed)[:, :slow])
    return [np.concatenate(one) for one in healthy], [[np.concatenate(o) for o in one] for one in faulty]


def shared_thresholds(nodes: int, runs: int, count: int) -> list[float]:
    """By rule, the value that 5 % of healthy sweeps exceed in the worst case; 1 for Assay's."""
    found = []
    for draw in LAWS.values():
        for system in ((SPREAD, BETWEEN), *OTHERS):
            parts = sweeps(draw, nodes, runs, count, *system)
            greatest = [[rule(part).max(axis=1) for rule in RULES[1:]] for part in parts]
            found.append(np.quantile(np.concatenate(greatest, axis=1), 1 - FALSE_ALARM, axis=1))
    return [1.0, *np.max(found, axis=0).tolist()]


@dataclass(frozen=True)
class Cell:
    """How the rules perform for one noise, number of nodes, and number of runs.

    alarms   share of healthy sweeps in which a node is named: by Assay, by 3 MAD, by a similarity below 0.95
    own      by loss: share of slow nodes that each rule names; the thresholds of the other two are fitted to
             this noise, so that they name a healthy node as often as Assay does
    shared   the same, but the other two have one threshold for all symmetric noises and systems
    """

    alarms: tuple[float, ...]
    own: tuple[tuple[float, ...], ...]
    shared: tuple[tuple[float, ...], ...]


def cells(nodes: int, runs: int, count: int) -> dict[str, Cell]:
    """Noise → its cell."""
    shared = shared_thresholds(nodes, runs, count)
    found = {}
    for name, law in {**LAWS, "skewed": skewed}.items():
        healthy, faulty = suspicion(law, nodes, runs, count)
        usual = zip(healthy, (1.0, 3.0, 0.05), strict=True)
        alarms = tuple(float((greatest > threshold).mean()) for greatest, threshold in usual)
        rate = max(alarms[0], 1 / len(healthy[0]))
        own = [1.0, *(float(np.quantile(greatest, 1 - rate)) for greatest in healthy[1:])]
        found[name] = Cell(alarms, _shares(faulty, own), _shares(faulty, shared))
    return found


def _shares(faulty: list[list[Floats]], thresholds: list[float]) -> tuple[tuple[float, ...], ...]:
    return tuple(
        tuple(float((by_loss[at] > limit).mean()) for by_loss, limit in zip(faulty, thresholds, strict=True))
        for at in range(len(LOSSES))
    )


def report(count: int) -> None:
    """The table of docs/explanation/statistics.md."""
    for nodes in (8, 64, 1_000):
        for runs in (3, 10):
            for name, cell in cells(nodes, runs, count).items():
                alarms = ", ".join(f"{100 * rate:.1f}" for rate in cell.alarms)
                losses = [_compared(*shares) for shares in zip(cell.own, cell.shared, strict=True)]
                print(
                    f"| {name}, {nodes:,} nodes, {runs} runs | {alarms} | {' | '.join(losses)} |", flush=True
                )


def _compared(own: tuple[float, ...], shared: tuple[float, ...]) -> str:
    first, *others = [f"{100 * share:.0f}" for share in own]
    return ", ".join([first, *(f"{a} ({100 * b:.0f})" for a, b in zip(others, shared[1:], strict=True))])


def main() -> None:
    """Print the constants and the rates of the rules."""
    parser = sized(
        __doc__,
        draws=(20_000_000, 20_000, "values for each size and law"),
        sweeps=(2_000, 10, "healthy sweeps for each rate"),
    )
    parser.add_argument("--table", action="store_true", help="only the constants")
    options = parse(parser)
    print("_TABLE = {")
    for members in SIZES:
        print(f"    {members}: {constants(members, options.draws)},", flush=True)
    print("}")
    for members in (size for size in SIZES if size >= outliers.FEWEST_OF_TWO):
        print(f"    {members}: {separation(members, options.draws)},", flush=True)
    if not options.table:
        report(options.sweeps)


if __name__ == "__main__":
    main()
