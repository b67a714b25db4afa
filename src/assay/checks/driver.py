"""Checks of NVIDIA's driver: loaded, same version everywhere, device files, persistence mode."""

from __future__ import annotations

from assay.checks import Check, Facts, State, number, text
from assay.checks.software import gpu_for_container

NOUVEAU_OFF = (
    "as root: printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' > /etc/modprobe.d/nouveau.conf, "
    "rebuild the initramfs (dracut --force, or update-initramfs -u), and reboot"
)


def loaded(facts: Facts) -> Check | None:
    """Which of NVIDIA's kernel modules drives the GPUs."""
    name, modules = "driver module", (text(facts, "driver.modules") or "").split(",")
    version = text(facts, "driver.loaded")
    if not number(facts, "pci.nvidia_gpus") and version is None:
        return None
    if "nouveau" in modules:
        evidence = "nouveau drives the GPU (/sys/module/nouveau), so NVIDIA's driver, which CUDA needs, can't"
        return Check(name, "fail", evidence, NOUVEAU_OFF)
    if version is None and text(facts, "container") is not None:
        remedy = "load it on the host, or start the container with the GPUs"
        return Check(
            name, "fail", "module nvidia is not loaded in the host's kernel (/sys/module/nvidia)", remedy
        )
    if version is None:
        remedy = "as root: modprobe nvidia; if it is not installed: https://www.nvidia.com/drivers"
        return Check(name, "fail", "module nvidia is not loaded (/sys/module/nvidia)", remedy)
    flavor = text(facts, "driver.flavor")
    if flavor is None:
        return Check(name, "unknown", f"nvidia {version}; can't tell whether it is the open module")
    return Check(name, "ok", f"nvidia {version}, {flavor} (/proc/driver/nvidia/version)")


def versions(facts: Facts) -> Check | None:
    """Whether the loaded module, the module on disk, and the libraries have the same version."""
    name, version = "driver versions", text(facts, "driver.loaded")
    if version is None:
        return None
    disk, libraries = text(facts, "driver.on_disk"), text(facts, "driver.library")
    if libraries is None:
        evidence = f"{version} is loaded; no libnvidia-ml.so in the usual directories to compare it with"
        return Check(name, "unknown", evidence, "ldconfig -p | grep libnvidia-ml")
    evidence = f"loaded {version}, on disk {disk or 'unknown'}, libraries {libraries}"
    if version not in libraries.split(","):
        remedy = "reboot; or as root, with no process on the GPUs: rmmod nvidia_uvm nvidia && modprobe nvidia"
        why = "every call fails with a driver/library version mismatch"
        return Check(name, "fail", f"{evidence}: {why}", remedy)
    if disk not in (None, version) or "," in libraries:
        remedy = "reboot before the next run, and remove the files of the other version"
        return Check(name, "warn", f"{evidence}: the next boot changes the driver", remedy)
    return Check(name, "ok", evidence)


def devices(facts: Facts) -> Check | None:
    """Whether the device files that programs open exist."""
    if text(facts, "driver.loaded") is None:
        return None
    there, missing = number(facts, "driver.devices") or 0, text(facts, "driver.devices_missing")
    evidence = f"{there:g} of /dev/nvidiaN for {number(facts, 'pci.nvidia_gpus') or 0:g} GPUs on the bus"
    if not there or missing:
        lacks = ", ".join(f"/dev/{file}" for file in (missing or "").split(",") if file)
        remedy = "as root: nvidia-modprobe -c 0 -u"
        if text(facts, "container") is not None:
            remedy = gpu_for_container(facts)
        state: State = "fail" if not there or "nvidiactl" in lacks else "warn"
        return Check("GPU devices", state, f"{evidence}; missing: {lacks or 'all'}", remedy)
    return Check("GPU devices", "ok", evidence)


def persistence(facts: Facts) -> Check | None:
    """Whether the driver stays initialized while nobody uses the GPUs."""
    modes = [facts.get(f"gpu.{n}.persistence") for n in range(int(number(facts, "gpu.count") or 0))]
    if not modes:
        return None
    if None in modes:
        return Check("persistence mode", "unknown", "the driver does not report it for each GPU")
    off = modes.count(False)
    if off:
        evidence = (
            f"off on {off} of {len(modes)}: the first program starts seconds later, and clocks start low"
        )
        remedy = (
            "as root: systemctl enable --now nvidia-persistenced; or nvidia-smi -pm 1 until the next boot"
        )
        return Check("persistence mode", "warn", evidence, remedy)
    return Check("persistence mode", "ok", f"on for all {len(modes)}")
