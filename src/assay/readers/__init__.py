"""How logs are read: what workloads share, and the readers of imported logs, listed here by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.by_name import ByName
from assay.readers.reader import Reader

__all__ = ["IMPORTED", "Reader"]

IMPORTED: Final[Mapping[str, Reader]] = ByName(
    {
        "mlperf": "assay.readers.mlperf_log:MLPERF",
        "numbers": "assay.readers.numbers:NUMBERS",
        "loadgen": "assay.readers.loadgen_log:LOADGEN",
        "tf-cnn-benchmarks": "assay.readers.tf_cnn_log:TF_CNN",
        "tool-log": "assay.readers.tool_log:TOOL_LOG",
    },
    lambda reader: reader,
)
"""Readers of what `assay import` accepts. The readers of what Assay runs belong to their workloads."""
