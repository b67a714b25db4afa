"""Adds two vectors on the first GPU and compares with the CPU: the smallest program that uses one.

Runs alone: `python …/probing/vector_add.py` prints `:::ASSAY-PROBE {...}` with `smoke.vector_add`, or
`smoke.error`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

MARK = ":::ASSAY-PROBE "
ELEMENTS = 50_000  # as in NVIDIA's own vectorAdd
# Errors of a missing library, an incompatible driver, or a missing GPU
FAULTS = (ImportError, OSError, RuntimeError, AssertionError)


def added() -> dict[str, Any]:
    """The table."""
    torch: Any = importlib.import_module("torch")
    a, b = torch.rand(ELEMENTS), torch.rand(ELEMENTS)
    on_gpu = (a.to("cuda") + b.to("cuda")).cpu()
    if not torch.equal(on_gpu, a + b):
        return {"smoke.error": "the sums on the GPU differ from those on the CPU"}
    return {"smoke.vector_add": True, "smoke.device": torch.cuda.get_device_name(0)}


def main() -> None:
    """Print the table; a failure becomes its error's text."""
    try:
        table = added()
    except FAULTS as error:
        table = {"smoke.error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}
    sys.stdout.write(MARK + json.dumps({"probe.version": 1, **table}) + "\n")


if __name__ == "__main__":
    main()
