"""Checks of a host on recorded ones: all as it should be, then each thing wrong in its turn."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay import payload_files
from assay.checks import Check
from assay.checks.examine import HOST, examine_host
from assay.launch import programs
from assay.records import Scalar
from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing import host_check, host_pci, node_hardware
from conftest import GOLDEN
from recorded_host import BANNER, DRIVER, GPU0, GPU1, LIMITS, NIC0, SPEC, Host

TOPOLOGIES = GOLDEN / "topology"
# What the probe tells of the recorded host
PROBED: dict[str, Scalar] = {
    "kernel": "6.8.0-45-generic",
    "pci.nvidia_gpus": 2,
    "gpu.count": 2,
    "gpu.0.persistence": True,
    "gpu.1.persistence": True,
    "numa.nodes": 2,
    "kernel.numa_balancing": 0,
    "memory.total_bytes": 2e12,
    "memory.swap_bytes": 0,
    "memory.transparent_hugepages": "madvise",
}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def examine(host: Host) -> Callable[..., dict[str, Check]]:
    """The checks that arise of the recorded host as it is now, by name."""

    def examined(**but: Scalar) -> dict[str, Check]:
        tools = host_check.Tools()
        tools.output_of = host.said
        tree = FileTree(str(host.root))
        facts = {**dict(node_hardware.networks(tree)), **host_check.check(tree, tools)}
        found = examine_host({**PROBED, **facts, **but})
        for check in found:
            assert bool(check.remedy) or check.state in ("ok", "unknown"), check
        assert len({check.name for check in found}) == len(found)
        return {check.name: check for check in found}

    return examined


Examine = Callable[..., dict[str, Check]]


def test_a_host_that_is_as_it_should_be_passes_every_check(examine: Examine) -> None:
    found = examine()
    assert {name: check for name, check in found.items() if check.state != "ok"} == {}
    assert len(found) == len(HOST)
    assert found["driver module"].evidence == f"nvidia {DRIVER}, open (/proc/driver/nvidia/version)"
    assert found["GPU to adapter"].evidence == "GPU0 → mlx5_0 (PIX); GPU1 → mlx5_1 (PIX), from sysfs"
    assert found["subnet manager"].evidence.endswith("ibhosts lists 2 hosts")
    assert found["hypervisor"].evidence == "bare metal by DMI, cpuinfo, systemd-detect-virt"
    assert "mlx5_0 port 1 400 Gb/sec (4X NDR) InfiniBand" in found["fabric"].evidence


def test_a_host_that_was_not_looked_at_is_one_check_that_does_not_know() -> None:
    assert [(check.name, check.state) for check in examine_host({"host.error": "SyntaxError"})] == [
        ("host", "unknown")
    ]


def test_of_an_empty_tree_nothing_is_called_wrong(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    tools = host_check.Tools()
    tools.output_of = lambda *_, **__: None
    facts = host_check.check(FileTree(str(tmp_path / "empty")), tools)
    found = {check.name: check.state for check in examine_host(facts)}
    assert found.pop("fabric") == "ok"
    assert set(found.values()) == {"unknown"}


def upgraded(host: Host) -> None:
    host.remove(f"/usr/lib64/libnvidia-ml.so.{DRIVER}")
    host.write(**{"/usr/lib64/libnvidia-ml.so.590.44.01": ""})
    host.answers["modinfo -F version nvidia"] = "590.44.01\n"


def proprietary(host: Host) -> None:
    host.write(**{"/proc/driver/nvidia/version": BANNER.format("", "535.129.03")})


def unloaded(host: Host) -> None:
    host.remove("/sys/module/nvidia/version")
    host.remove("/sys/module/nvidia")


def attribute(address: str, **files: str) -> Callable[[Host], None]:
    return lambda host: host.device(address, **files)


def written(**files: str) -> Callable[[Host], None]:
    return lambda host: host.write(**files)


def refused(host: Host) -> None:
    """A verbs device that can't be opened: here one that is a directory, since root may open all else."""
    host.remove("/dev/infiniband/uverbs1")
    (host.root / "dev/infiniband/uverbs1").mkdir()


def without_verbs(host: Host) -> None:
    for name in ("uverbs0", "uverbs1"):
        host.remove(f"/dev/infiniband/{name}")


PORT = "/sys/class/infiniband/mlx5_1/ports/1"
# what is wrong with the host, what the probe tells otherwise, check, state, words of evidence and of remedy
CASES: list[tuple[Callable[[Host], None], dict[str, Scalar], str, str, str, str]] = [
    (unloaded, {}, "driver module", "fail", "module nvidia is not loaded", "modprobe nvidia"),
    (
        written(**{"/sys/module/nouveau/refcnt": "1"}),
        {},
        "driver module",
        "fail",
        "nouveau drives",
        "blacklist",
    ),
    (upgraded, {}, "driver versions", "fail", "libraries 590.44.01", "rmmod nvidia_uvm nvidia"),
    (
        lambda host: host.answers.update({"modinfo -F version nvidia": "590.44.01\n"}),
        {},
        "driver versions",
        "warn",
        "the next boot changes",
        "reboot before",
    ),
    (
        lambda host: host.remove("/dev/nvidia-uvm"),
        {},
        "GPU devices",
        "warn",
        "missing: /dev/nvidia-uvm",
        "nvidia-modprobe",
    ),
    (
        lambda host: host.remove("/dev/nvidia-uvm"),
        {"container": "docker"},
        "GPU devices",
        "warn",
        "missing",
        "--gpus all",
    ),
    (
        lambda _: None,
        {"gpu.1.persistence": False},
        "persistence mode",
        "warn",
        "off on 1 of 2",
        "persistenced",
    ),
    (
        lambda host: host.answers.pop("nvidia-ctk --version"),
        {},
        "container toolkit",
        "warn",
        "containerd",
        "install",
    ),
    (
        written(**{"/etc/containerd/config.toml": "# nvidia\n", "/etc/cdi/nvidia.yaml": ""}),
        {},
        "container runtime",
        "warn",
        "containerd do not name",
        "nvidia-ctk runtime configure --runtime=containerd",
    ),
    (
        written(**{"/etc/cdi/nvidia.yaml": SPEC.format("570.10.01")}),
        {},
        "CDI",
        "fail",
        "570.10.01",
        "cdi generate",
    ),
    (
        lambda host: host.remove(f"/usr/lib64/libcuda.so.{DRIVER}"),
        {},
        "CDI",
        "fail",
        "which does not exist",
        "cdi generate",
    ),
    (
        written(**{"/proc/812/limits": LIMITS.format(8388608)}),
        {},
        "locked memory of services",
        "warn",
        "slurmd 8.389 MB",
        "LimitMEMLOCK=infinity",
    ),
    (
        written(**{"/proc/9/comm": "crio", "/proc/9/limits": LIMITS.format(65536)}),
        {},
        "locked memory of services",
        "warn",
        "crio 65.54 kB",
        "default_ulimits",
    ),
    (lambda _: None, {"kernel.numa_balancing": 1}, "NUMA balancing", "warn", "2 nodes", "numa_balancing=0"),
    (
        lambda _: None,
        {"memory.transparent_hugepages": "never"},
        "transparent huge pages",
        "warn",
        "4 KiB",
        "echo madvise",
    ),
    (
        written(**{"/proc/sys/vm/zone_reclaim_mode": "1"}),
        {},
        "memory reclaim",
        "warn",
        "dropped",
        "sysctl -w",
    ),
    (
        written(**{"/proc/sys/vm/swappiness": "100"}),
        {"memory.swap_bytes": 8e9},
        "memory reclaim",
        "warn",
        "swapped out",
        "swappiness=10",
    ),
    (
        written(
            **{
                f"/sys/kernel/mm/hugepages/hugepages-1048576kB/{name}_hugepages": "512"
                for name in ("nr", "free")
            }
        ),
        {},
        "reserved huge pages",
        "warn",
        "512 of 1.074 GB, 512 free",
        "nr_hugepages=0",
    ),
    (attribute(GPU0, current_link_width="8\n"), {}, "PCIe links", "warn", f"GPU {GPU0} at x8 of x16", "seat"),
    (
        attribute(NIC0, current_link_speed="16.0 GT/s PCIe\n"),
        {},
        "PCIe links",
        "warn",
        "mlx5_0 at 16",
        "lspci",
    ),
    (
        attribute("0000:02:01.0", max_link_width="8\n"),
        {},
        "PCIe links",
        "warn",
        "mlx5_0 supports x16, but its slot only x8",
        "another slot",
    ),
    (attribute(GPU0, **{"iommu_group/type": "DMA-FQ\n"}), {}, "IOMMU", "warn", f"GPU {GPU0}", "iommu=pt"),
    (lambda host: host.acs("0000:02:00.0", 0x1D), {}, "ACS", "warn", "0000:02:00.0", "setpci"),
    (
        written(**{f"{PORT}/state": "2: INIT\n", f"{PORT}/sm_lid": "0x0"}),
        {},
        "fabric",
        "fail",
        "mlx5_1",
        "ibport",
    ),
    (written(**{f"{PORT}/sm_lid": "0x0"}), {}, "subnet manager", "fail", "mlx5_1 port 1", "opensm"),
    (written(**{f"{PORT}/state": "1: DOWN\n"}), {}, "fabric", "warn", "not up: mlx5_1 port 1", "NCCL_IB_HCA"),
    (written(**{f"{PORT}/rate": "100 Gb/sec (1X NDR)\n"}), {}, "fabric", "warn", "fewer lanes", "cable"),
    (without_verbs, {}, "verbs devices", "fail", "falls back to TCP", "modprobe ib_uverbs"),
    (without_verbs, {"container": "kubernetes"}, "verbs devices", "fail", "none", "rdma/… resource"),
    (refused, {}, "verbs devices", "fail", "1 of 2 can be opened", "chmod"),
    (proprietary, {}, "GPUDirect RDMA", "warn", "proprietary driver", "nvidia-peermem"),
    (
        lambda host: host.answers.update({"nvidia-smi topo -m": (TOPOLOGIES / "a100-pcie.txt").read_text()}),
        {},
        "GPU to adapter",
        "warn",
        "GPU2, GPU3 only across sockets",
        "socket",
    ),
    (
        written(**{"/sys/devices/system/node/node1/cpulist": "1023\n"}),
        {},
        "GPU locality",
        "warn",
        GPU1,
        "numactl",
    ),
    (
        lambda host: host.answers.update({"systemd-detect-virt --vm": "kvm\n"}),
        {},
        "hypervisor",
        "warn",
        "virtual by systemd-detect-virt (kvm); not by DMI, cpuinfo",
        "hide_hypervisor_id",
    ),
]


@pytest.mark.parametrize(
    ("change", "but", "name", "state", "evidence", "remedy"),
    CASES,
    ids=[f"{case[2].replace(' ', '-')}-{number}" for number, case in enumerate(CASES)],
)
def test_what_is_wrong_is_seen_and_comes_with_what_mends_it(
    host: Host,
    examine: Examine,
    change: Callable[[Host], None],
    but: dict[str, Scalar],
    name: str,
    state: str,
    evidence: str,
    remedy: str,
) -> None:
    change(host)
    check = examine(**but)[name]
    assert check.state == state, check
    assert evidence in check.evidence
    assert remedy in check.remedy


@pytest.mark.parametrize(
    ("types", "on", "state", "words"),
    [
        ({"gpu": "xserver_misc_device_t"}, "", "warn", "setsebool -P container_use_xserver_devices on"),
        ({"gpu": "xserver_misc_device_t"}, "container_use_xserver_devices", "ok", "containers may use them"),
        (
            {"verbs": "infiniband_device_t"},
            "container_use_xserver_devices",
            "warn",
            "container_use_devices on",
        ),
        ({"gpu": "xserver_misc_device_t"}, "container_use_devices", "ok", "containers may use them"),
        ({"gpu": "container_file_t"}, "", "ok", "the gpu device is container_file_t"),
        ({}, "", "ok", "enforcing"),
    ],
)
def test_an_enforcing_selinux_is_judged_by_types_and_booleans(
    host: Host, examine: Examine, types: dict[str, str], on: str, state: str, words: str
) -> None:
    host.write(**{"/sys/fs/selinux/enforce": "1"})
    for name in ("container_use_devices", "container_use_xserver_devices"):
        host.write(**{f"/sys/fs/selinux/booleans/{name}": "1 1" if name == on else "0 0"})
    labels: dict[str, Scalar] = {f"selinux.{what}_device": kind for what, kind in types.items()}
    check = examine(**labels)["SELinux"]
    assert check.state == state, check
    assert words in f"{check.evidence} {check.remedy}"


def test_a_policy_without_the_booleans_tells_nothing(host: Host, examine: Examine) -> None:
    host.write(**{"/sys/fs/selinux/enforce": "1"})
    assert examine(**{"selinux.gpu_device": "xserver_misc_device_t"})["SELinux"].state == "unknown"


def unknown_link(host: Host) -> None:
    for address in (GPU0, GPU1, NIC0, "0000:84:00.0"):
        host.device(address, current_link_speed="Unknown\n", current_link_width="0\n")


@pytest.mark.parametrize(
    ("change", "but", "name"),
    [
        (lambda host: host.remove("/proc/driver/nvidia/version"), {}, "driver module"),
        (lambda host: host.remove(f"/usr/lib64/libnvidia-ml.so.{DRIVER}"), {}, "driver versions"),
        (lambda _: None, {"gpu.0.persistence": None}, "persistence mode"),
        (written(**{"/etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n"}), {}, "CDI"),
        (lambda host: host.remove("/sys/fs/selinux/enforce"), {}, "SELinux"),
        (unknown_link, {}, "PCIe links"),
        (lambda host: host.remove(f"/sys/bus/pci/devices/{GPU0}/iommu_group/type"), {}, "IOMMU"),
        (lambda host: host.remove("/sys/bus/pci/devices/0000:02:00.0/config"), {}, "ACS"),
        (lambda host: host.remove(f"{PORT}/sm_lid"), {}, "subnet manager"),
        (attribute(GPU1, numa_node="-1\n"), {}, "GPU locality"),
        (attribute(GPU1, current_link_speed="2.5 GT/s PCIe\n"), {}, "PCIe links"),
    ],
)
def test_what_can_t_be_read_is_unknown(
    host: Host, examine: Examine, change: Callable[[Host], None], but: dict[str, Scalar], name: str
) -> None:
    change(host)
    assert examine(**but)[name].state == "unknown"


def test_a_clouds_own_name_in_dmi_is_no_sign(host: Host, examine: Examine) -> None:
    host.answers["systemd-detect-virt --vm"] = "kvm\n"
    host.write(**{"/sys/class/dmi/id/sys_vendor": "A Cloud\n", "/proc/cpuinfo": "flags : fpu hypervisor\n"})
    host.write(**{"/sys/class/dmi/id/product_name": "vm.large\n"})
    assert examine()["hypervisor"].evidence == "virtual by cpuinfo, systemd-detect-virt (kvm)"


def test_inside_a_container_the_hosts_toolkit_and_bus_are_not_asked(examine: Examine) -> None:
    inside, outside = examine(container="kubernetes"), examine()
    assert outside.keys() - inside.keys() == {"container toolkit", "container runtime", "CDI", "IOMMU", "ACS"}


def test_roce_needs_no_subnet_manager_and_may_have_one_lane(host: Host, examine: Examine) -> None:
    for name in ("mlx5_0", "mlx5_1"):
        port = f"/sys/class/infiniband/{name}/ports/1"
        host.write(**{f"{port}/link_layer": "Ethernet\n", f"{port}/sm_lid": "0x0\n"})
        host.write(**{f"{port}/rate": "25 Gb/sec (1X EDR)\n"})
    found = examine()
    assert "subnet manager" not in found
    assert found["fabric"].state == "ok"


@pytest.mark.parametrize(
    ("recorded", "nearest"),
    [
        ("v100-sxm2", "GPU0, GPU1 → mlx5_0 (NODE); GPU2, GPU3 → mlx5_0 (PIX); GPU4, GPU5 → mlx5_1 (NODE)"),
        ("h100-sxm5", "GPU0 → mlx5_0 (PIX); GPU1 → mlx5_1 (PIX); GPU2 → mlx5_2 (PIX); GPU3 → mlx5_3 (PIX)"),
    ],
)
def test_recorded_topologies_of_each_age_are_read(
    host: Host, examine: Examine, recorded: str, nearest: str
) -> None:
    host.answers["nvidia-smi topo -m"] = (TOPOLOGIES / f"{recorded}.txt").read_text()
    check = examine()["GPU to adapter"]
    assert check.state == "ok"
    assert check.evidence.startswith(nearest)
    assert check.evidence.endswith("from nvidia-smi topo -m")


def test_a_topology_that_is_cut_anywhere_gives_no_path_that_is_not_in_it() -> None:
    text = (TOPOLOGIES / "h100-sxm5.txt").read_text()
    whole = dict(host_pci.matrix(text))
    assert len(whole) == 64
    rows = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for length in range(0, rows.index("NIC Legend"), 7):
        for (gpu, nic), path in host_pci.matrix(rows[:length]):
            assert whole[gpu, nic.replace("NIC", "mlx5_")] == path


@pytest.mark.parametrize(
    ("nic", "path"), [("0000:04:00.0", "PIX"), ("0000:05:00.0", "PHB"), ("0000:84:00.0", "SYS")]
)
def test_paths_from_sysfs_are_called_as_nvidia_smi_calls_them(host: Host, nic: str, path: str) -> None:
    host._place(("pci0000:00", "0000:00:02.0", "0000:05:00.0"))
    tree = FileTree(str(host.root))
    assert host_pci.between(tree, GPU0, nic) == path


# On this machine


def test_the_program_runs_alone_with_what_travels_with_it(tmp_path: Path) -> None:
    payload_files.lay_out(tmp_path, payload_files.files(programs.HOST))
    argv = [sys.executable, "-S", str(tmp_path / payload_files.path_of(programs.HOST))]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    facts = programs.output_facts(programs.HOST, done.stdout)
    assert facts["host.checked"] is True
    assert "probe.version" not in facts
    assert json.loads(done.stdout.split(" ", 1)[1])["host.checked"]


def test_a_tool_that_fails_is_named_and_one_that_is_absent_is_not() -> None:
    tools = host_check.Tools()
    assert tools.output_of("sh", "-c", "echo yes; exit 1", fine=(0, 1)) == "yes\n"
    assert tools.output_of("no-such-tool") is None
    assert tools.refused == []
    assert tools.output_of("sh", "-c", "echo no manager >&2; exit 255") is None
    assert tools.refused == ["sh -c echo no manager >&2; exit 255: exit code 255: no manager"]


def test_a_program_that_breaks_off_is_told_by_its_last_line(tmp_path: Path) -> None:
    assert "NameError" in str(programs.output_facts(programs.HOST, "Traceback\nNameError: x")["host.error"])


def test_programs_in_turn_are_told_apart_and_the_first_gives_the_exit_code(tmp_path: Path) -> None:
    argv, files = programs.in_turn((programs.PROBE,), (programs.DATA, "/no such"))
    assert argv[0] == "{python}"
    payload_files.lay_out(tmp_path, {file.name: file.data for file in files})
    (tmp_path / "broken.py").write_text("raise SystemExit('gone')")
    words = [sys.executable, *argv[1:], "broken"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    first = [sys.executable, *words[1:3], "broken", *words[3:]]
    assert subprocess.run(first, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    said = programs.sections(done.stdout)
    assert list(said) == [programs.PROBE, programs.DATA, "broken"]
    assert said["broken"] == "gone\n"
    facts = programs.combined_facts({name: said[name] for name in (programs.PROBE, programs.DATA)})
    assert facts["data.error"] == "/no such: No such file or directory"
    assert facts["python.version"] == sys.version.split()[0]
