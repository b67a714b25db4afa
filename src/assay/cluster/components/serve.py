"""`assay serve` behind OpenShift's OAuth proxy: who may look is decided by the cluster's own rights.

The proxy in the same pod signs people in, asks the API server by a SubjectAccessReview whether they may get
the Service, and names them to Assay, which listens on the pod's loopback address only.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import Field

from assay.cluster.components.component import (
    Component,
    DeploymentRollout,
    PreparationTarget,
    Requirement,
    bare,
)
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.objects.rbac import AUTHORIZATION

NAME = "assay-serve"
COOKIE_SECRET = "assay-serve-cookie"  # noqa: S105 - the name of a Secret that people create
_PORT, _PROXY_PORT = 8080, 8443
_LABELS = {"app.kubernetes.io/name": NAME}
_TLS, _COOKIE, _RUNS = "/etc/tls/private", "/etc/proxy/cookie", "/runs"
_SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Serve(Component):
    """Deployment, Service and Route of `assay serve`."""

    name: ClassVar = "serve"
    about: ClassVar = "`assay serve` at a Route, behind the OAuth proxy"
    platforms: ClassVar = ("openshift",)

    image: str = Field(description="With Assay and its extra `serve`, as the Containerfile builds it.")
    proxy_image: str = Field(description="Of OpenShift's oauth-proxy, of the cluster's version.")
    host: str = Field(
        pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", description="Name of the Route: assay.apps.example.com."
    )
    claim: str = Field("runs", description="PersistentVolumeClaim with the runs directory.")
    readers: tuple[str, ...] = Field(
        (), description="Groups of the cluster that may look; others need the right to get the Service."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The account and the rights of the proxy, who may look, and what runs."""
        space = target.namespace
        return [
            _account(space),
            _role(space),
            *([self._readers(space)] if self.readers else []),
            _delegator(space),
            self._deployment(space),
            _service(space),
            self._route(space),
        ]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """Its pod must be ready, which also needs the Secret of the cookie and the claim."""
        return [DeploymentRollout(target.namespace, NAME)]

    def _readers(self, space: str) -> Manifest:
        groups = [{"apiGroup": AUTHORIZATION, "kind": "Group", "name": name} for name in self.readers]
        role = {"apiGroup": AUTHORIZATION, "kind": "Role", "name": NAME}
        return bare(f"{AUTHORIZATION}/v1", "RoleBinding", NAME, space, roleRef=role, subjects=groups)

    def _deployment(self, space: str) -> Manifest:
        template = {
            "metadata": {"labels": _LABELS},
            "spec": {
                "serviceAccountName": NAME,
                "containers": [self._assay(), self._proxy(space)],
                "volumes": [
                    {"name": "runs", "persistentVolumeClaim": {"claimName": self.claim}},
                    {"name": "tls", "secret": {"secretName": f"{NAME}-tls"}},
                    {"name": "cookie", "secret": {"secretName": COOKIE_SECRET}},
                    {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                ],
            },
        }
        # the runs may be on a volume that only one pod can have
        spec = {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _LABELS},
            "template": template,
        }
        return bare("apps/v1", "Deployment", NAME, space, spec=spec)

    def _assay(self) -> dict[str, Any]:
        arguments = ["serve", "--listen", f"127.0.0.1:{_PORT}", "--host", self.host, "--runs", _RUNS]
        return {
            "name": "assay",
            "image": self.image,
            "args": [*arguments, "--https-proxy", "--user-header", "X-Forwarded-User"],
            "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
            "securityContext": _SAFE,
            "volumeMounts": [
                {"name": "runs", "mountPath": _RUNS},
                {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - of the container
            ],
        }

    def _proxy(self, space: str) -> dict[str, Any]:
        review = {"namespace": space, "resource": "services", "resourceName": NAME, "verb": "get"}
        return {
            "name": "oauth-proxy",
            "image": self.proxy_image,
            "args": [
                "--provider=openshift",
                f"--openshift-service-account={NAME}",
                f"--openshift-sar={json.dumps(review)}",
                f"--upstream=http://127.0.0.1:{_PORT}",
                f"--https-address=:{_PROXY_PORT}",
                "--http-address=",
                f"--tls-cert={_TLS}/tls.crt",
                f"--tls-key={_TLS}/tls.key",
                f"--cookie-secret-file={_COOKIE}/session_secret",
                "--cookie-samesite=lax",
                "--pass-user-headers=true",
            ],
            "ports": [{"name": "https", "containerPort": _PROXY_PORT}],
            "readinessProbe": {
                "httpGet": {"path": "/oauth/healthz", "port": "https", "scheme": "HTTPS"},
                "periodSeconds": 10,
            },
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
            "securityContext": _SAFE,
            "volumeMounts": [
                {"name": "tls", "mountPath": _TLS, "readOnly": True},
                {"name": "cookie", "mountPath": _COOKIE, "readOnly": True},
            ],
        }

    def _route(self, space: str) -> Manifest:
        route = bare(
            "route.openshift.io/v1",
            "Route",
            NAME,
            space,
            spec={
                "host": self.host,
                "to": {"kind": "Service", "name": NAME, "weight": 100},
                "port": {"targetPort": "https"},
                "tls": {"termination": "reencrypt", "insecureEdgeTerminationPolicy": "Redirect"},
            },
        )
        # a live page is silent for at most 15 s; a comparison of many runs may take longer
        route["metadata"]["annotations"] = {
            "haproxy.router.openshift.io/timeout": "180s",
            "haproxy.router.openshift.io/set-forwarded-headers": "replace",
        }
        return route


def _account(space: str) -> Manifest:
    reference = {
        "kind": "OAuthRedirectReference",
        "apiVersion": "v1",
        "reference": {"kind": "Route", "name": NAME},
    }
    account = bare("v1", "ServiceAccount", NAME, space)
    account["metadata"]["annotations"] = {
        "serviceaccounts.openshift.io/oauth-redirectreference.primary": json.dumps(reference)
    }
    return account


def _role(space: str) -> Manifest:
    """The right that the proxy asks for: to get the Service, which shows nothing else."""
    rule = {"apiGroups": [""], "resources": ["services"], "resourceNames": [NAME], "verbs": ["get"]}
    return bare(f"{AUTHORIZATION}/v1", "Role", NAME, space, rules=[rule])


def _delegator(space: str) -> Manifest:
    """Lets the proxy ask who somebody is and what they may do."""
    role = {"apiGroup": AUTHORIZATION, "kind": "ClusterRole", "name": "system:auth-delegator"}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": space}
    name = f"{NAME}-{space}"  # the binding is cluster-wide
    return bare(f"{AUTHORIZATION}/v1", "ClusterRoleBinding", name, roleRef=role, subjects=[account])


def _service(space: str) -> Manifest:
    ports = [{"name": "https", "port": 443, "targetPort": "https"}]
    service = bare("v1", "Service", NAME, space, spec={"selector": _LABELS, "ports": ports})
    service["metadata"]["annotations"] = {"service.beta.openshift.io/serving-cert-secret-name": f"{NAME}-tls"}
    return service
