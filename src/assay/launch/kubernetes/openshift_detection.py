"""Whether a cluster is OpenShift, or only has some of its kinds."""

from __future__ import annotations

from assay.launch.kubernetes.client import Cluster, Resource
from assay.launch.kubernetes.openshift import SECURITY
from assay.launch.kubernetes.refusals import ApiError

NAMESPACES = Resource("v1", "namespaces")
# Served by OpenShift's own API server: a CustomResourceDefinition can't provide a review.
REVIEW = "PodSecurityPolicySubjectReview"
# Set on every namespace by OpenShift's controller; also in MicroShift, which has no such API server.
USER_RANGE = "openshift.io/sa.scc.uid-range"


def is_openshift(cluster: Cluster) -> bool:
    """Whether security context constraints act on pods here.

    CustomResourceDefinitions of OpenShift's kinds don't prove it: operators install some of them too.
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
