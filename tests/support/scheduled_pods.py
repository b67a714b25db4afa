"""A scheduled suite on a real cluster, with this machine's Assay in place of an image that has it."""

from __future__ import annotations

import json
import os
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import assay
import kubernetes_cluster as cluster
from assay.cluster.components.scheduled_suite import priority_class
from assay.monitor.questions.schedule import schedule

CODE = {
    "/code/assay": str(Path(assay.__file__).parents[1]),
    "/code/packages": sysconfig.get_paths()["platlib"],
}
CLAIM = "runs"


@contextmanager
def applied(suite: Path) -> Iterator[str]:
    """The namespace in which the suite is scheduled on the system `lab`; gone afterwards."""
    with cluster.namespace() as space, tempfile.TemporaryDirectory() as runs:
        cluster.need_nodes_here()
        Path(runs).chmod(0o777)  # the pods' user is not this one
        (suite.parent / "systems.yaml").write_text(
            "here: {launcher: local}\nbatch: {launcher: slurm}\n"
            f"lab: {{launcher: kubernetes, namespace: {space}, image: '{cluster.IMAGE}', "
            "imagePullPolicy: IfNotPresent}\n"
        )
        made = schedule(suite, system="lab", image=cluster.IMAGE, claim=CLAIM)
        objects = [*YAML(typ="safe", pure=True).load_all(made.files["cronjob.yaml"])]
        for obj in objects:
            _use_this_code(obj)
        volume = f"{space}-{CLAIM}"
        try:
            for obj in (*_claim(volume, space, runs), *objects):
                cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(obj))
            yield space
        finally:
            cluster.kubectl("delete", "namespace", space, "--timeout=180s")
            cluster.kubectl("delete", "pv", volume)
            cluster.kubectl("delete", "priorityclass", priority_class(space))
            cluster.kubectl("create", "namespace", space)  # which its own context deletes


def run_once(space: str, name: str) -> str:
    """The log of one job of a CronJob, once it has completed."""
    cluster.kubectl("-n", space, "create", "job", f"--from=cronjob/{name}", "once")
    try:
        cluster.kubectl("-n", space, "wait", "--for=condition=complete", "job/once", "--timeout=240s")
    except AssertionError as error:
        state = cluster.kubectl("-n", space, "get", "pods,jobs,events")
        raise AssertionError(
            f"{error}\n{state}\n{cluster.kubectl('-n', space, 'logs', 'job/once')}"
        ) from None
    return cluster.kubectl("-n", space, "logs", "job/once")


def metrics(space: str, name: str) -> str:
    """What the exporter serves, through its Service."""
    cluster.kubectl("-n", space, "rollout", "status", f"deployment/{name}", "--timeout=120s")
    return cluster.kubectl(
        "get", "--raw", f"/api/v1/namespaces/{space}/services/{name}:metrics/proxy/metrics"
    )


def _use_this_code(obj: dict[str, Any]) -> None:
    spec = obj.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    if template is None:
        return
    (container,) = template["spec"]["containers"]
    container["command"] = ["python3", "-m", "assay"]
    container["env"].append({"name": "PYTHONPATH", "value": os.pathsep.join(CODE)})
    for number, (place, source) in enumerate(CODE.items()):
        name = f"code-{number}"
        container["volumeMounts"].append({"name": name, "mountPath": place, "readOnly": True})
        template["spec"]["volumes"].append({"name": name, "hostPath": {"path": source}})


def _claim(volume: str, space: str, directory: str) -> list[dict[str, Any]]:
    size = {"storage": "1Gi"}
    modes = ["ReadWriteMany"]
    of_volume = {
        "capacity": size,
        "accessModes": modes,
        "hostPath": {"path": directory},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": space, "name": CLAIM},
        "storageClassName": "",
    }
    of_claim = {
        "accessModes": modes,
        "resources": {"requests": size},
        "storageClassName": "",
        "volumeName": volume,
    }
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": of_volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": space},
            "spec": of_claim,
        },
    ]
