"""Parts of a prepared cluster as tests ask for them: each with what it can't be without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from assay.cli import assay
from assay.cluster.components import PARTS, Preparation
from assay.cluster.components.component import Component, Platform, PreparationTarget
from assay.launch.kubernetes.options import KubernetesSystem

SCALE = {"cluster": "16217308676014575381", "filesystem": "099B6A7A:5EB99743", "path": "/gpfs/frames"}
OPTIONS: dict[str, dict[str, Any]] = {
    "registry": {"images": "images", "pushes": "ci"},
    "storage": {
        "claims": {
            "frames": {"scale": SCALE, "access": "ReadOnlyMany"},
            "paper": {"scale": {**SCALE, "csi": "2.0.0"}},
            "home": {"nfs": {"server": "nfs.lab", "path": "/home", "mountOptions": ["nconnect=8"]}},
            "local": {"hostPath": "/data", "size": "100Gi"},
            "scratch": {
                "storageClass": {"provisioner": "csi.lab", "parameters": {"fs": "fs1"}},
                "size": "500Gi",
            },
            "there": {"storageClassName": "fast", "size": "1Ti", "access": "ReadWriteOnce"},
        }
    },
    "kueue": {"quota": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "16"}},
    # dashboards are long, and have tests of their own
    "monitoring": {"labels": {"release": "prometheus"}, "user_workload": True, "dashboards": "none"},
    "serve": {
        "image": "registry.lab/assay:1",
        "proxy_image": "registry.lab/oauth-proxy:1",
        "host": "assay.apps.lab",
        "readers": ["benchmarkers"],
    },
    "schedule": {"suite": "quick.yaml", "image": "assay:1"},
    "chrony": {"servers": ["time1.lab", "time2.lab"]},
    "hugepages": {"size": "1Gi", "count": 32},
    "numa": {"reserved_cpus": "0-1,64-65", "reserved_memory": {"0": "1124Mi"}},
    "network-operator": {
        "driver": "doca3.4.1-26.04-1.1.0.0-1",
        "resources": [
            {"resourceName": "shared_ib0", "rdmaHcaMax": 100, "devices": ["ib0"]},
            {"resourceName": "eth", "selectors": {"vendors": ["15b3"], "linkTypes": ["ether"]}},
        ],
    },
}
"""What parts can't be without, as an example of each."""


def preparation(platform: Platform, namespace: str, *names: str, **options: dict[str, Any]) -> Preparation:
    target = PreparationTarget(
        platform, namespace, KubernetesSystem.model_validate({"runAsUser": "assigned"})
    )
    return Preparation(target, tuple(part(name, **options.get(name, {})) for name in names))


def part(name: str, **options: Any) -> Component:
    return PARTS[name].model_validate({**OPTIONS.get(name, {}), **options})


def everything(platform: Platform, namespace: str) -> Preparation:
    names = [name for name, of in PARTS.items() if platform in of.platforms]
    return preparation(
        platform, namespace, *names, registry={"images": namespace}, monitoring={"dashboards": None}
    )


def systems_file(folder: Path, namespace: str) -> Path:
    """A systems file with a system that is right and another that is not."""
    file = folder / "systems.yaml"
    file.write_text(
        f"lab:\n  launcher: kubernetes\n  namespace: {namespace}\n"
        "  prepare:\n    memlock:\n    chrony: {servers: [t]}\n"
        f"wrong:\n  launcher: kubernetes\n  namespace: {namespace}\n  prepare:\n"
        "    gpu-operatr: {}\n    hugepages: {size: 3Mi, cuont: 1}\n"
    )
    return file


def run(file: Path, *args: str, says: str = "") -> Result:
    """`assay cluster prepare` with a systems file; `says` is what is answered where it asks."""
    return CliRunner().invoke(assay, ["cluster", "prepare", *args, "--systems", str(file)], input=says)
