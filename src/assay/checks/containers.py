"""Checks of how containers and services get the hardware: toolkit, runtime, CDI; SELinux types, limits."""

from __future__ import annotations

from assay.checks import Check, Facts, fabric, number, text
from assay.units import human

REFRESH = "as root: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
BY_RUNTIME = ("docker", "containerd", "crio")  # podman takes CDI
# Types that confined containers may use, and the booleans that allow them other devices, narrower first
# Source: container-selinux, container.te
FOR_CONTAINERS = ("container_file_t", "container_device_t")
OPENED_BY = {
    "gpu": ("container_use_xserver_devices", "container_use_devices"),
    "verbs": ("container_use_devices",),
}
UNIT = {"crio": "crio", "containerd": "containerd", "dockerd": "docker", "slurmd": "slurmd", "sshd": "sshd"}


def _arises(facts: Facts) -> bool:
    inside = text(facts, "container") is not None
    return text(facts, "driver.loaded") is not None and not inside and bool(_engines(facts))


def _engines(facts: Facts) -> list[str]:
    return [name.removeprefix("engine.") for name in facts if name.startswith("engine.")]


def toolkit(facts: Facts) -> Check | None:
    """Whether NVIDIA's container toolkit is installed."""
    if not _arises(facts):
        return None
    version = text(facts, "toolkit.version")
    if version is not None:
        return Check("container toolkit", "ok", f"nvidia-ctk {version}")
    evidence = (
        f"nvidia-ctk is not on the PATH; {', '.join(_engines(facts))} can't use it to give containers a GPU"
    )
    remedy = f"as root: install nvidia-container-toolkit, {GUIDE}; the GPU Operator installs its own"
    return Check("container toolkit", "warn", evidence, remedy)


def runtime(facts: Facts) -> Check | None:
    """Whether each engine's settings name NVIDIA's runtime."""
    engines = [name for name in BY_RUNTIME if name in _engines(facts)]
    if not _arises(facts) or not engines:
        return None
    without = [name for name in engines if not facts[f"engine.{name}"]]
    if not without:
        return Check(
            "container runtime", "ok", f"NVIDIA's runtime is in the settings of {', '.join(engines)}"
        )
    evidence = f"the settings of {', '.join(without)} do not name NVIDIA's runtime"
    if number(facts, "cdi.specs"):
        return Check(
            "container runtime", "ok", f"{evidence}; CDI provides the devices (--device nvidia.com/gpu=all)"
        )
    commands = (
        f"nvidia-ctk runtime configure --runtime={name} && systemctl restart {name}" for name in without
    )
    return Check("container runtime", "warn", evidence, f"as root: {'; '.join(commands)}")


def specifications(facts: Facts) -> Check | None:
    """Whether CDI specifications exist and match the loaded driver."""
    name, count = "CDI", number(facts, "cdi.specs")
    if not _arises(facts) or count is None:
        return None
    files, drivers = text(facts, "cdi.files"), text(facts, "cdi.drivers")
    missing, loaded = text(facts, "cdi.missing"), text(facts, "driver.loaded")
    if not count:
        evidence = "no specification for nvidia.com/gpu in /etc/cdi or /var/run/cdi"
        if "podman" in _engines(facts):
            return Check(name, "warn", f"{evidence}: Podman has no other way to reach GPUs", REFRESH)
        return Check(name, "ok", f"{evidence}; {', '.join(_engines(facts))} can use NVIDIA's runtime instead")
    if drivers is not None and drivers != loaded:
        evidence = f"{files} is for driver {drivers}, but {loaded} is loaded: containers fail to start"
        return Check(name, "fail", evidence, REFRESH)
    if missing is not None:
        return Check(name, "fail", f"{files} names {missing}, which does not exist", REFRESH)
    if drivers is None:
        return Check(name, "unknown", f"{files} names no library with the driver's version", REFRESH)
    return Check(name, "ok", f"{files}, for driver {drivers}")


def selinux(facts: Facts) -> Check | None:
    """SELinux's mode and, if it is enforcing, whether containers may use the devices."""
    mode = text(facts, "selinux.mode")
    if mode is None:
        return Check("SELinux", "unknown", "/sys/fs/selinux/enforce can't be read")
    types = {what: text(facts, f"selinux.{what}_device") for what in OPENED_BY}
    device_types = ", ".join(f"the {what} device is {kind}" for what, kind in types.items() if kind)
    evidence = f"{mode}{f'; {device_types}' if device_types else ''}"
    odd = [what for what, kind in types.items() if kind is not None and kind not in FOR_CONTAINERS]
    if mode != "enforcing" or not odd:
        return Check("SELinux", "ok", evidence)
    known, on = ((text(facts, f"selinux.{name}") or "").split(",") for name in ("booleans", "booleans_on"))
    refused = [what for what in odd if not {*OPENED_BY[what]} & {*on}]
    if not refused:
        return Check("SELinux", "ok", f"{evidence}; {', '.join(on)} on: containers may use them")
    booleans = [next((name for name in OPENED_BY[what] if name in known), None) for what in refused]
    if None in booleans:
        return Check("SELinux", "unknown", f"{evidence}; this policy has no boolean that controls it")
    evidence += f"; confined containers can't open the {' and the '.join(refused)} device"
    remedy = "; ".join(f"setsebool -P {name} on" for name in dict.fromkeys(booleans))
    return Check(
        "SELinux", "warn", evidence, f"as root: {remedy}; or install a policy module from the device's vendor"
    )


def services(facts: Facts) -> Check | None:
    """Memory that trials may lock, as limited by the services that start them; only fabrics need it."""
    name = "locked memory of services"
    limits = {
        service.removeprefix("memlock."): value
        for service, value in facts.items()
        if service.startswith("memlock.")
    }
    if not limits or not fabric.devices(facts):
        return None
    short = {service: value for service, value in limits.items() if value != "unlimited"}
    described = ", ".join(f"{service} {_amount(value)}" for service, value in limits.items())
    if not short:
        return Check(name, "ok", described)
    if "crio" in short:
        remedy = (
            "create a file in /etc/crio/crio.conf.d with [crio.runtime] and "
            'default_ulimits = ["memlock=-1:-1"], then as root: systemctl restart crio'
        )
    else:
        units = " ".join(UNIT.get(service, service) for service in short)
        remedy = (
            f"as root, for each of {units}: systemctl edit UNIT, add [Service] LimitMEMLOCK=infinity, "
            "and restart it"
        )
    # A warning: the limit may be raised again before the trial.
    return Check(
        name, "warn", f"{described}: the processes they start can't register more, so RDMA fails", remedy
    )


def _amount(value: object) -> str:
    return human(float(value), "B") if isinstance(value, int | float) else str(value)
