"""Assay: is this cluster as fast as it should be, how far does it scale, and where is time lost?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.version import __version__

if TYPE_CHECKING:
    from assay.api import compare, diff, explain, export, gate, history, scale, score, show

# Questions about existing runs; `assay.api` also has the functions that run or change something.
__all__ = ["__version__", "compare", "diff", "explain", "export", "gate", "history", "scale", "score", "show"]


def __getattr__(name: str) -> Any:
    """The functions of `assay.api`, imported on first use: `import assay` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
