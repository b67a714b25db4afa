"""A quick suite that a CronJob runs again and again on a cluster, and the exporter of its results. Pure.

What the CronJob runs comes from the suite's file and from the system's entry, which whoever asks for the part
reads: the part knows only its options and the finished objects.

The trials and what drives them have the lowest priority that Kubernetes knows and preempt nothing: they start
only where resources are free, and give way to every other pod. The exporter is small and has the usual one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import Field, PrivateAttr

from assay.cluster.components.component import (
    Component,
    DeploymentRollout,
    PreparationTarget,
    Requirement,
)
from assay.cluster.components.monitoring import EXPORTER, PORT
from assay.launch.kubernetes.objects import rbac
from assay.launch.kubernetes.objects.order import MANAGED_BY, Manifest
from assay.launch.kubernetes.objects.pod import container_security_context, pod_security_context
from assay.launch.kubernetes.options import KubernetesSystem


class QuickSuite(Component):
    """A CronJob and an exporter."""

    name: ClassVar = "schedule"
    about: ClassVar = "a quick suite that runs again and again, and the exporter of its results"

    suite: str = Field(description="The suite's file, relative to systems.yaml.")
    image: str = Field(description="Container image with Assay.")
    every: str = Field("1h", description="A divisor of an hour, a day or a week: 15min, 1h, 1d.")
    max_trial: str = Field("60s", description="The longest that a trial may take.")
    baseline: str | None = Field(None, description="Runs that each session is compared with.")
    claim: str | None = Field(None, description="An existing claim for the runs; default: a new one.")

    _made: list[Manifest] = PrivateAttr(default_factory=list)

    def completed(self, render: Callable[[QuickSuite], list[Manifest]]) -> QuickSuite:
        """The same with the objects that `render` makes of the files. Raises InputError as that does."""
        completed_suite = self.model_copy()
        completed_suite._made = render(self)
        return completed_suite

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The finished objects; none before they are completed."""
        del target
        return self._made

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The exporter must run; whether the suite does, its history shows."""
        exporters = [obj["metadata"]["name"] for obj in self._made if obj["kind"] == "Deployment"]
        return [DeploymentRollout(target.namespace, name) for name in exporters]


LOWEST_PRIORITY: Final = -(2**31)
METRICS_PORT: Final = 9850
FILES_DIR, RUNS_DIR, HOME_DIR = "/assay/files", "/assay/runs", "/assay/home"
SUITE_FILE, SYSTEMS_FILE = "suite.yaml", "systems.yaml"
LONGEST_NAME: Final = 52  # of a CronJob: its Jobs' names are 11 characters longer
DEFAULT_USER: Final = 1000
_NEW_CLAIM_SIZE: Final = "10Gi"


def priority_class(namespace: str) -> str:
    """The name of the PriorityClass: each namespace has its own, since one removes it with its suite."""
    return f"assay-idle-{namespace}"


@dataclass(frozen=True)
class ScheduledSuite:
    """What the CronJob runs.

    name       of its objects: a DNS label
    arguments  of `assay`, which runs the suite
    files      the suite's and the systems' files, by name
    claim      an existing claim for the runs; None: one is created
    options    the system's, which say as whom pods run
    """

    name: str
    namespace: str
    image: str
    cron: str
    limit_s: int
    arguments: Sequence[str]
    files: Mapping[str, str]
    claim: str | None
    options: KubernetesSystem

    def objects(self) -> list[Manifest]:
        """In the order of creation."""
        return [
            self._priority(),
            *self._rights(),
            *self._volume(),
            {**self._head("v1", "ConfigMap", self.name), "data": dict(self.files)},
            self._cron_job(),
            *self._exporter(),
        ]

    def _head(self, api_version: str, kind: str, name: str) -> Manifest:
        return rbac.head(api_version, kind, name, self.namespace)

    def _priority(self) -> Manifest:
        return {
            **rbac.head("scheduling.k8s.io/v1", "PriorityClass", priority_class(self.namespace)),
            "value": LOWEST_PRIORITY,
            "preemptionPolicy": "Never",
            "globalDefault": False,
            "description": "Benchmarks that run only where nothing else does",
        }

    def _rights(self) -> list[Manifest]:
        """The launcher's documented rights, and no more."""
        return rbac.objects(self.options.kind, self.namespace)

    def _volume(self) -> list[Manifest]:
        if self.claim is not None:
            return []
        requested = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": _NEW_CLAIM_SIZE}},
        }
        return [{**self._head("v1", "PersistentVolumeClaim", self._claim), "spec": requested}]

    @property
    def _claim(self) -> str:
        return self.claim or f"{self.name}-runs"

    def _cron_job(self) -> Manifest:
        container = self._container("assay", self.arguments, writes=True)
        container["resources"] = {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "2Gi"},
        }
        files = {"name": "files", "configMap": {"name": self.name}}
        container["volumeMounts"].append({"name": "files", "mountPath": FILES_DIR, "readOnly": True})
        pod = {
            **self._pod(container, files),
            "restartPolicy": "Never",
            "priorityClassName": priority_class(self.namespace),
            "terminationGracePeriodSeconds": 60,  # Assay ends the trials' jobs first
            "serviceAccountName": rbac.RUNNER,
            "automountServiceAccountToken": True,  # it creates the trials' jobs
        }
        job = {
            "backoffLimit": 0,
            "activeDeadlineSeconds": self.limit_s,
            "template": {"metadata": {"labels": dict(MANAGED_BY)}, "spec": pod},
        }
        spec = {
            "schedule": self.cron,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": max(60, self.limit_s // 2),
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": job},
        }
        return {**self._head("batch/v1", "CronJob", self.name), "spec": spec}

    def _exporter(self) -> list[Manifest]:
        """Serves what the runs' claim has; it changes nothing there."""
        arguments = ("monitor", "export", "--listen", f"0.0.0.0:{METRICS_PORT}", "--runs", RUNS_DIR)
        container = self._container("exporter", arguments, writes=False)
        container["ports"] = [{"name": PORT, "containerPort": METRICS_PORT}]
        container["readinessProbe"] = {"tcpSocket": {"port": PORT}}
        container["resources"] = {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        }
        labels = {"app.kubernetes.io/name": EXPORTER, "app.kubernetes.io/instance": self.name}
        name = f"{self.name}-exporter"
        deployment = self._head("apps/v1", "Deployment", name)
        service = self._head("v1", "Service", name)
        service["metadata"]["labels"] |= labels
        deployment["spec"] = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": {**labels, **MANAGED_BY}},
                "spec": {**self._pod(container), "automountServiceAccountToken": False},
            },
        }
        ports = [{"name": PORT, "port": METRICS_PORT, "targetPort": PORT}]
        service["spec"] = {"selector": labels, "ports": ports}
        return [deployment, service]

    def _pod(self, container: Manifest, *volumes: Manifest) -> dict[str, Any]:
        user = self._user
        group = {"fsGroup": user.runAsUser} if isinstance(user.runAsUser, int) else {}
        secrets = [{"name": name} for name in self.options.imagePullSecrets]
        return {
            "enableServiceLinks": False,
            **({"imagePullSecrets": secrets} if secrets else {}),
            "securityContext": {**pod_security_context(user), **group},
            "containers": [container],
            "volumes": [
                {"name": "runs", "persistentVolumeClaim": {"claimName": self._claim}},
                {"name": "home", "emptyDir": {}},
                *volumes,
            ],
        }

    def _container(self, name: str, arguments: Sequence[str], *, writes: bool) -> dict[str, Any]:
        pull = self.options.imagePullPolicy
        runs = {"name": "runs", "mountPath": RUNS_DIR, **({} if writes else {"readOnly": True})}
        return {
            "name": name,
            "image": self.image,
            **({"imagePullPolicy": pull} if pull else {}),
            "command": ["assay"],
            "args": list(arguments),
            "workingDir": HOME_DIR,
            "env": [{"name": key, "value": value} for key, value in _ENVIRONMENT.items()],
            "securityContext": {**container_security_context(self._user), "readOnlyRootFilesystem": True},
            "volumeMounts": [runs, {"name": "home", "mountPath": HOME_DIR}],
        }

    @property
    def _user(self) -> KubernetesSystem:
        """Assay itself needs neither root nor capabilities, whatever the ranks need."""
        assigned = self.options.runAsUser == "assigned"
        own = self.options.runAsUser
        user = own if assigned or (isinstance(own, int) and own > 0) else DEFAULT_USER
        return KubernetesSystem.model_validate({"runAsUser": user})


_ENVIRONMENT: Final = {"HOME": HOME_DIR, "TMPDIR": HOME_DIR, "USER": "assay"}
