"""Which stack to measure next: candidates, and searches among them.

A candidate has one value of each dimension. A search is a function of what was tried: equal history, equal
proposal. So an exploration that was killed resumes by its journal alone, and no search has a state of its
own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from assay.errors import HostError
from assay.records import digest_of

INCUMBENT: Final = "incumbent"
"""Name of what is used today, next to those of the candidates."""
Kind = Literal["package", "python", "base", "env"]


@dataclass(frozen=True)
class Dimension:
    """Something that varies: a package's version, the interpreter, the base image, or a variable.

    values  as text, at least one
    """

    kind: Kind
    name: str
    values: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name, which no other dimension has."""
        return self.name if self.kind != "env" else f"${self.name}"


@dataclass(frozen=True)
class StackChoice:
    """A value of each dimension, by the dimension's key, in the space's order."""

    values: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """Its name in files."""
        return digest_of([list(pair) for pair in self.values])[:12]

    def __getitem__(self, key: str) -> str:
        return dict(self.values)[key]

    def with_values(self, values: Mapping[str, str]) -> StackChoice:
        """The same with other values, by key."""
        return StackChoice(tuple((key, values.get(key, value)) for key, value in self.values))

    def differs(self, other: StackChoice) -> tuple[tuple[str, str], ...]:
        """Keys and values that the other does not have."""
        return tuple(pair for pair in self.values if pair not in other.values)

    def __str__(self) -> str:
        return ", ".join(
            f"{key} {value}" if key[0] != "$" else f"{key[1:]}={value}" for key, value in self.values
        )


@dataclass(frozen=True)
class Space:
    """All dimensions; the incumbent's values are among them."""

    dimensions: tuple[Dimension, ...]
    incumbent: StackChoice

    @property
    def size(self) -> int:
        """Number of choices, the incumbent included."""
        number = 1
        for dimension in self.dimensions:
            number *= len(dimension.values)
        return number

    def choices(self) -> Iterator[StackChoice]:
        """All of them, the first dimension slowest."""
        keys = [dimension.key for dimension in self.dimensions]
        for values in itertools.product(*(dimension.values for dimension in self.dimensions)):
            yield StackChoice(tuple(zip(keys, values, strict=True)))

    def at(self, number: int) -> StackChoice:
        """The choice at this index of `choices`."""
        values = []
        for dimension in reversed(self.dimensions):
            number, place = divmod(number, len(dimension.values))
            values.append((dimension.key, dimension.values[place]))
        return StackChoice(tuple(reversed(values)))


def space_of(dimensions: Sequence[Dimension], incumbent: Mapping[str, str]) -> Space:
    """The space, with the incumbent's values added where they are missing.

    incumbent  by key; a dimension that it lacks has its first value
    """
    full = tuple(
        d
        if (own := incumbent.get(d.key)) is None or own in d.values
        else Dimension(d.kind, d.name, (own, *d.values))
        for d in dimensions
    )
    return Space(full, StackChoice(tuple((d.key, incumbent.get(d.key, d.values[0])) for d in full)))


@dataclass(frozen=True)
class Tried:
    """A choice that was proposed.

    gain  logarithm of its speed over the incumbent's: above 0 is better; None if it gave no figure
    """

    choice: StackChoice
    gain: float | None


Search = Callable[[Space, Sequence[Tried], int], StackChoice | None]
"""Space, what was tried in order, seed → the next choice, never one that was tried; None if none is left."""


def random_search(space: Space, tried: Sequence[Tried], seed: int) -> StackChoice | None:
    """Any choice that was not tried, each as likely as any other."""
    done = {space.incumbent, *(attempt.choice for attempt in tried)}
    if len(done) >= space.size:
        return None
    order = random.Random(f"{seed} {len(tried)}")  # noqa: S311  (no secret)
    while True:
        choice = space.at(order.randrange(space.size))
        if choice not in done:
            return choice


def one_factor(space: Space, tried: Sequence[Tried], seed: int) -> StackChoice | None:
    """Each value of each dimension alone, from the incumbent; then again from the best choice so far.

    It finds effects that add up, with few choices. An interaction that shows only if two values change
    together stays hidden until one of them is the best by itself. When nothing alone is left to change, it
    continues at random.
    """
    done = {space.incumbent, *(attempt.choice for attempt in tried)}
    base = space.incumbent
    while True:
        around = _neighbors(space, base, random.Random(f"{seed} {base}"))  # noqa: S311  (no secret)
        left = [choice for choice in around if choice not in done]
        if left:
            return left[0]
        best = _best_of([attempt for attempt in tried if attempt.choice in {*around, base}], base)
        if best == base:
            return random_search(space, tried, seed)
        base = best


def _neighbors(space: Space, base: StackChoice, order: random.Random) -> list[StackChoice]:
    """Every choice that differs from this one in one dimension, shuffled."""
    neighbors = [
        base.with_values({dimension.key: value})
        for dimension in space.dimensions
        for value in dimension.values
        if base[dimension.key] != value
    ]
    order.shuffle(neighbors)
    return neighbors


def _best_of(tried: Sequence[Tried], base: StackChoice) -> StackChoice:
    """The best choice that was tried, if it is better than this one."""
    gains = {attempt.choice: attempt.gain for attempt in tried if attempt.gain is not None}
    own = gains.get(base, 0.0)
    better = {choice: gain for choice, gain in gains.items() if gain > own}
    return max(better, key=better.__getitem__, default=base)


def tpe(space: Space, tried: Sequence[Tried], seed: int) -> StackChoice | None:
    """By Optuna's TPE sampler, told of everything that was tried; of equal proposals, the next at random.

    Raises HostError if Optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise HostError(
            "search: tpe needs Optuna; install it: pip install 'assay[explore]', or choose another search"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    scales: dict[str, optuna.distributions.BaseDistribution] = {
        dimension.key: optuna.distributions.CategoricalDistribution(dimension.values)
        for dimension in space.dimensions
    }
    sampler = optuna.samplers.TPESampler(seed=seed + len(tried), multivariate=True, n_startup_trials=6)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    worst = min((attempt.gain for attempt in tried if attempt.gain is not None), default=0.0)
    known = [Tried(space.incumbent, 0.0), *tried]
    study.add_trials(
        [
            optuna.trial.create_trial(
                params=dict(attempt.choice.values),
                distributions=scales,
                # what fails is no better than the worst
                value=worst if attempt.gain is None else attempt.gain,
            )
            for attempt in known
        ]
    )
    done = {attempt.choice for attempt in known}
    if len(done) >= space.size:
        return None
    for _ in range(_MOST_ASKED):
        trial = study.ask(scales)
        choice = StackChoice(tuple((key, trial.params[key]) for key, _ in space.incumbent.values))
        if choice not in done:
            return choice
    return random_search(space, tried, seed)


_MOST_ASKED = 16  # proposals of TPE that were all tried before: then any other choice

SEARCHES: Mapping[str, Search] = {"random": random_search, "one-factor": one_factor, "tpe": tpe}
