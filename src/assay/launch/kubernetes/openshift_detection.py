"""Whether a cluster is OpenShift, or only has some of its kinds."""

from __future__ import annotations

from assay.launch.kubernetes.client import Cluster, Resource
from assay.launch.kubernetes.openshift import SECURITY
from assay.launch.kubernetes.refusals import ApiError

NAMESPACES = Resource("v1", "namespaces")
# Served by OpenShift's own API server: no CustomResourceDefinition brings a review.
REVIEW = "PodSecurityPolicySubjectReview"
# Given to every namespace by OpenShift's controller, in MicroShift too, which has no such API server.
USER_RANGE = "openshift.io/sa.scc.uid-range"


def is_openshift(cluster: Cluster) -> bool:
    """Whether security context constraints act on pods here.

    Custom resource definitions of OpenShift's kinds, which operators bring along, are no sign of it.
    """
    kinds = cluster.kinds(f"{SECURITY}/v1")
    if not kinds or REVIEW in kinds:
        return bool(kinds)
    try:
        space = cluster.find(NAMESPACES, cluster.namespace, everywhere=True)
    except ApiError as error:
        if error.code != 403:
            raise
        return False
    return space is not None and USER_RANGE in space["metadata"].get("annotations", {})
