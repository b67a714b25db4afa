"""AMD SMI without a GPU: a real shared library that answers from a table (see amd_smi_stand_in.c)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conftest import SUPPORT, require

MI300 = {
    "metrics": 1,
    "temperature_hotspot": 71,
    "temperature_mem": 58,
    "average_gfx_activity": 97,
    "average_umc_activity": 40,
    "current_socket_power": 700,
    "energy_accumulator": 1_000_000,
    **{f"current_gfxclks.{die}": 2_000 + die for die in range(8)},
    "current_gfxclk": 2_000,
    "current_uclk": 1_300,
    **{f"xgmi_read_data_acc.{link}": 10 * link for link in range(1, 8)},
    **{f"xgmi_write_data_acc.{link}": 20 * link for link in range(1, 8)},
    "accumulation_counter": 5_000,
    "prochot_residency_acc": 0,
    "ppt_residency_acc": 300,
    "socket_thm_residency_acc": 0,
    "vr_thm_residency_acc": 0,
    "hbm_thm_residency_acc": 0,
    "memory_used": 3 << 30,
    "memory_total": 192 << 30,
    "ecc_enabled": 1,
    "ecc_corrected": 3,
    "ecc_uncorrected": 1,
    "kfd_id": 4711,
}
MI250 = {
    "metrics": 1,
    "temperature_edge": 44,
    "temperature_hotspot": 52,
    "temperature_mem": 49,
    "average_gfx_activity": 90,
    "average_umc_activity": 12,
    "average_socket_power": 410,
    "energy_accumulator": 2_000_000,
    "average_gfxclk_frequency": 1_600,
    "current_gfxclk": 1_700,
    "current_uclk": 1_600,
    "indep_throttle_status": 1,
    "memory_used": 1 << 30,
    "memory_total": 64 << 30,
    "kfd_id": 4711,
}


def library(folder: Path) -> str:
    """Its path, compiled into a folder, where AMD's binding finds it if the folder is ROCm's."""
    compiler = shutil.which("cc")
    require(
        "c-compiler", compiler is not None, "no C compiler to make a library that answers as AMD SMI does"
    )
    made = folder / "lib" / "libamd_smi.so"
    made.parent.mkdir(exist_ok=True)
    source = SUPPORT / "amd_smi_stand_in.c"
    subprocess.run([str(compiler), "-O1", "-Wall", "-shared", "-fPIC", "-o", made, source], check=True)
    return str(made)


def table(folder: Path, *lines: str, gpus: int = 2, values: dict[str, int] = MI300) -> str:
    """A table in which each GPU has these values from the start, then these lines."""
    rows = [f"0 -1 count {gpus}"]
    rows += [f"0 {gpu} {name} {value}" for gpu in range(gpus) for name, value in values.items()]
    file = folder / "amd-table"
    file.write_text("\n".join([*rows, *lines]) + "\n")
    return str(file)
