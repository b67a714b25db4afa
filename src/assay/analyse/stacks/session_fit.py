"""Levels of stacks with what their sessions added taken out, and how well the difference of two is known.

A session shifts all of its stacks alike. Levels are those of the least squares fit of stack + session, so
stacks that no session measured together are compared through others that share sessions with both: A - B is
(A - C) - (B - C). The scatter of C cancels in sessions that have all three and adds up elsewhere, as the fit
has it. Stacks that no chain of sessions links can't be compared.

Few sessions measure each stack, so the spread is that of all linked stacks together. The differences of a
stack that is known to scatter more than the others are known less well.

The fit solves the reduced normal equations, whose matrix has a row for each stack and none for sessions.
Source: Searle, Linear Models (1971), chapter 7: the two-way classification without interaction.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.analyse.statistics.intervals import ROUNDING, LogInterval, constant, t_quantile

if TYPE_CHECKING:
    import numpy as np

Cell = tuple[Hashable, Hashable, float]
"""A stack, the session or the block that shifts it, and the logarithm of its figure there."""


@dataclass(frozen=True)
class SessionFit:
    """The fit of one set of linked stacks.

    levels    stack → its level; only differences mean something
    squares   stack → the sum of the squares of what the fit leaves of its cells
    cells     stack → how many it has
    degrees   of freedom of what the fit leaves
    hidden    every stack gave the same value always: the spread is hidden by its resolution
    """

    levels: Mapping[Hashable, float]
    squares: Mapping[Hashable, float]
    cells: Mapping[Hashable, int]
    degrees: int
    hidden: bool
    _inverse: np.ndarray[Any, Any]
    _shifts: Sequence[np.ndarray[Any, Any]]

    def difference(
        self, a: Hashable, b: Hashable, confidence: float, scatter: Mapping[Hashable, float]
    ) -> LogInterval:
        """Level of B less that of A, with its t interval; no interval if nothing shows the spread.

        scatter  stack → the variance of its cells relative to that of all; 1 by default
        """
        import numpy as np

        centre, n = self.levels[b] - self.levels[a], self.cells[a] + self.cells[b]
        if self.degrees < 1:
            return LogInterval(centre, None, n, "each stack ran only once next to the others")
        if self.hidden:
            return LogInterval(centre, None, n, "all runs of each stack gave the same value")
        if math.fsum(self.squares.values()) < ROUNDING**2:
            why = "the stacks differ by the same in every session: the spread is hidden by its resolution"
            return LogInterval(centre, None, n, why)
        order = list(self.levels)
        direction = self._inverse[order.index(b)] - self._inverse[order.index(a)]
        relative = np.array([scatter.get(stack, 1.0) for stack in order])
        factor = 0.0  # of the variance of a cell, for that of the difference: a weighted sum of cells
        for rows in self._shifts:
            weights = direction[rows] - direction[rows].mean()
            factor += float(relative[rows] @ weights**2)
        error = math.sqrt(factor * math.fsum(self.squares.values()) / self.degrees)
        half = t_quantile((1 + confidence) / 2, self.degrees) * error
        return LogInterval(centre, half, n, error=error, degrees=self.degrees)


def session_fits(cells: Sequence[Cell]) -> list[SessionFit]:
    """The fit of each set of linked stacks."""
    return [_fit(linked_cells) for linked_cells in _linked(cells)]


def _fit(cells: Sequence[Cell]) -> SessionFit:
    import numpy as np

    stacks = {stack: index for index, stack in enumerate(dict.fromkeys(stack for stack, _, _ in cells))}
    by_shift: dict[Hashable, list[tuple[int, float]]] = {}
    for stack, shift, value in cells:
        by_shift.setdefault(shift, []).append((stacks[stack], value))
    shifts = [
        (np.array([row for row, _ in shift_cells]), np.array([y for _, y in shift_cells]))
        for shift_cells in by_shift.values()
    ]
    matrix, right = np.zeros((len(stacks), len(stacks))), np.zeros(len(stacks))
    for rows, values in shifts:
        np.add.at(matrix, (rows, rows), 1.0)
        np.subtract.at(matrix, np.ix_(rows, rows), 1.0 / len(rows))
        np.add.at(right, rows, values - values.mean())
    inverse = np.linalg.pinv(matrix, hermitian=True)
    levels = inverse @ right
    squares, counts = np.zeros(len(stacks)), np.zeros(len(stacks), dtype=int)
    for rows, values in shifts:
        left = values - levels[rows]
        np.add.at(squares, rows, (left - left.mean()) ** 2)
        np.add.at(counts, rows, 1)
    return SessionFit(
        levels={stack: float(levels[index]) for stack, index in stacks.items()},
        squares={stack: float(squares[index]) for stack, index in stacks.items()},
        cells={stack: int(counts[index]) for stack, index in stacks.items()},
        degrees=len(cells) - len(stacks) - len(shifts) + 1,
        hidden=float(squares.sum()) <= len(cells) * ROUNDING**2 and _all_constant(cells),
        _inverse=inverse,
        _shifts=[rows for rows, _ in shifts],
    )


def _all_constant(cells: Iterable[Cell]) -> bool:
    values: dict[Hashable, list[float]] = {}
    for stack, _, value in cells:
        values.setdefault(stack, []).append(value)
    return all(constant(stack_values) for stack_values in values.values())


def _linked(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """The cells of each set of stacks that sessions link, directly or through others."""
    left = list(cells)
    while left:
        stacks, shifts = {left[0][0]}, {left[0][1]}
        before = 0
        while before < len(stacks) + len(shifts):
            before = len(stacks) + len(shifts)
            for stack, shift, _ in left:
                if stack in stacks or shift in shifts:
                    stacks.add(stack)
                    shifts.add(shift)
        yield [cell for cell in left if cell[0] in stacks]
        left = [cell for cell in left if cell[0] not in stacks]
