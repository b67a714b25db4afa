"""The probe on real and made-up machines, and what is made of its tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import payload_files, provenance, records
from assay.launch import job_spec
from assay.records import Provenance
from assay_payloads.keeping import cgroups
from assay_payloads.keeping.file_tree import FileTree, keyed_lines
from assay_payloads.probing import node_gpus, node_hardware, node_software, probe

PROBE = Path(probe.__file__)


def run_probe(tmp_path: Path, *, python: str = sys.executable, **env: str) -> str:
    """The probe as a launcher runs it: in a job's directory, with what it imports."""
    payload_files.lay_out(tmp_path, payload_files.files(job_spec.PROBE))
    done = subprocess.run(
        [python, str(tmp_path / payload_files.path_of(job_spec.PROBE))],
        env={"PATH": "/usr/bin:/bin", **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout


def tree(root: Path, **files: str) -> FileTree:
    """A file system that holds these files: absolute path → text."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return FileTree(str(root))


def test_the_probe_prints_one_line_that_parses_without_anything_refused(tmp_path: Path) -> None:
    text = run_probe(tmp_path)
    assert text.count("\n") == 1
    (node,) = provenance.parse([text]).nodes
    assert json.loads(text.removeprefix(probe.MARK)) == node
    assert node["python.version"] == sys.version.split()[0]
    assert isinstance(node["memory.total_bytes"], int)
    assert node["memory.total_bytes"] > 2**20
    assert node["package.click"]


def test_the_probe_does_not_import_torch_or_anything_of_ours() -> None:
    code = (
        "import sys, probe; facts = probe.probe(probe.FileTree(), sys.executable);"
        "print('python.version' in facts, {'torch', 'numpy', 'assay'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROBE.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True set()\n"


@pytest.mark.parametrize(
    ("python", "why"),
    [("/bin/true", "/bin/true does not report its version"), ("/no/python", "No such file")],
)
def test_an_interpreter_that_can_not_be_asked_is_named_and_the_rest_of_the_probe_stands(
    python: str, why: str
) -> None:
    facts = probe.probe(FileTree(), python)
    assert why in facts["unreadable"]
    assert "python.version" not in facts
    assert facts["kernel"]


def test_versions_the_probe_reads_as_text_are_those_that_are_installed(tmp_path: Path) -> None:
    from importlib.metadata import distributions

    (node,) = provenance.parse([run_probe(tmp_path)]).nodes
    own = [
        place for place in sys.path if not place.endswith("_vendor")
    ]  # setuptools' own, once it is imported
    installed = {
        d.metadata["Name"].lower().replace("_", "-").replace(".", "-"): d.version
        for d in distributions(path=own)
    }
    listed = {name.removeprefix("package."): v for name, v in node.items() if name.startswith("package.")}
    assert listed == installed


def test_a_planted_secret_never_appears_in_the_output(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    text = run_probe(
        tmp_path,
        NCCL_TOKEN=secret,
        TORCH_Password=secret,
        CUDA_PASSWORDS=secret,
        UCX_API_KEY=secret,
        OMP_CREDENTIALS=secret,
        HOROVOD_SECRET_X=secret,
        MALLOC_PASSPHRASE=secret,
        NCCL_PLUGIN=f"https://user:{secret}@example.org/plugin.so",
        NCCL_TUNER=f"https://{secret}@example.org/",
        TORCH_LOGS=f"Authorization: Bearer {secret}",
        TORCH_HOME=f"s3://bucket?api_key={secret}",
        KMP_A=f"hf_{secret.replace('-', '')}",
        AWS_SECRET_ACCESS_KEY=secret,
        HOME_PAGE=secret,
        NCCL_DEBUG="INFO",
    )
    assert secret not in text
    assert secret.replace("-", "") not in text
    (node,) = provenance.parse([text]).nodes
    assert node["env.NCCL_TOKEN"] == node["env.NCCL_PLUGIN"] == "(redacted)"
    assert node["env.NCCL_DEBUG"] == "INFO"
    assert "env.AWS_SECRET_ACCESS_KEY" not in node
    assert "env.HOME_PAGE" not in node


def test_an_environment_that_is_not_text_does_not_stop_the_probe(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        env={b"NCCL_ODD": b"\xff\xfe\x1b[31m", b"PATH": b"/usr/bin"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    parsed = provenance.parse([done.stdout.decode()])
    (node,) = parsed.nodes
    assert str(node["env.NCCL_ODD"]).isprintable()
    assert records.from_json(Provenance, records.to_json(parsed)) == parsed


def test_a_value_that_is_too_long_is_cut_visibly() -> None:
    cut = probe.plain("x" * 10_000)
    assert len(cut) == probe.LONGEST_TEXT + 1
    assert cut.endswith("…")


def test_a_section_that_breaks_off_keeps_what_it_found_and_says_why() -> None:
    def section():  # type: ignore[no-untyped-def]
        yield "first", 1
        raise OSError(5, "Input/output error")

    facts: dict[str, object] = {}
    assert probe.gather(section, facts) == "Input/output error"
    assert facts == {"first": 1}


def test_what_is_not_there_is_absent_and_not_a_default(tmp_path: Path) -> None:
    empty = tree(tmp_path)
    assert cgroups.cores(empty) is None
    assert cgroups.memory_bytes(empty) is None
    assert cgroups.version(empty) is None
    facts: dict[str, object] = {}
    for section in (node_hardware.processor, node_hardware.networks, node_gpus.gpus_on_bus):
        assert probe.gather(lambda section=section: section(empty), facts) is None
    assert facts.keys() == {"cpu.logical"}  # asked from the kernel, not read from a file
    assert empty.unreadable == []


def test_a_cgroup_2_limit_is_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        **{
            "/proc/self/cgroup": "0::/pods/mine\n",
            "/proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/proc/meminfo": "MemTotal:  1048576 kB\n",
            "/sys/fs/cgroup/pods/mine/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/pods/mine/memory.max": "536870912\n",
            "/sys/fs/cgroup/pods/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/pods/memory.max": "max\n",
            "/sys/fs/cgroup/pods/mine/pids.max": "max\n",
            "/sys/fs/cgroup/pods/pids.max": "40\n",
        },
    )
    assert cgroups.version(machine) == 2
    assert cgroups.cores(machine) == 1.5
    assert cgroups.memory_bytes(machine) == 2**29
    assert cgroups.process_limit(machine) == 40


def test_a_cgroup_1_container_that_sees_only_its_own_part_has_its_limits(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        **{
            "/proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n",
            "/proc/self/mountinfo": (
                "31 30 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
                "32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
            ),
            "/proc/meminfo": "MemTotal:  1048576 kB\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert cgroups.version(machine) == 1
    assert cgroups.cores(machine) == 2.0
    assert cgroups.memory_bytes(machine) is None
    assert cgroups.process_limit(machine) is None


def test_a_cgroup_1_quota_of_minus_one_is_no_limit(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        **{
            "/proc/self/cgroup": "4:cpu:/\n",
            "/proc/self/mountinfo": "31 30 0:27 / /cg rw - cgroup cgroup rw,cpu\n",
            "/cg/cpu.cfs_quota_us": "-1\n",
            "/cg/cpu.cfs_period_us": "100000\n",
        },
    )
    assert cgroups.cores(machine) is None


def test_cores_and_sockets_are_counted_from_the_topology(tmp_path: Path) -> None:
    cpus = "/sys/devices/system/cpu"
    files = {f"{cpus}/smt/active": "1\n", f"{cpus}/cpufreq/policy0/scaling_governor": "powersave\n"}
    files[f"{cpus}/cpufreq/policy1/scaling_governor"] = "performance\n"
    for cpu in range(8):
        files[f"{cpus}/cpu{cpu}/topology/thread_siblings_list"] = f"{cpu % 4},{cpu % 4 + 4}\n"
        files[f"{cpus}/cpu{cpu}/topology/physical_package_id"] = f"{cpu % 2}\n"
    facts = dict(node_hardware.processor(tree(tmp_path, **files)))
    assert (facts["cpu.cores"], facts["cpu.sockets"], facts["cpu.smt"]) == (4, 2, True)
    assert facts["cpu.governor"] == "performance,powersave"


def test_throttling_is_counted_once_a_package(tmp_path: Path) -> None:
    cpus = "/sys/devices/system/cpu"
    files = {}
    for cpu in range(4):
        files[f"{cpus}/cpu{cpu}/thermal_throttle/package_throttle_count"] = f"{10 + cpu % 2}\n"
        files[f"{cpus}/cpu{cpu}/topology/physical_package_id"] = f"{cpu % 2}\n"
    assert node_hardware.throttled(tree(tmp_path, **files)) == 21
    assert node_hardware.throttled(tree(tmp_path / "virtual")) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/cpuinfo": "flags : fpu hypervisor\n"}, "hypervisor"),
        ({"/proc/cpuinfo": "flags : fpu sse\n"}, "none"),
        ({"/proc/cpuinfo": "CPU implementer : 0x41\n"}, None),
        ({"/sys/hypervisor/type": "xen\n"}, "xen"),
        ({"/sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "vmware"),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
    ],
)
def test_a_hypervisor_is_told_by_its_signs(
    tmp_path: Path, files: dict[str, str], expected: str | None
) -> None:
    machine = tree(tmp_path, **files)
    assert node_hardware.hypervisor(machine, keyed_lines(machine.text("/proc/cpuinfo"))) == expected


def test_infiniband_and_network_interfaces_are_listed_without_container_ends(tmp_path: Path) -> None:
    hca = "/sys/class/infiniband/mlx5_0"
    machine = tree(
        tmp_path,
        **{
            f"{hca}/fw_ver": "28.39.1002\n",
            f"{hca}/ports/1/rate": "400 Gb/sec (4X NDR)\n",
            f"{hca}/ports/1/link_layer": "InfiniBand\n",
            "/sys/class/net/eth0/speed": "100000\n",
            "/sys/class/net/eth0/mtu": "9000\n",
            "/sys/class/net/eth0/device/vendor": "0x15b3\n",
            "/sys/class/net/pod0/speed": "10000\n",
            "/sys/class/net/eth1/speed": "-1\n",
            "/sys/class/net/lo/mtu": "65536\n",
            "/sys/class/net/veth12ab/mtu": "1450\n",
            "/sys/class/net/docker0/lower_veth12ab/mtu": "1450\n",
            "/sys/class/net/as4711/mtu": "1500\n",
            "/sys/class/net/br-lan/mtu": "8000\n",
            "/sys/class/net/br-lan/lower_eth0/mtu": "9000\n",
        },
    )
    facts = {name: value for name, value in node_hardware.networks(machine) if value is not None}
    assert facts == {
        "infiniband.mlx5_0.firmware": "28.39.1002",
        "infiniband.mlx5_0.port1.rate": "400 Gb/sec (4X NDR)",
        "infiniband.mlx5_0.port1.link_layer": "InfiniBand",
        "net.br-lan.mtu_bytes": 8000,
        "net.eth0.bits_per_s": 100 * 10**9,
        "net.eth0.mtu_bytes": 9000,
    }


def test_a_gpu_on_the_bus_is_seen_without_a_driver_and_other_devices_are_not(tmp_path: Path) -> None:
    bus = "/sys/bus/pci/devices"
    devices = (
        ("0x10de", "0x030200"),
        ("0x10de", "0x040300"),
        ("0x1a03", "0x030000"),
    )  # GPU, its sound, a BMC
    files = {}
    for number, (vendor, kind) in enumerate(devices):
        files[f"{bus}/0{number}/vendor"] = vendor + "\n"
        files[f"{bus}/0{number}/class"] = kind + "\n"
    facts = dict(node_gpus.gpus_on_bus(tree(tmp_path, **files)))
    assert facts == {"pci.nvidia_gpus": 1, "pci.amd_gpus": None}


def test_amds_gpus_are_listed_in_the_order_of_the_bus_and_only_those_of_this_container(
    tmp_path: Path,
) -> None:
    def card(number: int, slot: str, **files: str) -> dict[str, str]:
        place = f"/sys/class/drm/card{number}/device"
        about = {
            "uevent": f"DRIVER=amdgpu\nPCI_SLOT_NAME={slot}\n",
            f"drm/renderD{128 + number}/dev": "226:1",
        }
        return {f"{place}/{name}": text for name, text in {**about, **files}.items()}

    files = {
        **card(2, "0000:05:00.0", mem_info_vram_total="1000", mem_info_vram_used="400", unique_id="0xab"),
        **card(1, "0000:c1:00.0", product_name="AMD Instinct MI300X", current_compute_partition="SPX"),
        **card(3, "0000:d1:00.0"),  # another container's
        "/sys/class/drm/card2/device/hwmon/hwmon7/power1_cap": "750000000",
        "/sys/class/drm/card0/device/uevent": "DRIVER=ast\nPCI_SLOT_NAME=0000:01:00.0\n",
        "/sys/class/drm/card1-DP-1/device/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:ff:00.0\n",
        "/dev/dri/renderD129": "",
        "/dev/dri/renderD130": "",
        "/sys/module/amdgpu/version": "6.12.12\n",
    }
    host = tree(tmp_path, **files)
    facts = {name: value for name, value in node_gpus.amd_facts(host) if value is not None}
    assert facts == {
        "gpu.driver": "6.12.12",
        "gpu.count": 2,
        "gpu.0.uuid": "0xab",
        "gpu.0.memory_bytes": 1000,
        "gpu.0.memory_free_bytes": 600,
        "gpu.0.power_limit_w": 750.0,
        "gpu.1.name": "AMD Instinct MI300X",
        "gpu.1.compute_partition": "SPX",
    }
    assert host.unreadable == []
    assert dict(node_gpus.amd_facts(FileTree(str(tmp_path / "nothing")))) == {}


def test_only_kernel_options_that_steer_speed_are_told() -> None:
    line = "root=UUID=12 mitigations=off inst.ks=http://u:p@h/ isolcpus=2-15 console=ttyS0 nosmt"
    assert node_hardware.kernel_options(line) == "mitigations=off isolcpus=2-15 nosmt"
    assert node_hardware.kernel_options(None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "12.8"),
        ('__version__ = "2.0.1"\ncuda = "11.7"\n', "11.7"),
        ("__version__ = '2.8.0+cpu'\ncuda: Optional[str] = None\n", None),
    ],
)
def test_the_version_file_of_torch_is_read_as_text(text: str, expected: str | None) -> None:
    stated = node_software.version_file(text)
    assert stated["__version__"].startswith("2.")
    assert stated.get("cuda") == expected


def test_the_package_first_on_the_search_path_counts(tmp_path: Path) -> None:
    for name in (
        "a/Foo_Bar-2.0.dist-info",
        "b/foo.bar-1.0.dist-info",
        "b/old-1.2-py3.11.egg-info",
        "b/no-dist",
    ):
        (tmp_path / name).mkdir(parents=True)
    found = node_software.metadata(
        FileTree(), [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "gone")]
    )
    assert {name: version for name, (version, _) in found.items()} == {"foo-bar": "2.0", "old": "1.2"}


def test_a_package_built_on_a_machine_differs_from_its_wheel(tmp_path: Path) -> None:
    tags = {
        "wheel": "cp311-cp311-manylinux_2_28_x86_64",
        "own": "cp311-cp311-linux_x86_64",
        "pure": "py3-none-any",
    }
    for name, tag in tags.items():
        about = f"Wheel-Version: 1.0\nTag: {tag}\n" + ("Build: 2\n" if name == "wheel" else "")
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
        (tmp_path / f"{name}-1.0.dist-info" / "WHEEL").write_text(about)
    (tmp_path / "none-1.0.dist-info").mkdir()
    found = node_software.builds(node_software.metadata(FileTree(), [str(tmp_path)]))
    assert found == {"wheel": "2 manylinux_2_28_x86_64", "own": "linux_x86_64"}


def test_conda_packages_are_read_with_their_builds_libraries_of_c_included(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    for name in ("libblas-3.9.0-20_openblas.json", "numpy-1.26.4-py311h64a7726_0.json", "history"):
        (tmp_path / "conda-meta" / name).write_text("")
    found = node_software.conda_builds(FileTree(), str(tmp_path / "bin" / "python"))
    assert found == {"libblas": "3.9.0 20_openblas", "numpy": "1.26.4 py311h64a7726_0"}


def test_instruction_sets_are_those_that_choose_kernels() -> None:
    flags = "fpu smep avx avx2 fma sse4_2 avx512f amx_int8 sme hypervisor"
    assert node_hardware.instruction_sets(flags) == "amx_int8 avx avx2 avx512f fma sse4_2"
    assert node_hardware.instruction_sets("fp asimd sve2") == "asimd sve2"
    assert node_hardware.instruction_sets(None) is None


def test_facts_that_an_older_probe_did_not_report_yet_are_no_difference() -> None:
    old = Provenance(({"probe.version": 1, "os": "Debian"},))
    new = Provenance(({"probe.version": 2, "os": "Debian", "libc": "glibc 2.36", "build.numpy": "linux"},))
    assert [fact.name for fact in provenance.differences([old], [new])] == ["probe.version"]
    assert "libc" in {fact.name for fact in provenance.side_by_side([new], [new])}


FAKE_NVML = r"""
#include <string.h>
#include <unistd.h>
typedef unsigned int u;
int nvmlInit_v2(void) { INIT }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *t, u n) { strncpy(t, "580.95.05", n); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13010; return 0; }
int nvmlDeviceGetCount_v2(u *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u i, void **d) { *d = (void *)(0x700000000000 + i); return i ? 15 : 0; }
static int ours(void *d) { return d == (void *)0x700000000000 ? 0 : 2; }
int nvmlDeviceGetName(void *d, char *t, u n) { strncpy(t, "NVIDIA H100 80GB HBM3", n); return ours(d); }
int nvmlDeviceGetUUID(void *d, char *t, u n) { strncpy(t, "GPU-1", n); return ours(d); }
int nvmlDeviceGetVbiosVersion(void *d, char *t, u n) { return 3; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { m[0] = 80ULL << 30; m[1] = 7; return ours(d); }
int nvmlDeviceGetClockInfo(void *d, u kind, u *v) { *v = kind == 1 ? 345 : 2619; return ours(d); }
int nvmlDeviceGetMaxClockInfo(void *d, u kind, u *v) { *v = kind == 1 ? 1980 : 2619; return ours(d); }
int nvmlDeviceGetEnforcedPowerLimit(void *d, u *v) { *v = 700000; return ours(d); }
int nvmlDeviceGetTemperature(void *d, u s, u *v) { *v = 31; return ours(d); }
int nvmlDeviceGetEccMode(void *d, u *a, u *b) { *a = 1; *b = 0; return ours(d); }
int nvmlDeviceGetMigMode(void *d, u *a, u *b) { return 3; }
int nvmlDeviceGetPersistenceMode(void *d, u *v) { *v = 0; return ours(d); }
int nvmlDeviceGetComputeMode(void *d, u *v) { *v = 0; return ours(d); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, u *v) { *v = 1; return ours(d); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, u *v) { *v = 5; return ours(d); }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, u *v) { *v = 16; return ours(d); }
"""


def fake_nvml(folder: Path, init: str) -> Path:
    """A shared library with NVML's functions; the last one of them is missing, as in an old driver."""
    library = folder / "libnvidia-ml.so.1"
    source = FAKE_NVML.replace("INIT", init)
    compiled = subprocess.run(
        ["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(library)],
        input=source,
        text=True,
        capture_output=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    return library


needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler to make a library that answers as NVML does"
)


@needs_compiler
def test_gpus_are_read_through_nvml_and_values_they_lack_are_left_out(tmp_path: Path) -> None:
    found = dict(node_gpus.nvml_facts(str(fake_nvml(tmp_path, "return 0;"))))
    assert {name: value for name, value in found.items() if value is not None} == {
        "gpu.driver": "580.95.05",
        "gpu.cuda": "13.1",
        "gpu.count": 2,
        "gpu.0.name": "NVIDIA H100 80GB HBM3",
        "gpu.0.uuid": "GPU-1",
        "gpu.0.memory_bytes": 80 * 2**30,
        "gpu.0.memory_free_bytes": 7,
        "gpu.0.clock_now_hz": 345_000_000,
        "gpu.0.clock_max_hz": 1_980_000_000,
        "gpu.0.memory_clock_now_hz": 2_619_000_000,
        "gpu.0.memory_clock_max_hz": 2_619_000_000,
        "gpu.0.power_limit_w": 700.0,
        "gpu.0.temperature_c": 31,
        "gpu.0.ecc": True,
        "gpu.0.persistence": False,
        "gpu.0.compute_mode": 0,
        "gpu.0.pcie_generation_now": 1,
        "gpu.0.pcie_generation_max": 5,
        "gpu.0.pcie_width": 16,
    }


@needs_compiler
def test_a_driver_that_refuses_is_named_and_the_rest_of_the_probe_stands(tmp_path: Path) -> None:
    fake_nvml(tmp_path, "return 9;")
    (node,) = provenance.parse([run_probe(tmp_path, LD_LIBRARY_PATH=str(tmp_path))]).nodes
    assert "nvmlInit_v2 gave 9" in str(node["unreadable"])
    assert node["kernel"]


@needs_compiler
def test_a_driver_where_the_jobs_variables_say_is_found_by_a_process_that_began_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvml(tmp_path, "return 0;")
    assert node_gpus.loaded("libnvidia-ml.so.1") is None
    monkeypatch.setenv("LD_LIBRARY_PATH", f":/nowhere:{tmp_path}")
    assert node_gpus.loaded("libnvidia-ml.so.1") is not None


@needs_compiler
def test_a_driver_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    fake_nvml(tmp_path, "sleep(100); return 0;")
    code = "import os, probe; facts = {};print(probe.nvml_within(0.2, facts), facts, flush=True); os._exit(0)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROBE.parent,
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.stdout == "['nvml: no answer within 0.2 s'] {}\n"


def line(**facts: object) -> str:
    return probe.MARK + json.dumps({"probe.version": 1, **facts}) + "\n"


def node_of(text: str) -> dict[str, object]:
    (node,) = provenance.parse([text]).nodes
    return dict(node)


def test_the_line_is_found_among_what_a_node_says_of_itself() -> None:
    assert node_of("Welcome to node 7\nrank0: " + line(host="n7"))["host"] == "n7"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "printed no line"),
        ("bash: python3: command not found\n", "python3: command not found"),
        (probe.MARK + '{"host": "n7"', "not JSON"),
        (probe.MARK + "[1, 2]", "not a table"),
        (probe.MARK + '{"load.1min": NaN}', "NaN is not a value"),
        (probe.MARK + '{"load.1min": 1e999}', "too large"),
        (probe.MARK + "[" * 200_000, "not JSON"),
    ],
)
def test_a_probe_that_failed_is_one_fact_that_says_why(text: str, told: str) -> None:
    node = node_of(text)
    assert node.keys() == {"unreadable"}
    assert told in str(node["unreadable"])


def test_entries_that_are_no_facts_are_left_out_and_counted() -> None:
    node = node_of(line(host="n7", nested={"a": 1}, big=10**30, none=None, unreadable="x", **{"bad name": 1}))
    assert node == {
        "probe.version": 1,
        "host": "n7",
        "unreadable": "x; 4 of the probe's entries are not plain facts",
    }


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert node_of(line(host="\x1b[2Jn7\r\n"))["host"] == " [2Jn7 "


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_no_text_makes_parsing_fail_and_what_it_gives_can_be_kept(text: str) -> None:
    for body in (text, probe.MARK + text):
        parsed = provenance.parse([body])
        assert records.from_json(Provenance, records.to_json(parsed)) == parsed
        assert provenance.digest(parsed)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    )
)
def test_no_json_makes_parsing_fail_and_what_it_gives_can_be_kept(value: object) -> None:
    parsed = provenance.parse([probe.MARK + json.dumps(value), probe.MARK + json.dumps({"x": value})])
    assert records.from_json(Provenance, records.to_json(parsed)) == parsed


def test_facts_known_only_here_are_added_to_every_node() -> None:
    parsed = provenance.parse([line(host="a"), "nothing"], also={"suite.git_commit": "abc"})
    assert [node["suite.git_commit"] for node in parsed.nodes] == ["abc", "abc"]


def side(*nodes: dict[str, object]) -> list[Provenance]:
    return [provenance.parse([line(**node) for node in nodes])]


def test_what_differs_comes_with_the_values_of_both_sides_most_important_first() -> None:
    a = side({"env.NCCL_DEBUG": "INFO", "cpu.model": "X", "kernel": "6.1", "os": "same"})
    b = side({"cpu.model": "Y", "kernel": "6.8", "os": "same"})
    assert [(f.name, f.a, f.b) for f in provenance.differences(a, b)] == [
        ("cpu.model", ("X",), ("Y",)),
        ("kernel", ("6.1",), ("6.8",)),
        ("env.NCCL_DEBUG", ("INFO",), (None,)),
    ]


def test_values_that_vary_over_nodes_and_runs_of_a_side_are_all_told() -> None:
    a = side({"kernel": "1"}, {"kernel": "2"}) + side({})
    (fact,) = provenance.differences(a, side({"kernel": "1"}))
    assert set(fact.a) == {"1", "2", None}
    assert fact.b == ("1",)


def test_equal_gpus_are_one_fact() -> None:
    a = side({f"gpu.{n}.name": "H100" for n in range(8)})
    b = side({f"gpu.{n}.name": "A100" for n in range(8)})
    assert [(f.name, f.a, f.b) for f in provenance.differences(a, b)] == [
        ("gpu.*.name", ("H100",), ("A100",))
    ]


@pytest.mark.parametrize(
    "name",
    [
        "host",
        "boot_id",
        "load.1min",
        "gpu.0.uuid",
        "gpu.0.temperature_c",
        "gpu.0.clock_now_hz",
        "disk.free_bytes",
        "memory.available_bytes",
        "cpu.frequency_now_hz",
        "probe.duration_s",
        "env.SLURM_JOB_ID",
        "env.SLURM_JOBID",
    ],
)
def test_what_is_so_only_at_that_moment_or_on_that_machine_does_not_matter(name: str) -> None:
    a, b = side({name: 1}), side({name: 2})
    (fact,) = provenance.differences(a, b)
    assert not fact.matters
    assert provenance.digest(a[0]) == provenance.digest(b[0])


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("cpu.model", "hardware"),
        ("gpu.0.clock_max_hz", "hardware"),
        ("gpu.count", "hardware"),
        ("gpu.driver", "system"),
        ("gpu.0.power_limit_w", "system"),
        ("cpu.governor", "system"),
        ("infiniband.mlx5_0.firmware", "system"),
        ("memory.limit_bytes", "limits"),
        ("memory.total_bytes", "hardware"),
        ("cpu.allowed_list", "limits"),
        ("env.OMP_NUM_THREADS", "environment"),
        ("env.SLURM_JOB_NUM_NODES", "environment"),
        ("python.torch", "libraries"),
        ("package.numpy", "packages"),
        ("suite.git_dirty", "suite"),
        ("kubernetes.image_id", "libraries"),
        ("kubernetes.qos", "limits"),
        ("kubernetes.kubelet", "system"),
        ("kubernetes.label.nvidia.com:gpu.product", "system"),
        ("a.fact.of.a.later.probe", "system"),
    ],
)
def test_a_fact_that_can_change_a_figure_changes_the_digest(name: str, group: str) -> None:
    assert provenance.group_of(name) == group
    assert provenance.digest(side({name: 1})[0]) != provenance.digest(side({name: 2})[0])
    assert all(fact.matters for fact in provenance.differences(side({name: 1}), side({name: 2})))


def test_the_digest_does_not_depend_on_how_many_equal_nodes_there_are_or_their_order() -> None:
    one, two = {"kernel": "1"}, {"kernel": "2"}
    assert provenance.digest(side(one, two)[0]) == provenance.digest(side(two, one, one)[0])


def test_a_node_whose_probe_failed_does_not_say_that_anything_is_absent() -> None:
    failed = provenance.parse([line(kernel="1"), "no probe"])
    assert provenance.known(failed)
    assert [f.name for f in provenance.differences([failed], side({"kernel": "1"}))] == ["unreadable"]
    assert not provenance.known(provenance.parse(["no probe"]))
