"""The library: one function per question, below the command line and every other face.

Each function takes what the command of its name takes, under the same names, and gives a frozen record
instead of printing. Mistakes raise `assay.errors.AssayError`, with the words that the command would print.
What the library has to say meanwhile goes to the logger `assay`, which is silent unless somebody listens.

A module is imported when one of its functions is first used.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api.comparisons import compare, rank
    from assay.api.curves import scale
    from assay.api.gates import gate
    from assay.api.plans import plan
    from assay.api.runs import run
    from assay.api.scores import score
    from assay.api.sweeps import sweep
    from assay.run.request import make_suite, read_suite

__all__ = [
    "compare", "gate", "make_suite", "plan", "rank", "read_suite", "run", "scale", "score", "sweep",
]  # fmt: skip

_MODULES = {
    "compare": "assay.api.comparisons",
    "gate": "assay.api.gates",
    "make_suite": "assay.run.request",
    "plan": "assay.api.plans",
    "rank": "assay.api.comparisons",
    "read_suite": "assay.run.request",
    "run": "assay.api.runs",
    "scale": "assay.api.curves",
    "score": "assay.api.scores",
    "sweep": "assay.api.sweeps",
}

logging.getLogger("assay").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
