"""Checks of what keeps a process from the hardware: SELinux types, locked-memory limits of services."""

from __future__ import annotations

from assay.checks.check import Check, Facts, text
from assay.checks.host import fabric
from assay.units import human

# Types that confined containers may use, and the booleans that allow them other devices, narrower first
# Source: container-selinux, container.te
FOR_CONTAINERS = ("container_file_t", "container_device_t")
OPENED_BY = {
    "gpu": ("container_use_xserver_devices", "container_use_devices"),
    "verbs": ("container_use_devices",),
}
UNIT = {"crio": "crio", "containerd": "containerd", "dockerd": "docker", "slurmd": "slurmd", "sshd": "sshd"}


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
