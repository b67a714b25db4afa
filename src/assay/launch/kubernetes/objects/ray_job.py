"""A RayJob of the KubeRay operator: a Ray cluster of pods, made for one command and removed after it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from assay.errors import OptionsError, Problem
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.objects import pod
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.options import KubernetesSystem

HEAD, WORKER = "ray-head", "ray-worker"


def ray_job(name: str, argv: Sequence[str], workers: int, options: KubernetesSystem) -> Manifest:
    """The object that runs a command on the head of a Ray cluster with this many worker pods.

    The head runs the command and no task. Each worker pod has the resources of one accelerator.

    Raises OptionsError for a system without an image, or with variables that aren't plain text.
    """
    _check(options)
    space = {"namespace": options.namespace} if options.namespace else {}
    labels = {"labels": dict(options.labels)} if options.labels else {}
    amounts = {**options.resources.accelerator, **options.resources.pod}
    own = {amount: value for amount, value in amounts.items() if amount in ("cpu", "memory")}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, **space, **labels},
        "spec": {
            "entrypoint": shlex.join(argv),
            "submissionMode": "K8sJobMode",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": options.ttlSecondsAfterFinished,
            "backoffLimit": 0,
            "rayClusterSpec": {
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
                    "template": _template(HEAD, options, own),
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "workers",
                        "replicas": workers,
                        "minReplicas": workers,
                        "maxReplicas": workers,
                        "rayStartParams": {},
                        "template": _template(WORKER, options, amounts),
                    }
                ],
            },
        },
    }


def _check(options: KubernetesSystem) -> None:
    problems = []
    if not options.image:
        problems.append(
            Problem("image", "name an image that has Assay, ray[default] and what the network needs")
        )
    problems += [
        Problem(
            "env", f"{name}: a RayJob's variables are text; name a Secret of the cluster in envFromSecret"
        )
        for name, value in options.env.items()
        if not isinstance(value, str)
    ]
    if problems:
        raise OptionsError(problems)


def _template(container: str, options: KubernetesSystem, amounts: dict[str, str]) -> Manifest:
    limits = {
        name: amount for name, amount in amounts.items() if name != "cpu" or options.resources.limit_cpu
    }
    requirements = {"requests": dict(sorted(amounts.items())), "limits": dict(sorted(limits.items()))}
    plain = {name: value for name, value in options.env.items() if isinstance(value, str)}
    rendered: Manifest = {
        "metadata": {"labels": dict(options.labels), "annotations": dict(options.annotations)},
        "spec": {
            "automountServiceAccountToken": False,
            **({"serviceAccountName": options.serviceAccountName} if options.serviceAccountName else {}),
            **({"nodeSelector": dict(options.nodeSelector)} if options.nodeSelector else {}),
            **({"tolerations": _tolerations(options)} if options.tolerations else {}),
            **pod.secrets(options),
            "securityContext": pod.pod_security_context(options),
            "containers": [
                {
                    "name": container,
                    "image": options.image,
                    **({"imagePullPolicy": options.imagePullPolicy} if options.imagePullPolicy else {}),
                    "env": pod.env_entries({"HOME": "/tmp", **plain}, options, {}),  # noqa: S108 - the pod's own
                    **({"resources": requirements} if amounts else {}),
                    "securityContext": pod.container_security_context(options),
                    "volumeMounts": [
                        {"name": "assay-shm", "mountPath": "/dev/shm"},  # noqa: S108 - Ray's object store
                        *(volume.mount(f"volume-{index}") for index, volume in enumerate(options.volumes)),
                    ],
                }
            ],
            "volumes": pod.volumes(options),
        },
    }
    result: Manifest = fields.patched(rendered, options.patch)
    return result


def _tolerations(options: KubernetesSystem) -> list[Manifest]:
    return [toleration.model_dump(exclude_none=True) for toleration in options.tolerations]
