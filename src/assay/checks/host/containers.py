"""Checks of how containers on this host get its GPUs: toolkit, runtime, CDI specifications.

None of this is visible from inside a container, so these checks don't apply there.
"""

from __future__ import annotations

from assay.checks.check import Check, Facts, number, text

REFRESH = "as root: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
BY_RUNTIME = ("docker", "containerd", "crio")  # podman takes CDI


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
