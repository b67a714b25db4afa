"""NVML without a GPU: a real shared library that answers from a table (see nvml_stand_in.c)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conftest import SUPPORT, require

WHOLE = {
    "utilization": 97,
    "memory_utilization": 40,
    "memory_total": 80 << 30,
    "memory_used": 1 << 30,
    "power": 402_500,
    "temperature": 61,
    "clock1": 1755,
    "clock2": 2619,
    "reasons": 4,
    "ecc0": 3,
    "ecc1": 0,
    "processes": 2,
    "field83": 123_456,
    "field186": 410_000,
    "field74": 2_500_000_000,
    "field197": 1 << 40,
    "field138": 5,
    "field142": 1,
    "field82": 83,
}


def library(folder: Path) -> str:
    """Its path, compiled into a folder."""
    compiler = shutil.which("cc")
    require("c-compiler", compiler is not None, "no C compiler to make a library that answers as NVML does")
    made = folder / "libnvidia-ml.so.1"
    source = SUPPORT / "nvml_stand_in.c"
    subprocess.run([str(compiler), "-O1", "-Wall", "-shared", "-fPIC", "-o", made, source], check=True)
    return str(made)


def table(folder: Path, *lines: str, gpus: int = 2) -> str:
    """A table in which each GPU has every value from the start, then these lines."""
    rows = [f"0 -1 count {gpus}"]
    rows += [f"0 {gpu} {name} {value}" for gpu in range(gpus) for name, value in WHOLE.items()]
    file = folder / "table"
    file.write_text("\n".join([*rows, *lines]) + "\n")
    return str(file)
