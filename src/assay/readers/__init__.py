"""How logs are read: shared by workloads, and for logs that others made, listed here by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.readers.loadgen_log import LOADGEN
from assay.readers.mlperf_log import MLPERF
from assay.readers.numbers import NUMBERS
from assay.readers.reader import Reader
from assay.readers.tf_cnn_log import TF_CNN
from assay.readers.tool_log import TOOL_LOG

__all__ = ["IMPORTED", "Reader"]

IMPORTED: Final[Mapping[str, Reader]] = {
    reader.name: reader for reader in (MLPERF, NUMBERS, LOADGEN, TF_CNN, TOOL_LOG)
}
"""Of what `assay import` takes in. The readers of what Assay runs are their workloads'."""
