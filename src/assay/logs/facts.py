"""Facts that several readers state, or that doubts look for: to know their names takes no reader."""

from __future__ import annotations

from typing import Final

OPERATION_UNKNOWN: Final = "operation_unknown"  # what a log that does not state what it measured allows
ONLY_HOST: Final = "only_host"  # the address of both ends of a test between two
NCCL_SETTINGS: Final = {  # fact → its name in the first line of nccl-tests' output, and in its JSON report
    "nccl_warmup_iters": ("warmup iters", "warmup_iters"),
    "nccl_iters": ("iters", "iterations"),
    "nccl_agg_iters": ("agg iters", "aggregated_iterations"),
    "nccl_validation": ("validation", "validation"),
    "nccl_graph": ("graph", "graph"),
    "nccl_unalign": ("unalign", "unalign"),
}
NCCL_BLOCKING: Final = "nccl_blocking"
