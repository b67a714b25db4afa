"""What a cluster's API server would say about a job: everything is sent as a dry run; nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.launch.check import PartCheck
from assay.launch.kubernetes.client import Cluster
from assay.launch.kubernetes.manifests import Manifests
from assay.launch.kubernetes.order import Manifest
from assay.launch.kubernetes.refusals import ApiError, ApiUnreachableError


def checked(cluster: Cluster, manifests: Manifests) -> Iterator[PartCheck]:
    """One result per object, and one for a pod of each template: pod admission does not see jobs.

    Pod admission covers quotas, limit ranges, Pod Security, SecurityContextConstraints, and webhooks.
    """
    for manifest in (*manifests.objects, *_pods(manifests)):
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        try:
            cluster.create(manifest, dry_run=True)
        except ApiUnreachableError:
            raise
        except ApiError as error:
            yield PartCheck(name, str(error))
        else:
            yield PartCheck(name, None)


def _pods(manifests: Manifests) -> Iterator[Manifest]:
    """A pod of each of the job object's complete templates."""
    space = manifests.job["metadata"].get("namespace")
    for number, template in enumerate(_templates(manifests.job)):
        metadata = {**template["metadata"], **({"namespace": space} if space else {})}
        metadata["name"] = f"{manifests.name}-pod-{number}"
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _templates(value: Any) -> Iterator[Manifest]:
    """Pod templates at any depth; a patch of one, which names no image, doesn't count."""
    if isinstance(value, list):
        for item in value:
            yield from _templates(item)
    elif isinstance(value, dict):
        containers = value["spec"].get("containers", ()) if isinstance(value.get("spec"), dict) else ()
        if any("image" in container for container in containers):
            yield value
        else:
            yield from _templates([*value.values()])
