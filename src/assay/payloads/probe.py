"""What this node is, in one line: everything that could change a measured figure.

Runs alone with the standard library of the interpreter that the trial uses (3.8 or newer), before the
ranks start: `python probe.py` prints `:::ASSAY-PROBE {...}`, a flat JSON table of dotted names.

- What can't be read is absent, never a default; what was there but refused to be read is named in
  `unreadable`.
- Quantities are in SI base units and say so: `memory.total_bytes`, `cpu.frequency_max_hz`.
- torch is not imported: its version is read as text, because the import takes seconds.
- Of the environment only variables that steer training are told, and none that may hold a secret.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

VERSION = 1
MARK = ":::ASSAY-PROBE "
NVML_PATIENCE_S = 10.0  # loading the driver's state takes seconds where no persistence daemon runs
LONGEST_TEXT = 4096

# What reading a foreign file, directory or library can raise; anything else is a fault of this program
READING_ERRORS = (OSError, ValueError, KeyError, IndexError, AttributeError, ctypes.ArgumentError)
# The kernel's ways to say that an attribute has no value here: no fault, so not worth naming
NO_VALUE = {errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP}


class Tree:
    """The file system below a root, read for facts: None where there is nothing, never an exception."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.unreadable: list[str] = []

    def path(self, name: str) -> str:
        """Where an absolute name lies below the root."""
        return os.path.join(self.root, name.lstrip("/"))  # noqa: PTH118 - pathlib costs 10 ms of start-up

    def text(self, name: str, size: int = 1 << 20) -> str | None:
        """The first `size` characters of a file, without the white space around them."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                return file.read(size).strip("\0\n\t ") or None
        except OSError as error:
            self._note(name, error)
            return None

    def number(self, name: str) -> int | None:
        """A file that holds one integer."""
        text = self.text(name)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def names(self, name: str, pattern: str = "") -> list[str]:
        """Sorted names in a directory that match the pattern from their beginning; [] where there is none."""
        try:
            return sorted(entry for entry in os.listdir(self.path(name)) if re.match(pattern, entry))  # noqa: PTH208
        except OSError as error:
            self._note(name, error)
            return []

    def has(self, name: str) -> bool:
        """Whether a file or directory of this name exists."""
        return os.path.exists(self.path(name))  # noqa: PTH110

    def _note(self, name: str, error: OSError) -> None:
        if error.errno not in NO_VALUE:
            self.unreadable.append(f"{name}: {error.strerror}")


def keyed_lines(text: str | None) -> dict[str, str]:
    """`key: value` lines up to the first empty one, as in /proc/cpuinfo and /proc/meminfo."""
    table: dict[str, str] = {}
    for line in (text or "").split("\n\n", 1)[0].splitlines():
        key, colon, value = line.partition(":")
        if colon:
            table.setdefault(key.strip(), value.strip())
    return table


# The machine ---------------------------------------------------------------------------------------------


def machine(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Names of the node, its maker, kernel and operating system."""
    system = os.uname()
    yield "host", system.nodename
    yield "boot_id", tree.text("/proc/sys/kernel/random/boot_id")
    yield "kernel", system.release
    yield "kernel.architecture", system.machine
    yield "kernel.options", kernel_options(tree.text("/proc/cmdline"))
    yield "kernel.numa_balancing", tree.number("/proc/sys/kernel/numa_balancing")
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', tree.text("/etc/os-release") or "", re.MULTILINE))
    yield "os", release.get("PRETTY_NAME")
    yield "machine.vendor", tree.text("/sys/class/dmi/id/sys_vendor")
    yield "machine.product", tree.text("/sys/class/dmi/id/product_name")
    yield "machine.bios", tree.text("/sys/class/dmi/id/bios_version")
    for fact, name in (("source", "current_clocksource"), ("available", "available_clocksource")):
        yield f"clock.{fact}", tree.text(f"/sys/devices/system/clocksource/clocksource0/{name}")
    for minutes, load in zip((1, 5, 15), os.getloadavg()):  # noqa: B905 - strict= is newer than 3.8
        yield f"load.{minutes}min", round(load, 2)


# Only words that steer speed: the rest of a kernel's command line may name disks, hosts and secrets
KERNEL_OPTION = re.compile(
    r"(mitigations|isolcpus|nohz_full|nohz|rcu_nocbs|idle|intel_idle\.\w+|processor\.\w+|hugepages|hugepagesz"
    r"|default_hugepagesz|transparent_hugepage|iommu|intel_iommu|amd_iommu|numa_balancing|numa|intel_pstate"
    r"|amd_pstate|nosmt|tsc|clocksource|spectre_v2|spec_store_bypass_disable|nopti|pti|skew_tick|nosoftlockup"
    r"|nmi_watchdog|audit|pcie_aspm|preempt)(=.*)?"
)


def kernel_options(cmdline: str | None) -> str | None:
    """Those words of the kernel's command line that are known to change speed, in their order."""
    return " ".join(word for word in (cmdline or "").split() if KERNEL_OPTION.fullmatch(word)) or None


def processor(tree: Tree) -> Iterator[tuple[str, Any]]:
    """The CPU: model, cores, frequency and how it is governed. Facts of the node, not of this process."""
    cpus = "/sys/devices/system/cpu"
    info = keyed_lines(tree.text("/proc/cpuinfo", size=8192))  # the first CPU: all of 256 take a while
    yield "cpu.model", info.get("model name") or info.get("cpu")
    yield "cpu.implementer", info.get("CPU implementer")
    yield "cpu.part", info.get("CPU part")
    yield "cpu.microcode", info.get("microcode")
    yield "cpu.logical", os.sysconf("SC_NPROCESSORS_ONLN")
    topologies = [f"{cpus}/{name}/topology" for name in tree.names(cpus, r"cpu\d+$")]
    cores = {tree.text(f"{topology}/thread_siblings_list") for topology in topologies} - {None}
    sockets = {tree.text(f"{topology}/physical_package_id") for topology in topologies} - {None}
    yield "cpu.cores", len(cores) or None
    yield "cpu.sockets", len(sockets) or None
    threads = tree.number(f"{cpus}/smt/active")
    yield "cpu.smt", None if threads is None else threads == 1
    policies = [f"{cpus}/cpufreq/{name}" for name in tree.names(f"{cpus}/cpufreq", "policy")]
    yield (
        "cpu.governor",
        ",".join(sorted({tree.text(f"{p}/scaling_governor") or "" for p in policies} - {""})),
    )
    for fact, name in (("max", "cpuinfo_max_freq"), ("now", "scaling_cur_freq")):
        kilohertz = [tree.number(f"{policy}/{name}") or 0 for policy in policies]
        yield f"cpu.frequency_{fact}_hz", 1000 * max(kilohertz, default=0) or None
    boost = tree.number(f"{cpus}/cpufreq/boost")
    no_turbo = tree.number(f"{cpus}/intel_pstate/no_turbo")
    if boost is not None or no_turbo is not None:
        yield "cpu.boost", boost == 1 if boost is not None else no_turbo == 0
    yield "cpu.throttled_count_now", throttled(tree)
    yield "virtualisation", hypervisor(tree, info)


def throttled(tree: Tree) -> int | None:
    """Times since boot that a package slowed down for heat, all packages together; None where not counted.

    Source: arch/x86/kernel/cpu/mce/therm_throt.c; every CPU of a package shows the package's count.
    """
    cpus = "/sys/devices/system/cpu"
    if not tree.has(f"{cpus}/cpu0/thermal_throttle"):
        return None
    counts: dict[str | None, int] = {}
    for name in tree.names(cpus, r"cpu\d+$"):
        count = tree.number(f"{cpus}/{name}/thermal_throttle/package_throttle_count") or 0
        package = tree.text(f"{cpus}/{name}/topology/physical_package_id")
        counts[package] = max(count, counts.get(package, 0))
    return sum(counts.values())


def hypervisor(tree: Tree, cpuinfo: dict[str, str]) -> str | None:
    """What this machine is virtual under, "none" where the CPU says it is not, None where nothing tells."""
    clocks = tree.text("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    maker = f"{tree.text('/sys/class/dmi/id/sys_vendor')} {tree.text('/sys/class/dmi/id/product_name')}"
    signs = (
        (tree.text("/sys/hypervisor/type") == "xen", "xen"),
        ("VMware" in maker, "vmware"),
        ("Microsoft Corporation Virtual Machine" in maker or "hyperv" in clocks, "hyper-v"),
        ("kvm-clock" in clocks or "QEMU" in maker or "KVM" in maker, "kvm"),
    )
    for present, name in signs:
        if present:
            return name
    if "flags" not in cpuinfo:  # only x86 states it
        return None
    return "hypervisor" if "hypervisor" in cpuinfo["flags"].split() else "none"


def memory(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Main memory, NUMA nodes, huge pages and the shared memory that ranks of a node exchange through."""
    info = keyed_lines(tree.text("/proc/meminfo"))
    for fact, key in (("total", "MemTotal"), ("available", "MemAvailable"), ("swap", "SwapTotal")):
        if key in info:
            yield f"memory.{fact}_bytes", int(info[key].split()[0]) * 1024
    yield "memory.hugepages", int(info["HugePages_Total"]) if "HugePages_Total" in info else None
    huge = tree.text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    yield "memory.transparent_hugepages", "".join(re.findall(r"\[(\w+)\]", huge))
    yield "numa.nodes", len(tree.names("/sys/devices/system/node", r"node\d+$")) or None
    shm = os.statvfs(tree.path("/dev/shm"))  # noqa: S108 - it is asked for its size
    yield "shm.size_bytes", shm.f_blocks * shm.f_frsize
    yield "shm.free_bytes", shm.f_bavail * shm.f_frsize


# What this process may use of it -------------------------------------------------------------------------


def limits(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Cores, memory, files and locked memory that this process is allowed."""
    yield "cpu.allowed", len(os.sched_getaffinity(0))
    status = keyed_lines(tree.text("/proc/self/status"))
    yield "cpu.allowed_list", status.get("Cpus_allowed_list")
    yield "cpu.quota", cgroup_cores(tree)
    yield "memory.limit_bytes", cgroup_memory_bytes(tree)
    yield "cgroup.version", cgroup_version(tree)
    for name, limit in (
        ("nofile{}", resource.RLIMIT_NOFILE),
        ("memlock{}_bytes", resource.RLIMIT_MEMLOCK),
        ("stack{}_bytes", resource.RLIMIT_STACK),
    ):
        soft, hard = ("unlimited" if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(limit))
        yield f"limits.{name.format('')}", soft
        yield f"limits.{name.format('_hard')}", hard


def cgroup_dirs(tree: Tree, controller: str) -> list[str]:
    """Directories of a cgroup controller for this process, its own and all above it, version 1 and 2.

    In a container the mount shows only the container's own part, while the path may be the host's: the part
    that the mount hides is cut off, and the mount itself always counts.
    """
    mounts: dict[str, tuple[str, str]] = {}  # controller, "" for version 2 → root of the mount, its place
    for line in (tree.text("/proc/self/mountinfo") or "").splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = [*tail.split(" ", 2), "", ""][:3]
        place = fields.split(" ")[3:5]
        if kind == "cgroup2":
            mounts[""] = (place[0], place[1])
        elif kind == "cgroup" and controller in options.split(","):
            mounts[controller] = (place[0], place[1])
    dirs = []
    for line in (tree.text("/proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        for name in {*names.split(",")} & {*mounts}:
            root, place_of = mounts[name]
            inside = path[len(root) :] if root != "/" and path.startswith(root) else path
            parts = [part for part in inside.split("/") if part not in ("", "..")]
            dirs += ["/".join([place_of, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return dirs


def cgroup_version(tree: Tree) -> int | None:
    """By which version of cgroups the CPUs of this process are limited; None where the kernel has none."""
    lines = (tree.text("/proc/self/cgroup") or "").splitlines()
    names = {name for line in lines for name in line.split(":", 2)[1].split(",")}
    return None if not names else 1 if "cpu" in names else 2


def cgroup_cores(tree: Tree) -> float | None:
    """Cores' worth of time that the tightest cgroup allows; None where none limits it."""
    quotas = []
    for path in cgroup_dirs(tree, "cpu"):
        text = tree.text(f"{path}/cpu.max") or " ".join(
            str(tree.number(f"{path}/cpu.cfs_{name}_us") or "max") for name in ("quota", "period")
        )
        match = re.fullmatch(r"(\d+) (\d+)", text)
        if match is not None and int(match[2]):
            quotas.append(int(match[1]) / int(match[2]))
    return min(quotas, default=None)


def cgroup_memory_bytes(tree: Tree) -> int | None:
    """Memory that the tightest cgroup allows, bytes; None where none limits it."""
    total = int(keyed_lines(tree.text("/proc/meminfo")).get("MemTotal", "0").split()[0]) * 1024
    found = [
        tree.number(f"{path}/{name}")
        for path in cgroup_dirs(tree, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    # version 1 writes "no limit" as a number larger than any memory
    return min(
        (limit for limit in found if limit is not None and 0 < limit < (total or 1 << 60)), default=None
    )


def container(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Signs of a container around this process, and the file systems it works on."""
    groups = tree.text("/proc/self/cgroup") or ""
    signs = {
        "docker": tree.has("/.dockerenv") or "docker" in groups,
        "podman": tree.has("/run/.containerenv") or "libpod" in groups,
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ or "kubepods" in groups,
        "apptainer": "APPTAINER_NAME" in os.environ or "SINGULARITY_NAME" in os.environ,
        "lxc": "lxc" in groups,
    }
    found = {name for name, present in signs.items() if present} | {tree.text("/run/systemd/container") or ""}
    yield "container", ",".join(sorted(found - {""}))
    here = os.getcwd()  # noqa: PTH109
    mounts = {}
    for line in (tree.text("/proc/self/mountinfo") or "").splitlines():
        fields, _, tail = line.partition(" - ")
        mounts[fields.split(" ")[4]] = tail.split(" ")[0]
    around = [place for place in mounts if (here + "/").startswith(place.rstrip("/") + "/")]
    yield "disk.filesystem", mounts[max(around, key=len)] if around else None
    space = os.statvfs(here)
    yield "disk.free_bytes", space.f_bavail * space.f_frsize


# Networks ------------------------------------------------------------------------------------------------


def networks(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Network interfaces and InfiniBand or RoCE devices, without the per-container ends of a host."""
    for name in tree.names("/sys/class/net", r"(?!lo$|veth|cali|lxc|tap|br-|docker|virbr)")[:64]:
        place = f"/sys/class/net/{name}"
        yield f"net.{name}.state", tree.text(f"{place}/operstate")
        yield f"net.{name}.mtu_bytes", tree.number(f"{place}/mtu")
        real = tree.has(f"{place}/device") or tree.has(f"{place}/bonding")  # a pod's eth0 makes its speed up
        megabits = tree.number(f"{place}/speed") if real else None
        yield f"net.{name}.bits_per_s", megabits * 10**6 if megabits is not None and megabits > 0 else None
    for name in tree.names("/sys/class/infiniband"):
        place = f"/sys/class/infiniband/{name}"
        yield f"infiniband.{name}.firmware", tree.text(f"{place}/fw_ver")
        yield f"infiniband.{name}.board", tree.text(f"{place}/board_id")
        for port in tree.names(f"{place}/ports"):
            for fact in ("rate", "state", "link_layer"):
                yield f"infiniband.{name}.port{port}.{fact}", tree.text(f"{place}/ports/{port}/{fact}")


# GPUs ----------------------------------------------------------------------------------------------------


def gpus_on_bus(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Display and compute accelerators on the PCI bus, whether or not a driver serves them."""
    counts = {"0x10de": 0, "0x1002": 0}
    for name in tree.names("/sys/bus/pci/devices"):
        place = f"/sys/bus/pci/devices/{name}"
        vendor = tree.text(f"{place}/vendor")
        if vendor in counts and (tree.text(f"{place}/class") or "")[:4] in ("0x03", "0x12"):
            counts[vendor] += 1
    yield "pci.nvidia_gpus", counts["0x10de"] or None
    yield "pci.amd_gpus", counts["0x1002"] or None


def nvml_facts(library: str = "libnvidia-ml.so.1") -> Iterator[tuple[str, Any]]:
    """GPUs as NVIDIA's management library sees them; nothing where there is no such library.

    Source: nvml.h. Every call gives 0 for success; a value that a GPU does not have is left out.
    """
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return  # no NVIDIA driver: gpus_on_bus tells whether one is missed
    failed = nvml.nvmlInit_v2()
    if failed:
        raise OSError(errno.EIO, f"nvmlInit_v2 gave {failed}")
    try:
        yield "gpu.driver", _nvml_text(nvml, "nvmlSystemGetDriverVersion")
        version = _nvml_numbers(nvml, "nvmlSystemGetCudaDriverVersion_v2")
        yield "gpu.cuda", f"{version[0] // 1000}.{version[0] % 1000 // 10}" if version else None
        count = _nvml_numbers(nvml, "nvmlDeviceGetCount_v2")
        yield "gpu.count", count[0] if count else None
        for index in range(count[0] if count else 0):
            device = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) == 0:
                for name, value in _nvml_device(nvml, device):
                    yield f"gpu.{index}.{name}", value
    finally:
        nvml.nvmlShutdown()


def _nvml_device(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> Iterator[tuple[str, Any]]:
    """One GPU. Clocks come in MHz and power in mW; types of clock: 1 is SM, 2 is memory."""
    for name, function in (("name", "Name"), ("uuid", "UUID"), ("vbios", "VbiosVersion")):
        yield name, _nvml_text(nvml, f"nvmlDeviceGet{function}", device)
    sizes = (ctypes.c_ulonglong * 3)()  # total, free, used
    if nvml.nvmlDeviceGetMemoryInfo(device, sizes) == 0:
        yield "memory_bytes", sizes[0]
        yield "memory_free_bytes", sizes[1]
    for name, function, before, outputs, scale in (
        ("clock_now_hz", "ClockInfo", (1,), 1, 10**6),
        ("clock_max_hz", "MaxClockInfo", (1,), 1, 10**6),
        ("memory_clock_now_hz", "ClockInfo", (2,), 1, 10**6),
        ("memory_clock_max_hz", "MaxClockInfo", (2,), 1, 10**6),
        ("power_limit_w", "EnforcedPowerLimit", (), 1, 1e-3),
        ("temperature_c", "Temperature", (0,), 1, 1),
        ("ecc", "EccMode", (), 2, 1),
        ("mig", "MigMode", (), 2, 1),
        ("persistence", "PersistenceMode", (), 1, 1),
        ("compute_mode", "ComputeMode", (), 1, 1),
        ("pcie_generation_now", "CurrPcieLinkGeneration", (), 1, 1),
        ("pcie_generation_max", "MaxPcieLinkGeneration", (), 1, 1),
        ("pcie_width", "CurrPcieLinkWidth", (), 1, 1),
        ("pcie_width_max", "MaxPcieLinkWidth", (), 1, 1),
    ):
        values = _nvml_numbers(nvml, f"nvmlDeviceGet{function}", device, *before, outputs=outputs)
        if values:
            yield name, bool(values[0]) if name in ("ecc", "mig", "persistence") else values[0] * scale


def _nvml_text(nvml: ctypes.CDLL, function: str, *before: Any) -> str | None:
    buffer = ctypes.create_string_buffer(96)
    if getattr(nvml, function)(*before, buffer, ctypes.c_uint(len(buffer))):
        return None
    return buffer.value.decode("utf-8", "replace")


def _nvml_numbers(nvml: ctypes.CDLL, function: str, *before: Any, outputs: int = 1) -> list[int] | None:
    if not hasattr(nvml, function):  # newer than this driver
        return None
    values = [ctypes.c_uint() for _ in range(outputs)]
    failed = getattr(nvml, function)(*before, *(ctypes.byref(value) for value in values))
    return None if failed else [value.value for value in values]


# Software ------------------------------------------------------------------------------------------------


def software(folders: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """The interpreter and the packages it finds in these folders (those of its search path)."""
    yield "python.version", sys.version.split()[0]
    yield "python.implementation", sys.implementation.name
    yield "python.executable", sys.executable
    yield "python.virtual_environment", sys.prefix != sys.base_prefix
    tree = Tree()
    folders = [folder for folder in folders if folder]
    packages = installed(tree, folders)
    for name, version in packages.items():
        yield f"package.{name}", version
    listed = "\n".join(f"{name}=={version}" for name, version in packages.items())
    yield "python.packages_digest", hashlib.sha256(listed.encode()).hexdigest()[:16]
    for name in ("torch", "torchvision"):
        texts = (tree.text(f"{folder}/{name}/version.py") for folder in folders)
        stated = version_file(next(filter(None, texts), ""))
        yield f"python.{name}", stated.get("__version__") or packages.get(name)
        if name == "torch":
            yield "python.torch_cuda", stated.get("cuda")
            yield "python.torch_hip", stated.get("hip")
    yield "python.numpy", packages.get("numpy")
    for name, version in packages.items():
        library = re.fullmatch(r"nvidia-(cudnn|nccl)-cu\d+", name)
        if library is not None:
            yield f"python.{library[1]}", version


def installed(tree: Tree, folders: Iterable[str]) -> dict[str, str]:
    """Packages by name with their versions, from the names of their metadata folders alone."""
    found: dict[str, str] = {}
    for folder in folders:
        for entry in tree.names(folder, r".*\.(dist-info|egg-info)$"):
            match = re.fullmatch(r"([^-]+)-([^-]+)(-py[\d.]+)?\.\w+-info", entry)
            if match is not None:  # the first on the search path is the one that is imported
                found.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return dict(sorted(found.items()))


def version_file(text: str) -> dict[str, str]:
    """Strings assigned in a package's version.py: `__version__ = '2.8.0+cu128'`, `cuda: … = '12.8'`."""
    return dict(re.findall(r"""^(\w+)\s*(?::[^=\n]*)?=\s*['"]([^'"]*)['"]""", text, re.MULTILINE))


# Environment ---------------------------------------------------------------------------------------------

STEERS_TRAINING = re.compile(
    r"(NCCL|RCCL|GLOO|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|DNNL|ONEDNN|TORCH|PYTORCH|CUDA|CUDNN|CUBLAS|NVIDIA)_.*"
    r"|(HIP|ROCR|HSA|UCX|FI|OMPI_MCA|XLA|MALLOC|HOROVOD)_.*"
    r"|TF_(XLA|ENABLE|DISABLE|GPU|NUM|USE|FORCE|CUDNN|DETERMINISTIC)\w*"
    r"|SLURM_(JOB|CPU|GPU|MEM|NTASKS|NNODES|TASKS|STEP)\w*"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONOPTIMIZE|PYTHONMALLOC|PYTHONHASHSEED"
)
SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|PASS($|_)|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
SECRET_VALUE = re.compile(
    r"://[^/\s@]*@"  # userinfo in a URL
    r"|\b(bearer|basic)\s+\S"
    r"|(token|secret|passw(or)?d|api_?key|signature|credential)s?\s*[=:]"
    r"|\b(gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|eyJ)[\w-]{12,}"
    r"|-----BEGIN",
    re.IGNORECASE,
)
REDACTED = "(redacted)"


def redacted(name: str, value: str) -> str:
    """The value, or `(redacted)` where the name or the value looks like it holds a secret."""
    return REDACTED if SECRET_NAME.search(name) or SECRET_VALUE.search(value) else value


def environment(variables: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    """Variables that steer training and communication, secrets left out."""
    for name, value in sorted(variables):
        if STEERS_TRAINING.fullmatch(name):
            yield f"env.{name}", redacted(name, value)


# All of it -----------------------------------------------------------------------------------------------


def gather(section: Callable[[], Iterable[tuple[str, Any]]], facts: dict[str, Any]) -> str | None:
    """Add a section's facts; what it can't go on with is returned, what it found before stays."""
    try:
        for name, value in section():
            if value is not None and value != "":
                facts[name] = plain(value)
    except READING_ERRORS as error:
        return f"{getattr(error, 'strerror', None) or error}"
    return None


def plain(value: Any) -> Any:
    """Text that every reader can decode and that does not fill a log; other values as they are."""
    if not isinstance(value, str):
        return value
    text = value.encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


def probe(tree: Tree) -> dict[str, Any]:
    """The whole table of this node."""
    begin = time.monotonic()
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    facts: dict[str, Any] = {"probe.version": VERSION}
    sections: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
        "machine": lambda: machine(tree),
        "processor": lambda: processor(tree),
        "memory": lambda: memory(tree),
        "limits": lambda: limits(tree),
        "container": lambda: container(tree),
        "networks": lambda: networks(tree),
        "gpus_on_bus": lambda: gpus_on_bus(tree),
        "software": lambda: software(folder for folder in sys.path if folder != own_folder),
        "environment": lambda: environment(os.environ.items()),
    }
    for name, section in sections.items():
        problem = gather(section, facts)
        if problem:
            tree.unreadable.append(f"{name}: {problem}")
    tree.unreadable += nvml_within(NVML_PATIENCE_S, facts)
    if tree.unreadable:
        facts["unreadable"] = plain("; ".join(tree.unreadable))
    facts["probe.duration_s"] = round(time.monotonic() - begin, 4)
    return facts


def nvml_within(patience_s: float, facts: dict[str, Any]) -> list[str]:
    """Add the GPUs' facts unless the driver does not answer in time: a broken one can hang for ever."""
    found: dict[str, Any] = {}
    problems: list[str | None] = []
    thread = threading.Thread(target=lambda: problems.append(gather(nvml_facts, found)), daemon=True)
    thread.start()
    thread.join(patience_s)
    if thread.is_alive():
        return [f"nvml: no answer in {patience_s:g} s"]
    facts.update(found)
    return [f"nvml: {problem}" for problem in problems if problem]


def main() -> None:
    """Print the line and leave, even if a driver call still hangs in its thread."""
    line = MARK + json.dumps(probe(Tree()), ensure_ascii=True, allow_nan=False) + "\n"
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(line)
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
