"""Permissions on OpenShift's internal registry: who may pull a namespace's images, and who may push them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from assay.cluster.components.component import Component, PreparationTarget, bare
from assay.launch.kubernetes.order import Manifest
from assay.launch.kubernetes.rbac import AUTHORIZATION


class Registry(Component):
    """Internal registry."""

    name: ClassVar = "registry"
    about: ClassVar = "let the pods pull images from the internal registry, and an account push them"
    platforms: ClassVar = ("openshift",)

    images: str | None = Field(None, description="Namespace of the images; default: that of the pods.")
    pushes: str | None = Field(
        None, description="ServiceAccount in that namespace that may push; `builder` always may."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """RoleBindings to OpenShift's own roles, in the namespace of the images."""
        space = self.images or target.namespace
        everyone = {
            "kind": "Group",
            "apiGroup": AUTHORIZATION,
            "name": f"system:serviceaccounts:{target.namespace}",
        }
        bindings = [_bound(f"assay-pull-{target.namespace}", space, "system:image-puller", everyone)]
        if self.pushes is not None:
            account = {"kind": "ServiceAccount", "name": self.pushes, "namespace": space}
            bindings.append(_bound(f"assay-push-{self.pushes}", space, "system:image-builder", account))
        return bindings


def _bound(name: str, space: str, role: str, subject: dict[str, Any]) -> Manifest:
    reference = {"apiGroup": AUTHORIZATION, "kind": "ClusterRole", "name": role}
    return bare(f"{AUTHORIZATION}/v1", "RoleBinding", name, space, roleRef=reference, subjects=[subject])
