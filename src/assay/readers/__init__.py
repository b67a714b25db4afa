"""How logs are read: what workloads share, and the readers of imported logs, listed here by name."""

from __future__ import annotations

from typing import Final

from assay.readers.reader import Reader, guarded_reader
from assay.registry import NamedEntries, registry

__all__ = ["IMPORTED", "Reader"]

IMPORTED: Final[NamedEntries[Reader]] = registry(
    "assay.readers",
    {
        "mlperf": "assay.readers.mlperf_log:MLPERF",
        "numbers": "assay.readers.numbers:NUMBERS",
        "loadgen": "assay.readers.loadgen_log:LOADGEN",
        "tf-cnn-benchmarks": "assay.readers.tf_cnn_log:TF_CNN",
        "tool-log": "assay.readers.tool_log:TOOL_LOG",
    },
    Reader,
    calls_itself=lambda reader: reader.name,
    adapt=guarded_reader,
)
"""Readers of what `assay import` accepts. The readers of what Assay runs belong to their workloads."""
