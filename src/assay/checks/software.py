"""Checks of the software of trials: the interpreter, torch, and whether torch matches the GPUs."""

from __future__ import annotations

import re
import shlex

from assay.checks import PLACE, Check, Facts, fitting, number, text
from assay.units import human_seconds

OLDEST_PYTHON = (3, 10)  # the oldest release that current torch supports
SLOW_IMPORT_S = 20.0
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_TIMED_OUT = re.compile(r"did not end within|no answer within")  # of `probing.in_turn` and `shell`
CHOOSE_BUILD = "https://pytorch.org/get-started/locally"

# Oldest driver that runs programs built with a CUDA toolkit of this major version
# Source: NVIDIA, CUDA Compatibility, table "Minor Version Compatibility"; 11 from its footnote
OLDEST_DRIVER = {11: (450, 80, 2), 12: (525,), 13: (580,)}


def interpreter(facts: Facts) -> Check:
    """The Python that runs the trials."""
    error, version = text(facts, "python.error"), text(facts, "python.version")
    other = "set another interpreter for the system: `python: /path/to/python` in systems.yaml"
    if error is not None:
        return Check("python", "fail", error, other)
    if version is None:
        return Check("python", "unknown", "its version could not be read")
    evidence = f"{version} ({text(facts, 'python.executable')})"
    if _numbers(version)[:2] < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return Check("python", "fail", f"{evidence}; trials need {oldest} or newer", other)
    return Check("python", "ok", evidence)


def torch_import(facts: Facts) -> Check:
    """Whether torch is installed and imports, and how long the import takes."""
    error, installed = text(facts, "torch.import_error"), text(facts, "python.torch")
    if error is not None and installed is None:
        where = text(facts, "python.executable") or "the trials' interpreter"
        return Check("torch", "fail", f"not installed in {where}", _install(facts, "torch torchvision"))
    if error is not None and _TIMED_OUT.search(error):
        remedy = "repeat it when the machine is idle, or move the environment to a local disk"
        return Check("torch", "unknown", f"{installed} is installed; its import {error}", remedy)
    if error is not None:
        again = _install(facts, "--force-reinstall torch torchvision")
        return Check("torch", "fail", f"{installed} is installed but does not import: {error}", again)
    version, seconds = text(facts, "torch.version"), number(facts, "torch.import_s")
    if version is None or seconds is None:
        return Check("torch", "unknown", "its import could not be tested")
    evidence = f"{version}, imports in {human_seconds(seconds)}, {facts.get('torch.threads')} threads"
    if seconds > SLOW_IMPORT_S:
        remedy = "move the environment to a local disk; every trial waits for the import before it starts"
        return Check("torch", "warn", evidence, remedy)
    return Check("torch", "ok", evidence)


def torchvision(facts: Facts) -> Check:
    """Whether torchvision imports; only some workloads need it."""
    version, error = text(facts, "torch.torchvision"), text(facts, "torch.torchvision_error")
    if version is not None:
        return Check("torchvision", "ok", version)
    if error is None:
        return Check("torchvision", "unknown", "its import could not be tested")
    evidence = f"does not import, but the resnet50 workload needs it: {error}"
    return Check("torchvision", "warn", evidence, _install(facts, "torchvision"))


def communication(facts: Facts) -> Check:
    """Whether processes can communicate: gloo is tried, NCCL is only looked up."""
    name, gloo = "communication", facts.get("torch.gloo")
    if gloo is None:
        return Check(name, "unknown", "torch could not be queried")
    if gloo is False:
        evidence = "torch was built without gloo: trials of more than one process can't run on CPUs"
        return Check(name, "fail", evidence, _install(facts, "--force-reinstall torch torchvision"))
    if not facts.get("torch.gloo_works"):
        host = text(facts, "host") or "HOSTNAME"
        loopback = "set `env: {GLOO_SOCKET_IFNAME: lo}` for the system in systems.yaml"
        by_name = f"as root: echo '127.0.0.1 {host}' >> /etc/hosts; or {loopback}"
        remedy = fitting(facts, here=by_name, container=loopback, pod=loopback)
        return Check(name, "fail", f"gloo does not start: {text(facts, 'torch.gloo_error')}", remedy)
    if (number(facts, "torch.gpus") or 0) > 1 and facts.get("torch.nccl") is False:
        evidence = "gloo works, but torch was built without NCCL: GPUs can't exchange at full speed"
        return Check(name, "fail", evidence, _install(facts, "--force-reinstall torch torchvision"))
    nccl = "NCCL is built in" if facts.get("torch.nccl") else "no NCCL"
    return Check(name, "ok", f"gloo works; {nccl}")


def gpu(facts: Facts) -> Check:
    """Whether torch uses all GPUs of this machine."""
    count = int(number(facts, "gpu.count") or 0)
    if not count or _only_amd(facts):
        return _gpu_without_nvml(facts)
    gpus = f"{count} × {text(facts, 'gpu.0.name') or 'NVIDIA GPU'}"
    version, usable = text(facts, "torch.version"), number(facts, "torch.gpus")
    if version is None or usable is None:
        return Check("gpu", "unknown", f"{gpus}; torch could not be queried whether it uses them")
    if text(facts, "torch.cuda") is None:
        remedy = _install(facts, "--force-reinstall torch torchvision")
        return Check("gpu", "fail", f"{gpus}, but torch {version} is built without CUDA", remedy)
    error = text(facts, "torch.gpu_error")
    if error is not None:
        return Check("gpu", "fail", f"{gpus}, but an addition on one of them fails: {error}", "nvidia-smi -q")
    if not usable:
        visible = text(facts, "env.CUDA_VISIBLE_DEVICES")
        remedy = (
            "unset CUDA_VISIBLE_DEVICES" if visible is not None else "run nvidia-smi, and see `gpu driver`"
        )
        return Check("gpu", "fail", f"{gpus}, but torch {version} can't use any", remedy)
    seen = "" if usable == count else f"; torch uses {usable:g} of them"
    return Check("gpu", "ok", gpus + seen)


def _only_amd(facts: Facts) -> bool:
    return bool(number(facts, "pci.amd_gpus")) and not number(facts, "pci.nvidia_gpus")


def _gpu_without_nvml(facts: Facts) -> Check:
    nvidia, amd = number(facts, "pci.nvidia_gpus"), number(facts, "pci.amd_gpus")
    if nvidia:
        evidence = (
            f"{nvidia:g} NVIDIA GPU on the PCI bus, but no driver responds: trials would run on the CPU"
        )
        if text(facts, "container") is not None:
            return Check("gpu", "warn", evidence, gpu_for_container(facts))
        return Check("gpu", "warn", evidence, "as root: install the driver, https://www.nvidia.com/drivers")
    if amd and not number(facts, "torch.gpus"):
        evidence = f"{amd:g} AMD GPU on the PCI bus, but torch can't use it: trials would run on the CPU"
        return Check("gpu", "warn", evidence, f"install torch's ROCm build: {CHOOSE_BUILD}")
    if amd:
        return Check("gpu", "ok", f"{number(facts, 'torch.gpus'):g} AMD GPU, used by torch")
    return Check("gpu", "ok", "none; trials run on the CPU")


def gpu_for_container(facts: Facts) -> str:
    """How the container that the facts come from can get GPUs."""
    return fitting(
        facts,
        here="start the container with the GPUs: docker run --gpus all …",
        container="set `devices: [nvidia.com/gpu=all]` for the system in systems.yaml",
        pod="set `resources: {accelerator: {nvidia.com/gpu: 1}}` for the system in systems.yaml",
    )


def gpu_driver(facts: Facts) -> Check:
    """Whether the NVIDIA driver is new enough for the CUDA that torch was built with."""
    name, driver, build = "gpu driver", text(facts, "gpu.driver"), text(facts, "torch.cuda")
    if driver is None:
        if number(facts, "pci.nvidia_gpus"):
            return Check(name, "unknown", "no driver responds")
        return Check(name, "ok", "no NVIDIA GPU, none needed")
    if _only_amd(facts):
        return Check(name, "ok", f"amdgpu {driver}")
    if build is None:
        return Check(name, "unknown", f"{driver}; torch reports no CUDA version to compare it with")
    evidence = f"{driver}, torch is built for CUDA {build}"
    if number(facts, "torch.gpus"):  # they work, perhaps through a forward-compatibility package
        return Check(name, "ok", evidence)
    oldest = OLDEST_DRIVER.get(_numbers(build)[0]) if _numbers(build) else None
    if oldest is None:
        return Check(name, "unknown", f"{evidence}; Assay does not know which driver this needs")
    if _numbers(driver) < oldest:
        needed = ".".join(map(str, oldest))
        remedy = (
            f"as root: install driver {needed} or newer; or install a torch built for CUDA "
            f"{text(facts, 'gpu.cuda') or 'of this driver'} or older: {CHOOSE_BUILD}"
        )
        return Check(name, "fail", f"{evidence}, which needs driver {needed}", remedy)
    return Check(name, "ok", evidence)


def _install(facts: Facts, what: str) -> str:
    """The command that installs packages where the trials import them from."""
    index = (
        "" if number(facts, "gpu.count") or number(facts, "pci.nvidia_gpus") else f" --index-url {CPU_INDEX}"
    )
    place = text(facts, PLACE)
    if place in ("container", "pod"):  # anything installed inside is lost with it
        return (
            "set another image for the system: `assay stack containerfile WORKLOAD > Containerfile` writes "
            f"one; or add to yours: pip install {what}{index}"
        )
    where = {"ssh": "on that host: ", "node": "once, on a disk that all nodes share: "}.get(place or "", "")
    python = shlex.quote(text(facts, "python.executable") or "python3")
    if (
        facts.get("python.virtual_environment") is False
    ):  # the operating system's Python refuses this, or should
        make = f"{where}{python} -m venv .venv && .venv/bin/pip install {what}{index}"
        return f"{make}; then set `python:` for the system in systems.yaml to the full path of that python"
    return f"{where}{python} -m pip install {what}{index}"


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `580.95.05` gives (580, 95, 5)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
