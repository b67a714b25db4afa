"""The sampler reads what the kernel and the driver count, says so line by line, and outlasts their faults."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import nvml_stand_in
from assay.telemetry.samples import Telemetry, TelemetryEvent, TelemetryHeader, TelemetrySample, rates
from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.sampling import gpus, node, sampler

SAMPLER = Path(sampler.__file__)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return nvml_stand_in.library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its input is closed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=-3) as process:
        yield process


def sampled(
    pid: int,
    lines: int,
    period_s: float = 0.1,
    library: str = "libnone.so",
    table: str = "",
    amd_library: str = "",
) -> list[str]:
    """The first lines that a sampler prints."""
    argv = [sys.executable, "-I", "-S", str(SAMPLER), str(pid), str(period_s), library, amd_library]
    env = {**os.environ, "NVML_STAND_IN": table}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        found = [line for line, _ in zip(process.stdout, range(lines), strict=False)]
        process.terminate()
    return found


def read(lines: list[str]) -> tuple[TelemetryHeader, list[TelemetrySample], list[TelemetryEvent]]:
    telemetry = Telemetry()
    found = list(telemetry.read(lines))
    assert telemetry.header is not None
    assert telemetry.torn == 0
    samples = [one for one in found if isinstance(one, TelemetrySample)]
    return telemetry.header, samples, [one for one in found if isinstance(one, TelemetryEvent)]


def test_a_jobs_cpu_time_memory_and_processes_are_those_of_the_whole_tree() -> None:
    burn = (
        "import subprocess, sys\n"
        "memory = bytearray(60_000_000)\n"
        "subprocess.run([sys.executable, '-c', 'while 1: 1'])"
    )
    with subprocess.Popen([sys.executable, "-c", burn], process_group=0) as process:
        lines = sampled(process.pid, 12)
        os.killpg(process.pid, 9)
    header, samples, events = read(lines)
    assert (header.gpus, events) == ((), [])
    assert samples[-1].values["job_processes"] == 2
    assert 60e6 < samples[-1].values["job_memory_bytes"] < 200e6
    used = rates(samples[1], samples[-1])
    assert 0.05 < used["job_cpu_seconds"] < 1.1  # one process that computes, on a machine that others use too
    assert used["cpu_busy_seconds"] >= 0.8 * used["job_cpu_seconds"]
    assert all(later.at_s > earlier.at_s for earlier, later in pairwise(samples))


def test_cpu_time_of_a_child_that_ended_is_not_lost(job: subprocess.Popen[bytes]) -> None:
    worked = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'for i in range(3_000_000): i'])\n"
        "input()"
    )
    with subprocess.Popen([sys.executable, "-c", worked], stdin=subprocess.PIPE, stderr=-3) as process:
        below = node.JobProcesses(FileTree(), process.pid)
        seen = [below.values()["job_cpu_seconds_total"]]
        give_up = time.monotonic() + 30
        while below.values()["job_processes"] > 1 or seen[-1] < 0.05:
            seen.append(below.values()["job_cpu_seconds_total"])
            assert time.monotonic() < give_up
            time.sleep(0.02)
    assert seen == sorted(seen)


def test_it_ends_with_the_job_and_takes_no_other_process_for_it(job: subprocess.Popen[bytes]) -> None:
    below = node.JobProcesses(FileTree(), job.pid)
    assert below.runs()
    argv = [sys.executable, "-I", "-S", str(SAMPLER), str(job.pid), "0.1"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        time.sleep(0.3)
        assert process.poll() is None
        job.communicate(b"\n")
        assert process.wait(10) == 0
    assert not below.runs()
    assert not node.JobProcesses(FileTree(), job.pid).runs()
    below._started = 1  # as if another process had got the process ID
    assert not below.runs()


def test_it_ends_when_nobody_reads_it(job: subprocess.Popen[bytes]) -> None:
    argv = [sys.executable, "-I", "-S", str(SAMPLER), str(job.pid), "0.1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(10) == 0


def test_gpus_are_read_as_the_real_binding_reads_them(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pynvml = pytest.importorskip("pynvml")
    monkeypatch.setenv("NVML_STAND_IN", nvml_stand_in.table(tmp_path))
    monkeypatch.setattr(pynvml, "nvmlLib", pynvml.CDLL(library))
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(1)
    use = pynvml.nvmlDeviceGetUtilizationRates(device)
    fields = pynvml.nvmlDeviceGetFieldValues(device, [83, 186, 74, (138, 0xFFFFFFFF), 142, 82])
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    ours = gpus.Gpus.loaded(library)
    assert ours is not None
    found = dict(zip(gpus.GPU_COLUMNS, ours.values(1), strict=True))
    assert found == {
        **dict.fromkeys(gpus.GPU_COLUMNS),
        "utilization_percent": use.gpu,
        "memory_utilization_percent": use.memory,
        "memory_used_bytes": pynvml.nvmlDeviceGetMemoryInfo(device).used,
        "power_watts": pynvml.nvmlDeviceGetPowerUsage(device) / 1e3,
        "temperature_celsius": pynvml.nvmlDeviceGetTemperature(device, 0),
        "sm_clock_hertz": pynvml.nvmlDeviceGetClockInfo(device, 1) * 1e6,
        "memory_clock_hertz": pynvml.nvmlDeviceGetClockInfo(device, 2) * 1e6,
        "clock_reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(device),
        "ecc_uncorrected_errors_total": pynvml.nvmlDeviceGetTotalEccErrors(device, 1, 0),
        "ecc_corrected_errors_total": pynvml.nvmlDeviceGetTotalEccErrors(device, 0, 0),
        "processes": len(processes),
        "processes_memory_bytes": sum(process.usedGpuMemory for process in processes),
        "energy_joules_total": pynvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3,
        "power_instant_watts": fields[1].value.ullVal / 1e3,
        "power_limited_seconds_total": fields[2].value.ullVal / 1e9,
        "pcie_sent_bytes_total": 1 << 40,
        "nvlink_sent_bytes_total": fields[3].value.ullVal * 1024,
        "remapped_rows_correctable_total": fields[4].value.ullVal,
        "temperature_memory_celsius": fields[5].value.ullVal,
    }
    assert found["ecc_corrected_errors_total"] == 3
    assert ours.names[1] == {"index": 1, "uuid": "GPU-00000001", "name": "Stand-in GPU"}


def test_a_gpu_that_falls_off_the_bus_and_returns_is_reported_and_the_other_goes_on(
    library: str, tmp_path: Path, job: subprocess.Popen[bytes]
) -> None:
    table = nvml_stand_in.table(tmp_path, "0.35 1 all error 15", "0.35 1 xid 79", "0.75 1 utilization 5")
    back = [f"0.75 1 {name} {value}" for name, value in nvml_stand_in.WHOLE.items()]
    Path(table).write_text(Path(table).read_text() + "\n".join(back) + "\n")
    _, samples, events = read(sampled(job.pid, 40, library=library, table=table))
    lost, again = (event for event in events if event.xid is None)
    assert lost.words == "GPU 1: nvmlDeviceGetUtilizationRates: the GPU is lost: it has fallen off the bus"
    assert again.words == "GPU 1: it responds again"
    (xid,) = (event for event in events if event.xid is not None)
    assert (xid.gpu, xid.xid) == (1, 79)
    times = {index: [one.at_s for one in samples if one.gpu == index] for index in (0, 1)}
    assert not [at_s for at_s in times[1] if lost.at_s < at_s < again.at_s]
    assert [at_s for at_s in times[0] if lost.at_s < at_s < again.at_s]


def test_a_call_that_takes_seconds_holds_up_only_its_gpu(
    library: str, tmp_path: Path, job: subprocess.Popen[bytes]
) -> None:
    table = nvml_stand_in.table(tmp_path, "0 1 power sleep 2000 100000")
    _, samples, _ = read(sampled(job.pid, 25, library=library, table=table))
    assert {one.gpu for one in samples if one.at_s < 1.5} == {None, 0}


def test_a_driver_that_is_not_loaded_is_said_and_the_node_is_sampled(
    library: str, tmp_path: Path, job: subprocess.Popen[bytes]
) -> None:
    table = nvml_stand_in.table(tmp_path, "0 -1 init error 9")
    header, samples, (event,) = read(sampled(job.pid, 5, library=library, table=table))
    assert event.words == "nvmlInit_v2: the driver is not loaded"
    assert header.gpus == ()
    assert samples


def test_a_value_that_a_gpu_does_not_have_is_unknown_and_never_zero(
    library: str, tmp_path: Path, job: subprocess.Popen[bytes]
) -> None:
    file = tmp_path / "table"
    file.write_text("0 -1 count 1\n0 0 power 70000\n")
    _, samples, events = read(sampled(job.pid, 5, library=library, table=str(file)))
    of_gpu = next(one for one in samples if one.gpu == 0)
    assert of_gpu.values == {"power_watts": 70.0}
    assert events == []


def test_a_full_disk_loses_samples_which_are_counted_and_leaves_no_half_line(tmp_path: Path) -> None:
    file = tmp_path / "out"
    program = (
        "import os, resource, sys\n"
        "from assay_payloads.sampling.sampler import Lines\n"
        "out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "lines = Lines(out)\n"
        "for i in range(20): lines.sample('n', [i])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "for i in range(20, 23): lines.sample('n', [i])\n"
    )

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (101, resource.RLIM_INFINITY))

    subprocess.run([sys.executable, "-c", program, str(file)], preexec_fn=limited, check=True)
    header = {"version": 1, "started_at": 0, "period_s": 1, "node": ["v"], "gpu": [], "gpus": []}
    telemetry = Telemetry()
    found = list(telemetry.read([sampler.MARK + json.dumps(header), *file.read_text().split("\n")]))
    kept = [one.values["v"] for one in found if isinstance(one, TelemetrySample)]
    (missing,) = (one for one in found if isinstance(one, TelemetryEvent))
    lost = int(missing.words.split()[0])
    assert kept == [*range(20 - lost), 20, 21, 22]
    assert telemetry.torn <= 1


def test_missed_ticks_are_left_out_and_the_rest_stay_on_the_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(sampler.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sampler.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    at = []
    for number, _ in zip(range(6), sampler.ticks(1.0), strict=False):
        at.append(round(now[0] - 100, 3))
        now[0] += 2.5 if number == 2 else 0.01
    assert at == [0, 1, 2, 5, 6, 7]


def test_ports_and_disks_are_summed_in_bytes(tmp_path: Path) -> None:
    files = {
        "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": "1000",
        "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "2000",
        "sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data": "10",
        "sys/class/infiniband/mlx5_1/ports/1/counters/link_downed": "3",
        "sys/block/sda/device/x": "",
        "sys/block/dm-0/size": "1",
        "sys/class/net/eth0/device/x": "",
        "sys/class/net/veth1/mtu": "1500",
        "proc/diskstats": "8 0 sda 1 2 100 3 4 5 200 0 0 0 0\n253 0 dm-0 1 2 100 3 4 5 200 0 0 0 0\n",
        "proc/net/dev": "a\nb\neth0: 11 0 0 0 0 0 0 0 22 0\nveth1: 33 0 0 0 0 0 0 0 44 0\n",
        "proc/stat": "cpu 100 0 50 1000 20 0 0 30\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    tree = FileTree(str(tmp_path))
    source = node.NodeSource(tree, node.JobProcesses(tree, os.getpid()))
    found = dict(zip(node.COLUMNS, source.values(), strict=True))
    assert found["infiniband_received_bytes_total"] == 4040
    assert found["infiniband_sent_bytes_total"] == 8000
    assert found["infiniband_errors_total"] == 3
    assert (found["disk_read_bytes_total"], found["disk_written_bytes_total"]) == (51200, 102400)
    assert (found["network_received_bytes_total"], found["network_sent_bytes_total"]) == (11, 22)
    assert found["cpu_busy_seconds_total"] == 1.5
    assert found["memory_available_bytes"] is None
