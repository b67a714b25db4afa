"""`assay.compare`, `assay.score` and `assay.scale`: the commands of these names, for programs and notebooks.

They take what the commands take, under the same names, and give frozen records instead of printing. Mistakes
raise `assay.errors.InputError`, with the words that the command would print. Use them as `assay.compare(…)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from assay.analyse.convergence import Convergence
    from assay.analyse.decompose import Decomposition
    from assay.analyse.machines import By
    from assay.analyse.scaling_study import Study
    from assay.analyse.score import ScoredSet
    from assay.records import Comparison, Point, Scaling

_WIDTH = 100  # columns of what `print` shows


@dataclass(frozen=True)
class Compared:
    """What came of `compare`; iterating gives every comparison, of all metrics.

    comparisons   each metric at each point that both sides have
    primary       those of them that the verdict rests on: each benchmark's leading metric
    not_compared  points without a comparison, each with the reason in words
    margin        share that counts as equal: 0.02
    time_to_train trainings to a target, taken apart into convergence and system
    convergence   the sides against the references that were named
    """

    comparisons: tuple[Comparison, ...]
    primary: tuple[Comparison, ...]
    not_compared: tuple[tuple[Point, str], ...]
    margin: float
    time_to_train: tuple[Decomposition, ...] = ()
    convergence: tuple[Convergence, ...] = ()

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def __str__(self) -> str:
        from rich.console import Group

        from assay.report import split_terminal, terminal

        below = split_terminal.splits(self.time_to_train, (), self.convergence)
        first = [terminal.advice(self.primary)] if self.primary else []
        return _printed(Group(*first, terminal.verdicts(self.primary), below))

    def _repr_html_(self) -> str:
        from assay.report import notebook

        return notebook.comparisons(self.primary, self.time_to_train, self.convergence)


@dataclass(frozen=True)
class Scores:
    """What came of `score`; iterating gives the sets of result files, each with its score and its doubts."""

    sets: tuple[ScoredSet, ...]

    def __iter__(self) -> Iterator[ScoredSet]:
        return iter(self.sets)

    def __len__(self) -> int:
        return len(self.sets)

    def __str__(self) -> str:
        from rich.console import Group

        from assay.analyse.rules import NOT_VERIFIED
        from assay.report.scores import scored_set

        return _printed(Group(*map(scored_set, self.sets), NOT_VERIFIED))

    def _repr_html_(self) -> str:
        from assay.report import notebook

        return notebook.scores(self.sets)


@dataclass(frozen=True)
class Scaled:
    """What came of `scale`; iterating gives the curves, one a system, benchmark and swept point.

    studies  the same curves, each with its laws, limit, predictions, layouts and accelerator-hours
    """

    studies: tuple[Study, ...]

    @property
    def curves(self) -> tuple[Scaling, ...]:
        """Each curve alone."""
        return tuple(study.curve for study in self.studies)

    def __iter__(self) -> Iterator[Scaling]:
        return iter(self.curves)

    def __len__(self) -> int:
        return len(self.curves)

    def __str__(self) -> str:
        from assay.report import scaling_terminal

        return _printed(scaling_terminal.studies(self.studies))

    def _repr_html_(self) -> str:
        from assay.report import notebook

        return notebook.studies(self.studies)


def compare(
    a: str,
    b: str | None = None,
    *,
    margin: str | float | None = None,
    metric: str | None = None,
    baseline: str | None = None,
    layouts: bool = False,
    reference: str | Sequence[str] = (),
    runs: str | PathLike[str] | None = None,
) -> Compared:
    """Whether B is as fast as A, as `assay compare A B`; with A alone, its other systems and its baseline.

    margin     share that counts as equal, `"2%"` or 0.02; None is the suite's, or 2 %
    metric     only this one; it is then the primary one
    baseline   of A alone: what its other systems are compared with; None is its own
    layouts    hold shapes of equally many accelerators against each other too, like 16x1 against 2x8
    reference  runs, of one name or several, that the convergence of both sides is held against
    runs       directory that holds the runs; None is $ASSAY_RUNS, else `runs` here

    Raises InputError where a name fits nothing, a margin is none, or nothing can be compared.
    """
    from assay.cli.held import hold
    from assay.cli.options import margin_of

    try:
        width = None if margin is None else margin_of(str(margin))
    except ValueError as error:
        raise InputError(f"margin: {error}") from error
    references = (reference,) if isinstance(reference, str) else tuple(reference)
    held = hold(
        _runs(runs),
        a,
        b,
        margin=width,
        metric=metric,
        layouts=layouts,
        references=references,
        baseline=baseline,
    )
    return Compared(held.found, held.primary, held.not_compared, held.margin, held.splits, held.convergences)


def score(
    path: str | PathLike[str],
    *paths: str | PathLike[str],
    round: str | None = None,  # noqa: A002 - the command's own word for it
    stated: float | str | PathLike[str] | None = None,
) -> Scores:
    """MLPerf training logs scored by their round's rules, as `assay score PATH…`; times in minutes.

    round   where neither log nor folder says it, like `"v3.1"`
    stated  a published score, held against what follows from the logs: minutes of the one set, as text where
            its last digit is a 0; or a CSV of system,benchmark,minutes

    Raises InputError where a path doesn't exist or holds no result files, a round is none, or nothing here is
    what was stated of.
    """
    from assay.cli.score import held_against, round_of, scored_sets

    try:
        said = None if round is None else round_of(round)
    except ValueError as error:
        raise InputError(f"round: {error}") from error
    sets = scored_sets([Path(p) for p in (path, *paths)], said)
    return Scores(tuple(held_against(None if stated is None else str(stated), sets)))


def scale(
    run: str,
    *more: str,
    metric: str | Sequence[str] | None = None,
    at: Sequence[int] = (),
    price_per_accelerator_hour: float | None = None,
    power_w: float | None = None,
    group: By | None = None,
    runs: str | PathLike[str] | None = None,
) -> Scaled:
    """Throughput, speed-up and efficiency over worker counts, and what follows, as `assay scale RUN…`.

    more     further runs of the same curve
    metric   whose curves; None is each benchmark's primary one that scales
    at       ranks to predict for; none: twice and four times the largest size
    power_w  that an accelerator draws, watts
    group    which systems of one run are sizes of one machine: by `name`, by `accelerator` or `none`; None is
             `name` for imported sets, else `none`
    runs     directory that holds the runs; None is $ASSAY_RUNS, else `runs` here

    Raises InputError where a name fits nothing, or nothing was measured at two sizes.
    """
    from assay.analyse.spending import Prices
    from assay.cli.scale import studies_of

    prices = Prices(price_per_accelerator_hour, power_w)
    return Scaled(studies_of(_runs(runs), (run, *more), metric=metric, at=at, prices=prices, group=group))


def _runs(said: str | PathLike[str] | None) -> Path:
    from assay.cli.options import default_runs_dir

    return default_runs_dir() if said is None else Path(said)


def _printed(what: RenderableType) -> str:
    """What the command prints, without colour."""
    from rich.console import Console

    console = Console(width=_WIDTH, no_color=True, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(what)
    return captured.get()
