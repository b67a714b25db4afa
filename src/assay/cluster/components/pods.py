"""What a system's pods themselves need: a namespace that admits them, an account, its constraints."""

from __future__ import annotations

from typing import ClassVar

from assay.cluster.components.component import Component, PreparationTarget
from assay.launch.kubernetes import openshift, pod_security
from assay.launch.kubernetes.order import Manifest
from assay.launch.kubernetes.rbac import head


class Pods(Component):
    """Namespace and account of the pods."""

    name: ClassVar = "pods"
    about: ClassVar = "the namespace and its Pod Security level, and the pods' account with its constraints"

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift also SecurityContextConstraints, if the pods need more than restricted-v2."""
        if target.is_openshift:
            return openshift.objects(target.system, target.namespace)
        space = head("v1", "Namespace", target.namespace)
        space["metadata"]["labels"][openshift.ENFORCE] = pod_security.level(
            pod_security.pod_of(target.system)
        )
        account = target.system.serviceAccountName
        return [space, *([head("v1", "ServiceAccount", account, target.namespace)] if account else [])]
