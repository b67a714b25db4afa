"""The sampler reads AMD's GPUs with the columns and meanings of NVIDIA's; what AMD lacks is unknown."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import amd_smi_stand_in
import nvml_stand_in
from assay_payloads.sampling import amd_gpus, amd_metrics, gpus, sampler
from conftest import require
from payloads.test_sampling import job, read, sampled

__all__ = ["job"]
JOULES = 15.3e-6  # of one count of the energy counter


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return amd_smi_stand_in.library(tmp_path_factory.mktemp("rocm"))


@pytest.fixture(scope="session")
def binding(library: str) -> Any:
    """AMD's own Python binding, which expects every function; those that aren't there can't be called."""

    there = ctypes.CDLL(library)

    class Library(ctypes.CDLL):
        def __getattr__(self, name: str) -> Any:
            return super().__getattr__(name) if hasattr(there, name) else Missing()

    class Missing:
        """Takes what a binding declares about a function."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROCM_HOME", str(Path(library).parents[1]))
        patch.setattr(ctypes, "CDLL", Library)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay-tests" / "amdsmi"
        patch.syspath_prepend(str(cache))  # not in the environment: where it is, `import ray` needs ROCm
        require(
            "amdsmi",
            importlib.util.find_spec("amdsmi") is not None,
            f"no binding of AMD here; `pip install --no-deps --target {cache} amdsmi==7.0.2` brings it",
        )
        return importlib.import_module("amdsmi")


def opened(
    library: str, patch: pytest.MonkeyPatch, table: str, root: Path = Path("/nowhere")
) -> amd_gpus.AmdGpus:
    patch.setenv("AMD_SMI_STAND_IN", table)
    return amd_gpus.AmdGpus(ctypes.CDLL(library), str(root))


def columns(values: list[float | None]) -> dict[str, float]:
    named = zip(gpus.GPU_COLUMNS, values, strict=True)
    return {name: value for name, value in named if value is not None}


def test_values_are_those_of_amds_own_binding(
    library: str, binding: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = opened(library, monkeypatch, amd_smi_stand_in.table(tmp_path))
    binding.amdsmi_init(binding.AmdSmiInitFlags.INIT_AMD_GPUS)
    device = binding.amdsmi_get_processor_handles()[1]
    metrics = binding.amdsmi_get_gpu_metrics_info(device)
    energy = binding.amdsmi_get_energy_count(device)
    errors = binding.amdsmi_get_gpu_total_ecc_count(device)
    video = binding.AmdSmiMemoryType.VRAM
    of_dies = metrics["current_gfxclks"]
    assert columns(ours.values(1)) == pytest.approx(
        {
            "utilization_percent": binding.amdsmi_get_gpu_activity(device)["gfx_activity"],
            "memory_utilization_percent": binding.amdsmi_get_gpu_activity(device)["umc_activity"],
            "memory_used_bytes": binding.amdsmi_get_gpu_memory_usage(device, video),
            "power_watts": metrics["current_socket_power"],
            "power_instant_watts": metrics["current_socket_power"],
            "temperature_celsius": metrics["temperature_hotspot"],
            "temperature_hotspot_celsius": metrics["temperature_hotspot"],
            "temperature_memory_celsius": metrics["temperature_mem"],
            "sm_clock_hertz": sum(of_dies) / len(of_dies) * 1e6,
            "memory_clock_hertz": metrics["current_uclk"] * 1e6,
            "energy_joules_total": energy["energy_accumulator"] * energy["counter_resolution"] * 1e-6,
            "nvlink_received_bytes_total": sum(metrics["xgmi_read_data_acc"][1:]) * 1024,
            "nvlink_sent_bytes_total": sum(metrics["xgmi_write_data_acc"][1:]) * 1024,
            "ecc_corrected_errors_total": errors["correctable_count"],
            "ecc_uncorrected_errors_total": errors["uncorrectable_count"],
            "power_limited_seconds_total": 0.0,
            "thermal_software_seconds_total": 0.0,
            "thermal_hardware_seconds_total": 0.0,
        }
    )
    assert metrics["xgmi_read_data_acc"][0] == metrics["temperature_edge"] == "N/A"
    assert energy["energy_accumulator"] * JOULES == pytest.approx(15.3)
    assert ours.names[1] == {
        "index": 1,
        "uuid": binding.amdsmi_get_gpu_device_uuid(device),
        "name": binding.amdsmi_get_gpu_asic_info(device)["market_name"],
    }


def test_fields_are_where_amds_binding_has_them(binding: Any) -> None:
    theirs = importlib.import_module("amdsmi.amdsmi_wrapper").struct_amdsmi_gpu_metrics_t
    places = {
        name: (getattr(theirs, name).offset, getattr(theirs, name).size) for name, *_ in theirs._fields_
    }
    ours = amd_metrics.GpuMetrics
    named = [name for name, *_ in ours._fields_ if name in places]
    assert len(named) > 35
    for name in named:
        assert (getattr(ours, name).offset, getattr(ours, name).size) == places[name], name
    assert ctypes.sizeof(theirs) < amd_gpus.ROOM


def test_an_older_gpu_reports_average_power_edge_temperature_and_why_its_clocks_are_low(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = amd_smi_stand_in.table(tmp_path, gpus=1, values=amd_smi_stand_in.MI250)
    found = columns(opened(library, monkeypatch, table).values(0))
    assert found == pytest.approx(
        {
            "utilization_percent": 90, "memory_utilization_percent": 12, "memory_used_bytes": 1 << 30,
            "power_watts": 410, "energy_joules_total": 2_000_000 * JOULES, "temperature_celsius": 44,
            "temperature_hotspot_celsius": 52, "temperature_memory_celsius": 49, "sm_clock_hertz": 1.7e9,
            "memory_clock_hertz": 1.6e9, "clock_reasons": amd_metrics.POWER_CAP,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "reasons"),
    [
        (0, 0),
        (1 << 16, 0x04),
        (1 << 36, 0x20),
        (1 << 45, 0x20),
        (1 << 47, 0x40),
        (1 | 1 << 34, 0x24),
        (1 << 57, 0),
    ],
)
def test_throttle_status_is_told_in_nvmls_reasons(
    status: int, reasons: int, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {**amd_smi_stand_in.MI250, "indep_throttle_status": status}
    table = amd_smi_stand_in.table(tmp_path, gpus=1, values=values)
    assert columns(opened(library, monkeypatch, table).values(0))["clock_reasons"] == reasons


def metrics_of(**counts: int) -> amd_metrics.GpuMetrics:
    """Metrics without a value but these."""
    found = amd_metrics.GpuMetrics.from_buffer(bytearray(b"\xff" * ctypes.sizeof(amd_metrics.GpuMetrics)))
    for name, count in counts.items():
        setattr(found, name, count)
    return found


def test_time_at_a_limit_is_the_share_of_the_firmwares_cycles_and_survives_its_reset() -> None:
    limits, kinds = (
        amd_metrics.ClockLimits(),
        ("ppt_residency_acc", "hbm_thm_residency_acc", "prochot_residency_acc"),
    )

    def at(now_s: float, cycles: int, *held: int) -> list[float | None]:
        counts = dict(zip(kinds, held, strict=True))
        values = limits.values(metrics_of(accumulation_counter=cycles, **counts), now_s)
        return [values["clock_reasons"], *(values[f"{name}_seconds_total"] for name in names)]

    names = ("power_limited", "thermal_software", "thermal_hardware")
    assert at(100.0, 7_000, 50, 50, 50) == [None, 0, 0, 0]  # what was before is not of this run
    assert at(101.0, 8_000, 550, 50, 50) == [0x04, 0.5, 0, 0]
    assert at(101.0, 8_000, 550, 50, 50) == [0x04, 0.5, 0, 0]  # asked again before the firmware has counted
    assert at(103.0, 10_000, 550, 2_050, 150) == [0x20, 0.5, 2.0, pytest.approx(0.1)]
    assert at(104.0, 10, 0, 0, 0) == [None, 0.5, 2.0, pytest.approx(0.1)]  # reset: this second is unknown
    assert at(105.0, 1_010, 0, 0, 1_000) == [0x40, 0.5, 2.0, pytest.approx(1.1)]


def test_a_value_that_a_gpu_lacks_is_unknown_and_never_zero(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = amd_smi_stand_in.table(tmp_path, gpus=1, values={})
    assert columns(opened(library, monkeypatch, none).values(0)) == {}
    bare = amd_smi_stand_in.table(tmp_path, gpus=1, values={"metrics": 1})
    assert columns(opened(library, monkeypatch, bare).values(0)) == {}
    odd = {"metrics": 1, "average_gfx_activity": 65_534, "average_socket_power": 0, "ecc_enabled": 0,
           "ecc_corrected": 0, "ecc_uncorrected": 0, "temperature_mem": 255}  # fmt: skip
    table = amd_smi_stand_in.table(tmp_path, gpus=1, values=odd)
    found = columns(opened(library, monkeypatch, table).values(0))
    assert found == {"temperature_memory_celsius": 255}  # all bits of a byte, but the field has two


def test_values_that_may_not_be_read_are_unknown_and_the_others_are_there(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = amd_smi_stand_in.table(tmp_path, "0 0 memory_used error 10", "0 0 ecc_corrected error 3", gpus=1)
    found = columns(opened(library, monkeypatch, table).values(0))
    assert found["power_watts"] == 700
    assert not {"memory_used_bytes", "ecc_corrected_errors_total"} & set(found)


def test_memory_errors_are_counted_every_few_seconds_only(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(amd_gpus.time, "monotonic", lambda: now[0])
    ours = opened(library, monkeypatch, amd_smi_stand_in.table(tmp_path, gpus=1))
    seen = []
    for errors, passed_s in ((3, 0.0), (9, 5.0), (9, 5.0), (20, 10.0)):
        now[0] += passed_s
        monkeypatch.setenv(
            "AMD_SMI_STAND_IN", amd_smi_stand_in.table(tmp_path, f"0 0 ecc_corrected {errors}", gpus=1)
        )
        seen.append(columns(ours.values(0))["ecc_corrected_errors_total"])
    assert seen == [3, 3, 9, 20]


def test_processes_and_their_memory_are_those_of_the_kernels_compute_driver(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, size in ((10, 1000), (11, 500), (12, 0)):  # the last one has opened all GPUs and uses another
        place = tmp_path / f"sys/class/kfd/kfd/proc/{pid}"
        place.mkdir(parents=True)
        (place / "vram_4711").write_text(f"{size}\n")
        (place / "vram_4712").write_text("77\n")
    ours = opened(library, monkeypatch, amd_smi_stand_in.table(tmp_path, gpus=1), tmp_path)
    found = columns(ours.values(0))
    assert (found["processes"], found["processes_memory_bytes"]) == (2, 1500)


def test_power_counts_once_per_socket(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = amd_smi_stand_in.table(tmp_path, "0 1 socket 0", gpus=2)
    ours = opened(library, monkeypatch, parts)
    assert [name.get("measures_power", True) for name in ours.names] == [True, False]
    energy = {"power_watts", "power_instant_watts", "energy_joules_total"}
    assert [energy & set(columns(ours.values(index))) for index in (0, 1)] == [energy, set()]
    dies = amd_smi_stand_in.table(
        tmp_path, "0 1 energy_accumulator 0", "0 1 average_socket_power 0", values=amd_smi_stand_in.MI250
    )
    ours = opened(library, monkeypatch, dies)
    assert [name.get("measures_power", True) for name in ours.names] == [True, False]
    assert not energy & set(columns(ours.values(1)))
    assert columns(ours.values(1))["utilization_percent"] == 90


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("metrics error 12", "amdsmi_get_gpu_metrics_info: it can't be read: the GPU may be lost"),
        (
            "metrics error 2",
            "amdsmi_get_gpu_metrics_info: the driver no longer has them: the GPU may be lost",
        ),
        ("memory_used error 31", "amdsmi_get_gpu_memory_usage: the GPU is not found"),
        ("metrics error 99", "amdsmi_get_gpu_metrics_info: error 99"),
    ],
)
def test_a_gpu_that_is_lost_and_returns_is_reported_and_the_other_goes_on(
    fault: str, words: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = opened(library, monkeypatch, amd_smi_stand_in.table(tmp_path))
    before = columns(ours.values(1))
    amd_smi_stand_in.table(tmp_path, f"0 1 {fault}")
    with pytest.raises(gpus.GpuError) as lost:
        ours.values(1)
    assert str(lost.value) == words
    assert columns(ours.values(0))["power_watts"] == 700
    amd_smi_stand_in.table(tmp_path)
    assert columns(ours.values(1)) == before


def test_a_gpu_that_does_not_respond_from_the_start_leaves_the_others_and_may_come_later(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = opened(library, monkeypatch, amd_smi_stand_in.table(tmp_path, "0 0 all error 30"))
    assert ours.names[0] == {"index": 0}
    with pytest.raises(gpus.GpuError, match="amdsmi_get_gpu_memory_usage: the GPU is busy"):
        ours.values(0)
    assert columns(ours.values(1))["power_watts"] == 700
    amd_smi_stand_in.table(tmp_path)
    assert columns(ours.values(0))["energy_joules_total"] == pytest.approx(1_000_000 * JOULES)


def amd_sampled(
    patch: pytest.MonkeyPatch, pid: int, lines: int, library: str, table: str, nvml: str = "libnone.so"
) -> list[str]:
    """The first lines that the sampler prints."""
    patch.setenv("AMD_SMI_STAND_IN", table)
    return sampled(pid, lines, 0.1, nvml, os.environ.get("NVML_STAND_IN", ""), library)


def test_both_vendors_gpus_have_one_table_and_what_a_library_prints_tears_no_line(
    library: str, tmp_path: Path, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVML_STAND_IN", nvml_stand_in.table(tmp_path, "0 1 xid 79"))
    amd = amd_smi_stand_in.table(tmp_path, "0 -1 chatter 1", "0 1 current_socket_power 650")
    nvml = nvml_stand_in.library(tmp_path)
    header, samples, events = read(amd_sampled(monkeypatch, job.pid, 15, library, amd, nvml))
    assert [(gpu["index"], gpu["name"]) for gpu in header.gpus] == [
        (0, "Stand-in GPU"), (1, "Stand-in GPU"), (2, "AMD Instinct Stand-in"), (3, "AMD Instinct Stand-in"),
    ]  # fmt: skip
    assert [(event.gpu, event.xid) for event in events] == [(1, 79)]
    power = {(one.gpu, one.values["power_watts"]) for one in samples if one.gpu is not None}
    assert power == {(0, 402.5), (1, 402.5), (2, 700), (3, 650)}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("0 -1 init error 34", "amdsmi_init: the driver is not loaded"),
        ("0 -1 init error 18", "amdsmi_init: the library can't be initialized"),
    ],
)
def test_a_library_that_fails_is_named_and_the_node_is_sampled(
    fault: str, words: str, library: str, tmp_path: Path, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = amd_smi_stand_in.table(tmp_path, fault)
    header, samples, (event,) = read(amd_sampled(monkeypatch, job.pid, 5, library, table))
    assert (event.words, header.gpus, header.gpu) == (words, (), ())
    assert samples


def test_a_driver_without_its_library_is_named(
    job: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = str(tmp_path / "libamd_smi.so")
    header, samples, (event,) = read(amd_sampled(monkeypatch, job.pid, 5, missing, ""))
    assert event.words == f"{missing} of ROCm can't be loaded: AMD's GPUs aren't sampled"
    assert header.gpus == ()
    assert samples


def test_rocms_usual_places_are_searched(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMD_SMI_STAND_IN", amd_smi_stand_in.table(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(Path(library).parents[1]))
    assert len(amd_gpus.AmdGpus.loaded().names) == 2


def test_a_driver_that_hangs_while_it_is_opened_is_left() -> None:
    begin = time.monotonic()
    found = sampler.answer_of(lambda: threading.Event().wait() and None, 0.2)
    assert found == "a GPU driver has not answered for 0.2 s: its GPUs aren't sampled"
    assert time.monotonic() - begin < 5


def test_without_amds_driver_nothing_of_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, amd_gpus.__name__)
    monkeypatch.setattr(sampler, "AMD_DRIVER", str(tmp_path / "amdgpu"))
    assert sampler.opened("libnone.so", "") == ([], [])
    assert amd_gpus.__name__ not in sys.modules
    (tmp_path / "amdgpu").mkdir()
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    sources, problems = sampler.opened("libnone.so", "")
    assert amd_gpus.__name__ in sys.modules
    assert sources or problems
