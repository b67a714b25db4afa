"""Which files are MLPerf's: by name, or by a line in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from assay.logs.inference_app import is_app_log
from assay.logs.loadgen_text import DETAIL, SUMMARY, is_summary
from assay.logs.log_text import LogText
from assay.logs.mllog import TOKEN

_NAME: Final = re.compile(rf"result_.*\.txt(?:\.gz|\.xz)?|{re.escape(DETAIL)}|{re.escape(SUMMARY)}")


def is_mlperf_file(path: Path) -> bool:
    """Whether to read a file as MLPerf's.

    Raises InputError if it can't be read.
    """
    if _NAME.fullmatch(path.name):
        return True
    return any(TOKEN in block for block in LogText(path).blocks()) or is_app_log(path) or is_summary(path)
