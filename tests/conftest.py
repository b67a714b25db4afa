"""What tests need of the world around them, and what happens where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = frozenset(filter(None, os.environ.get("ASSAY_REQUIRE", "").split(",")))


def require(what: str, present: bool, reason: str) -> None:
    """Go on where `present`; else skip with the reason, or fail where ASSAY_REQUIRE names `what`."""
    if present:
        return
    if what in REQUIRED:
        pytest.fail(f"{what} is required here: {reason}")
    pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def mlperf_logs() -> Path:
    """The folder of real MLPerf training results."""
    path = Path(os.environ.get("ASSAY_MLPERF_LOGS", ROOT.parent / "shared" / "mlperf-logs"))
    require(
        "mlperf-logs",
        (path / "scores.txt").is_file(),
        f"no real result files in {path}; set ASSAY_MLPERF_LOGS",
    )
    return path
