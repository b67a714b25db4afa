"""The keys of systems.yaml, from the options of every launcher."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from fields import fields, nested
from pydantic import BaseModel

from assay.launch import SYSTEM_MODELS
from assay.launch.kubernetes import options as kubernetes
from assay.launch.kubernetes.options import Volume

NESTED = {
    model.__name__: model
    for model in (
        Volume,
        kubernetes.Resources,
        kubernetes.ResourceClaim,
        kubernetes.Affinity,
        kubernetes.Toleration,
        kubernetes.TopologySpread,
        kubernetes.Topology,
    )
}
_PAGES = {"docker": "podman", "local": ""}
_COMMON = {
    "python": "/opt/torch/bin/python",
    "env": "{OMP_NUM_THREADS: '8', HF_TOKEN: {from_env: HF_TOKEN}}",
    "pin_cpus": "true",
    "grace": "30s",
    "image": "registry.example/torch@sha256:0123",
    "placement": "pack",
}
_BATCH = {
    "directory": "/lustre/assay",
    "exclusive": "true",
    "cpus_per_rank": "16",
    "startup": "15min",
    "before": "[module load cuda]",
    "reservation": "bench-week",
    "mem": "64G",
}
_CONTAINER = {
    "volumes": "[/data, '/scratch:/scratch:rw']",
    "devices": "[nvidia.com/gpu=all]",
    "network": "none",
    "ipc": "host",
    "shm_size": "8g",
    "ulimits": "{memlock: -1, nofile: 16384}",
    "cpus": "7.5",
    "cpuset": "0-15",
    "memory": "64g",
    "user": "1000:1000",
    "args": "[--cap-add=IPC_LOCK]",
}
EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "local": {},
    "podman": _CONTAINER,
    "kubernetes": {
        "context": "lab",
        "namespace": "bench",
        "kind": "mpijob",
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": "[registry]",
        "envFromSecret": "{HF_TOKEN: hub/token}",
        "volumes": "[{mountPath: /data, persistentVolumeClaim: imagenet, readOnly: true}]",
        "shm": "16Gi",
        "resources": "{accelerator: {nvidia.com/gpu: 1, cpu: 12}}",
        "resourceClaims": "[{name: gpu, resourceClaimTemplateName: h100}]",
        "runtimeClassName": "nvidia",
        "networks": "[bench/rail-0]",
        "hostNetwork": "true",
        "serviceAccountName": "benchmarks",
        "runAsUser": "assigned",
        "capabilities": "[IPC_LOCK]",
        "nodes": "[gpu-01, gpu-02]",
        "nodeSelector": "{gpu: h100}",
        "affinity": "{nodeAffinity: {}}",
        "tolerations": "[{key: gpu, operator: Exists}]",
        "topologySpreadConstraints": "[{topologyKey: topology.kubernetes.io/zone}]",
        "schedulerName": "gang-scheduler",
        "priorityClassName": "benchmarks",
        "queue": "gpu-queue",
        "topology": "{required: topology.kubernetes.io/rack}",
        "start_timeout": "30min",
        "ttlSecondsAfterFinished": "3600",
        "prepare": "{nfd: {}, gpu-operator: {}}",
        "labels": "{team: infra}",
        "annotations": "{owner: infra}",
        "patch": "{spec: {containers: [{name: ranks, tty: true}]}}",
    },
    "lsf": _BATCH
    | {
        "queue": "gpu",
        "project": "proj-7",
        "user_group": "infra",
        "app": "torch",
        "hosts": "[rack1, hostA]",
        "resources": "['select[mem>256000]']",
        "gpu": "mode=exclusive_process",
        "bsub": "[-sla gold]",
    },
    "slurm": _BATCH
    | {
        "cluster": "lab",
        "partition": "gpu",
        "account": "proj-7",
        "qos": "high",
        "constraint": "a100&nvme",
        "nodelist": "gpu[01-02]",
        "exclude": "gpu07",
        "gres": "gpu:a100",
        "sbatch": "[--licenses=scratch]",
        "container_image": "nvcr.io#nvidia/pytorch:25.09-py3",
        "container_mounts": "['/lustre/data:/data:ro']",
        "container_runtime": "apptainer",
    },
    "ssh": {
        "hosts": "[gpu1, bench@gpu2]",
        "directory": "/scratch/assay",
        "master_address": "10.0.0.1",
        "port": "2222",
        "user": "bench",
        "identity": "~/.ssh/bench",
        "config": "~/.ssh/bench-config",
    },
    "Volume": {
        "mountPath": "/data",
        "readOnly": "true",
        "subPath": "frames",
        "hostPath": "/scratch",
        "type": "DirectoryOrCreate",
        "persistentVolumeClaim": "imagenet",
        "configMap": "settings",
        "secret": "license",
        "emptyDir": "Memory",
        "sizeLimit": "8Gi",
    },
    "Resources": {
        "accelerator": "{nvidia.com/gpu: 1, cpu: 12}",
        "pod": "{rdma/hca_shared: 1}",
        "limit_cpu": "false",
    },
    "ResourceClaim": {
        "name": "gpu",
        "resourceClaimTemplateName": "h100",
        "resourceClaimName": "gpu-pool",
        "request": "gpu",
    },
    "Affinity": {
        "nodeAffinity": "{requiredDuringSchedulingIgnoredDuringExecution: {}}",
        "podAffinity": "{preferredDuringSchedulingIgnoredDuringExecution: []}",
        "podAntiAffinity": "{preferredDuringSchedulingIgnoredDuringExecution: []}",
    },
    "Toleration": {
        "key": "gpu",
        "operator": "Equal",
        "value": "reserved",
        "effect": "NoSchedule",
        "tolerationSeconds": "60",
    },
    "TopologySpread": {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": "1",
        "whenUnsatisfiable": "ScheduleAnyway",
        "minDomains": "2",
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Ignore",
    },
    "Topology": {
        "required": "topology.kubernetes.io/rack",
        "preferred": "topology.kubernetes.io/block",
        "unconstrained": "true",
    },
}


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# systems.yaml"
    yield "The keys of a system. systems.yaml is next to the suite and maps names of your choice to"
    yield "systems; each has a `launcher`, whose options are below, and optionally a `price` and `params`."
    yield "Without the file, the one system is `local`, this machine.\n"
    yield "```yaml"
    yield "bare-metal: {launcher: local, pin_cpus: true}"
    yield "openshift: {launcher: kubernetes, namespace: bench, price: 2.50 EUR/accelerator-hour}"
    yield "```\n"
    yield "`assay init --schema systems` prints the JSON Schema of the file, for editors that complete and"
    yield "check as you type. [Secrets](../how-to/secrets.md) explains references in `env`.\n"
    prices = "`2.50 EUR/accelerator-hour`, `30 USD/node-hour`, `0.25 EUR/kWh`"
    yield "| key of every system | meaning | example |\n|---|---|---|"
    yield f"| `launcher` | How a job starts: {', '.join(f'[`{n}`](#{n})' for n in SYSTEM_MODELS)} | `slurm` |"
    yield f"| `price` | What the system costs, for the report | {prices} |"
    changed = "Parameters of the suite's benchmarks that have other values on this system"
    yield f"| `params` | {changed}: what is compared | `{{directory: /lustre}}` |"
    for name, model in SYSTEM_MODELS.items():
        yield f"\n## {name}"
        yield from _about(name)
        if name == "docker":
            yield "The options are those of [`podman`](#podman)."
            continue
        yield from fields(model, _COMMON | EXAMPLES[name], unsaid="The Kubernetes field of this name.")
        for part in nested(model, NESTED):
            yield from _part(part)


def _about(name: str) -> Iterator[str]:
    page = _PAGES.get(name, name)
    if page:
        yield f"[How to use it](../how-to/launchers/{page}.md).\n"
    else:
        yield "This machine, as plain processes.\n"


def _part(model: type[BaseModel]) -> Iterator[str]:
    yield f"\n### {model.__name__}"
    yield f"{inspect.cleandoc(model.__doc__ or '')}\n"
    yield from fields(model, EXAMPLES[model.__name__], unsaid="The Kubernetes field of this name.")
