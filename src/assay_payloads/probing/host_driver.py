"""NVIDIA's driver in the kernel, on disk, and in the libraries, and how containers get the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing.host_tools import ToolOutput

LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nouveau")
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
# Engine → its program, and where its settings may be
ENGINES = {
    "docker": ("/usr/bin/dockerd", ("/etc/docker/daemon.json",)),
    "containerd": ("/usr/bin/containerd", ("/etc/containerd/config.toml", "/etc/containerd/conf.d")),
    "crio": ("/usr/bin/crio", ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d")),
    "podman": ("/usr/bin/podman", ()),  # has no NVIDIA runtime: it uses CDI
}


def driver(tree: FileTree, output_of: ToolOutput) -> Iterator[tuple[str, Any]]:
    """Which module is loaded, which is on disk, which libraries exist, and the device files.

    Three versions that should match: an upgrade replaces disk and libraries but leaves the loaded module.
    """
    yield "driver.loaded", tree.text("/sys/module/nvidia/version")
    banner = tree.text("/proc/driver/nvidia/version")
    if banner is not None:
        yield "driver.flavor", "open" if "Open Kernel Module" in banner else "proprietary"
    yield "driver.modules", ",".join(name for name in MODULES if tree.has(f"/sys/module/{name}"))
    yield "driver.library", library(tree)
    yield "driver.devices", len(tree.names("/dev", r"nvidia\d+$")) or None
    if tree.has("/sys/module/nvidia"):
        yield "driver.on_disk", (output_of("modinfo", "-F", "version", "nvidia") or "").strip()
        files = ("nvidiactl", "nvidia-uvm")
        yield "driver.devices_missing", ",".join(name for name in files if not tree.has(f"/dev/{name}"))


def library(tree: FileTree) -> str | None:
    """Version of the management library, from its file name; all of them if there are several."""
    names = [name for folder in LIBRARIES for name in tree.names(folder, r"libnvidia-ml\.so\.\d+\.\d")]
    return ",".join(sorted({name.partition(".so.")[2] for name in names})) or None


def containers(tree: FileTree, output_of: ToolOutput) -> Iterator[tuple[str, Any]]:
    """NVIDIA's toolkit, whether each engine knows its runtime, and the CDI specifications.

    `engine.NAME` is whether its settings name NVIDIA; `cdi.drivers` the driver versions of the files
    listed in the specifications; `cdi.missing` the first of those files that does not exist.
    """
    version = re.search(r"version (\d[\w.~-]*)", output_of("nvidia-ctk", "--version") or "")
    yield "toolkit.version", version[1] if version else None
    for name, (program, places) in ENGINES.items():
        if tree.has(program):
            yield f"engine.{name}", any("nvidia" in settings for settings in texts(tree, places))
    specs = [
        f"{folder}/{name}" for folder in CDI_FOLDERS for name in tree.names(folder, r".*\.(ya?ml|json)$")
    ]
    text_by_place = {place: tree.text(place) or "" for place in specs}
    gpu = {
        place: content
        for place, content in text_by_place.items()
        if re.search(r"kind\W+nvidia\.com/gpu", content)
    }
    if tree.has("/sys/module/nvidia"):
        yield "cdi.specs", len(gpu)
    yield "cdi.files", ",".join(gpu)
    paths = sorted({path for text in gpu.values() for path in re.findall(r"hostPath\W+(/[^\s\"',}]+)", text)})
    versions = {match[1] for path in paths if (match := re.search(r"\.so\.(\d{3,}\.\d+(\.\d+)?)$", path))}
    yield "cdi.drivers", ",".join(sorted(versions))
    yield "cdi.missing", next((path for path in paths if not tree.has(path)), None)


def texts(tree: FileTree, places: Iterable[str]) -> Iterator[str]:
    """Settings files, including those in directories (`….d`), without comments."""
    for place in places:
        names = [f"{place}/{name}" for name in tree.names(place)] if place.endswith(".d") else [place]
        for name in names:
            yield re.sub(r"(?m)^\s*#.*$", "", tree.text(name) or "")
