"""Assay: is this cluster as fast as it should be, how far does it scale, and where is the time lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api import compare, diff, explain, export, gate, history, scale, score, show

__version__ = "0.1.0"
# Questions about what is there; `assay.api` has those that run or change something, too.
__all__ = ["__version__", "compare", "diff", "explain", "export", "gate", "history", "scale", "score", "show"]


def __getattr__(name: str) -> Any:
    """The functions of `assay.api`, imported when they are used: `import assay` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
