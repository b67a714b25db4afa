"""Which files are MLPerf's: by what they are called, or by a line of theirs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from assay.inputs import Log
from assay.logs.inference_app import is_app_log
from assay.logs.loadgen_text import DETAIL, SUMMARY

_LINE: Final = b":::ML"
_NAME: Final = re.compile(rf"result_.*\.txt|.*\.(?:gz|xz)|{re.escape(DETAIL)}|{re.escape(SUMMARY)}")


def is_mlperf_file(path: Path) -> bool:
    """Whether a file is to be read as MLPerf's; a compressed one always is.

    Raises InputError where it can't be read.
    """
    if _NAME.fullmatch(path.name):
        return True
    return any(_LINE in block for block in Log(path).blocks()) or is_app_log(path)
