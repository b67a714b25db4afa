"""Whether this interpreter can train: imports torch and tests what the workloads rely on.

Runs alone: `python …/probing/torch_check.py` prints `:::ASSAY-PROBE {...}`, a flat JSON table of dotted names
under `torch.`. What does not work has its error's text under the same name with `_error`; nothing is a
default.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

MARK = ":::ASSAY-PROBE "
# Errors of a broken installation on import or first use: missing or wrong libraries, a failed driver call
FAULTS = (ImportError, OSError, RuntimeError, AttributeError, ValueError)


def check() -> dict[str, Any]:
    """The table; only `torch.import_error` if torch can't be imported."""
    facts: dict[str, Any] = {"probe.version": 1}
    begin = time.monotonic()
    try:
        torch: Any = importlib.import_module("torch")
        facts["torch.version"] = str(torch.__version__)
    except FAULTS as error:
        facts["torch.import_error"] = error_text(error)
        return facts
    facts["torch.import_s"] = round(time.monotonic() - begin, 3)
    facts["torch.threads"] = torch.get_num_threads()
    facts["torch.gpus"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for name, build in (("cuda", torch.version.cuda), ("hip", torch.version.hip)):
        if build is not None:
            facts[f"torch.{name}"] = str(build)
    if facts["torch.gpus"]:
        try:
            facts["torch.gpu_works"] = float(torch.ones(8, device="cuda").sum()) == 8.0
        except FAULTS as error:
            facts["torch.gpu_error"] = error_text(error)
    facts.update(communication(torch))
    try:
        facts["torch.torchvision"] = str(importlib.import_module("torchvision").__version__)
    except FAULTS as error:
        facts["torch.torchvision_error"] = error_text(error)
    return facts


def communication(torch: Any) -> dict[str, Any]:
    """Built-in backends, and whether a group of one rank works over gloo."""
    distributed = torch.distributed
    if not distributed.is_available():
        return {"torch.gloo": False, "torch.nccl": False}
    facts = {"torch.gloo": distributed.is_gloo_available(), "torch.nccl": distributed.is_nccl_available()}
    if facts["torch.gloo"]:
        try:
            store = distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
            distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
            value = torch.ones(1)
            distributed.all_reduce(value)
            facts["torch.gloo_works"] = float(value) == 1.0
        except FAULTS as error:
            facts["torch.gloo_error"] = error_text(error)
    return facts


def error_text(error: BaseException) -> str:
    """The error on one line, truncated."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


if __name__ == "__main__":
    sys.stdout.write(MARK + json.dumps(check(), allow_nan=False) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a process group's threads are not worth waiting for
