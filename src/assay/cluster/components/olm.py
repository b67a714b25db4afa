"""An operator from OpenShift's Operator Lifecycle Manager: its namespace, what it watches, its channel."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assay.cluster.components.component import ComponentOptions, ObjectStatus, bare
from assay.launch.kubernetes.order import Manifest

GROUP = "operators.coreos.com"
CERTIFIED, RED_HAT = "certified-operators", "redhat-operators"


class SubscriptionOptions(ComponentOptions):
    """Options of a subscription."""

    approval: Literal["Automatic", "Manual"] = Field(
        "Automatic", description="Whether OLM installs updates from the channel without asking."
    )


def operator(
    package: str, namespace: str, channel: str, source: str, *, approval: str, privileged: bool = False
) -> list[Manifest]:
    """Namespace, OperatorGroup, and Subscription of a package in OperatorHub.

    approval    Automatic, or Manual: each InstallPlan waits for a person
    privileged  whether the operator's own pods need the Pod Security level `privileged`
    """
    space = bare("v1", "Namespace", namespace)
    labels = {"openshift.io/cluster-monitoring": "true"}
    if privileged:
        labels["pod-security.kubernetes.io/enforce"] = "privileged"
    space["metadata"]["labels"] = labels
    subscription = {"channel": channel, "installPlanApproval": approval, "name": package, "source": source}
    return [
        space,
        bare(f"{GROUP}/v1", "OperatorGroup", package, namespace, spec={"targetNamespaces": [namespace]}),
        bare(
            f"{GROUP}/v1alpha1",
            "Subscription",
            package,
            namespace,
            spec={**subscription, "sourceNamespace": "openshift-marketplace"},
        ),
    ]


def installed(package: str, namespace: str) -> ObjectStatus:
    """The subscription's operator must run at the newest approved version."""
    path = ("status", "state")
    return ObjectStatus(f"{GROUP}/v1alpha1", "Subscription", package, path, "AtLatestKnown", namespace)
