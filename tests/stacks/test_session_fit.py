"""What sessions added is taken out of the levels of linked stacks."""

from __future__ import annotations

import pytest

from assay.stacks.effects import session_fits


def test_a_shift_of_a_session_is_taken_out_of_linked_stacks_only() -> None:
    cells = [("a", 1, 1.0), ("b", 1, 2.0), ("b", 2, 12.0), ("c", 2, 13.0), ("d", 3, 5.0), ("e", 3, 4.0)]
    linked, others = (fit.levels for fit in session_fits(cells))
    assert linked.keys() == {"a", "b", "c"}
    assert linked["b"] - linked["a"] == pytest.approx(1)
    assert linked["c"] - linked["b"] == pytest.approx(1)
    assert others["d"] - others["e"] == pytest.approx(1)


def test_two_stacks_in_the_same_sessions_have_the_paired_interval() -> None:
    from assay.analyse.statistics.intervals import paired

    pairs = [(1.0, 1.1), (2.0, 2.3), (5.0, 5.1)]
    (fit,) = session_fits(
        [(name, at, y) for at, of in enumerate(pairs) for name, y in zip("ab", of, strict=True)]
    )
    joint, alone = fit.difference("a", "b", 0.95, {}), paired(pairs)
    assert (joint.centre, joint.half, joint.degrees) == (
        pytest.approx(alone.centre),
        pytest.approx(alone.half),
        alone.degrees,
    )


def test_a_common_stack_adds_its_scatter_once_for_each_side() -> None:
    """A and B in two sessions each, next to C only: four cells on each side of the difference."""
    cells = [
        ("a", 1, 1.0),
        ("a", 2, 1.2),
        ("b", 3, 2.0),
        ("b", 4, 2.4),
        *(("c", at, 0.0) for at in (1, 2, 3, 4)),
    ]
    (fit,) = session_fits(cells)
    found = fit.difference("a", "b", 0.95, {})
    assert fit.degrees == 2
    variance = sum(fit.squares.values()) / fit.degrees
    assert found.error == pytest.approx((4 * variance / 2) ** 0.5)
