"""Tests of a contract whose cases the class that inherits it lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def cases(attribute: str, *names: str) -> Callable[[Test], Test]:
    """A test that runs once for each case in this attribute of its class, which gives these arguments."""

    def listed(test: Test) -> Test:
        test.cases = (names, attribute)  # type: ignore[attr-defined]
        return test

    return listed


class ListedCases:
    """What a class inherits whose tests have `cases`."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Pytest's hook: the cases of one test."""
        names, attribute = getattr(metafunc.function, "cases", ((), ""))
        if names:
            listed: Any = getattr(metafunc.cls, attribute)
            metafunc.parametrize(names, listed)
