"""What Prometheus scrapes, alerts and dashboards: objects of the Prometheus operator, Grafana and OpenShift.

On OpenShift, the Prometheus of users' namespaces reads only what is in the monitor's own namespace. The GPU
operator's namespace belongs to the platform's Prometheus, so what concerns the DCGM exporter is placed there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from assay.cluster.components.component import (
    Component,
    DeploymentRollout,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.cluster.components.device_operators import GPU_OPERATOR_NAMESPACE
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.objects.rbac import AUTHORIZATION
from assay.monitor.dashboards import (
    CONSOLE_LABEL,
    CONSOLE_NAMESPACE,
    config_map_objects,
    console_dashboard,
    dashboards,
)
from assay.monitor.rules import RULES, AlertRule, groups, of_dcgm

GROUP = "monitoring.coreos.com"
EXPORTER = "assay-exporter"  # the name of the Service and its pods, and their label app.kubernetes.io/name
PORT = "metrics"
JOB = "assay"  # the label `job` that the alert AssayExporterGone looks for
CHART = "88.5.0"
DCGM = {"app": "nvidia-dcgm-exporter"}
DCGM_PORTS = {"services": "gpu-metrics", "pods": "metrics"}  # names in the operator's manifests
PLATFORM_MONITORING = "openshift-monitoring"
USER_MONITORING = "openshift-user-workload-monitoring"
_DURATION = r"^([0-9]+(ms|s|m|h|d))+$"


class Monitoring(Component):
    """Prometheus' and Grafana's objects."""

    name: ClassVar = "monitoring"
    about: ClassVar = "what Prometheus scrapes, alert rules, and dashboards"
    sign: ClassVar = (f"{GROUP}/v1", "PrometheusRule")

    scrape: Literal["services", "pods", "nothing"] = Field(
        "services",
        description="Whether Prometheus finds the exporters by a ServiceMonitor or a PodMonitor.",
    )
    gpus: bool = Field(True, description="Also scrape the DCGM exporter that the GPU operator installs.")
    rules: bool = Field(True, description="Alert rules, as a PrometheusRule.")
    dashboards: Literal["grafana", "console", "none"] | None = Field(
        None,
        description="grafana: ConfigMaps for its sidecar; console: for OpenShift's web console; default: the "
        "console on OpenShift, otherwise grafana.",
    )
    user_workload: bool = Field(
        False, description="On OpenShift: turn on the Prometheus of users' namespaces."
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels by which the operator selects monitors and rules, like {release: prometheus}.",
    )
    interval: Annotated[str, Field(pattern=_DURATION)] = Field(
        "30s", description="Time between scrapes, as Prometheus writes it."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """Monitors, rules and dashboards; on OpenShift also the rights and the switch that they need."""
        manifests = self._switch() if self.user_workload and target.is_openshift else []
        if self.scrape != "nothing":
            manifests += self._monitors(target)
        if self.rules:
            manifests += self._rules(target)
        return [*manifests, *self._dashboards(target)]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """Elsewhere than on OpenShift, which has the operator: its usual chart."""
        if target.is_openshift:
            return []
        chart = "oci://ghcr.io/prometheus-community/charts/kube-prometheus-stack"
        command = (
            f"helm upgrade --install prometheus {chart} --version {CHART} --namespace monitoring "
            "--create-namespace --wait"
        )
        return [UpstreamRelease("the Prometheus operator", f"chart {CHART}", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """With the switch, the Prometheus of users' namespaces must run."""
        if not (self.user_workload and target.is_openshift):
            return []
        return [DeploymentRollout(USER_MONITORING, "prometheus-operator")]

    # What is scraped

    def _monitors(self, target: PreparationTarget) -> list[Manifest]:
        own = {"app.kubernetes.io/name": EXPORTER}
        job = {"targetLabel": "job", "replacement": JOB}
        endpoint = {"port": PORT, "interval": self.interval, "relabelings": [job]}
        monitors = [self._monitor(EXPORTER, target.namespace, own, endpoint)]
        if not self.gpus:
            return monitors
        gpus = {"port": DCGM_PORTS[self.scrape], "interval": self.interval}
        dcgm_space = GPU_OPERATOR_NAMESPACE[target.platform]
        if target.is_openshift:
            return [*monitors, *_readable(dcgm_space), self._monitor("assay-dcgm", dcgm_space, DCGM, gpus)]
        return [
            *monitors,
            self._monitor("assay-dcgm", target.namespace, DCGM, gpus, scraped_namespace=dcgm_space),
        ]

    def _monitor(
        self,
        name: str,
        namespace: str,
        labels: dict[str, str],
        endpoint: dict[str, Any],
        *,
        scraped_namespace: str | None = None,
    ) -> Manifest:
        """One monitor; `of`: the namespace of what it scrapes, if it is another one."""
        services = self.scrape == "services"
        spec = {
            "selector": {"matchLabels": labels},
            **({"namespaceSelector": {"matchNames": [scraped_namespace]}} if scraped_namespace else {}),
            ("endpoints" if services else "podMetricsEndpoints"): [endpoint],
        }
        kind = "ServiceMonitor" if services else "PodMonitor"
        return self._labeled(bare(f"{GROUP}/v1", kind, name, namespace, spec=spec))

    # Alerts

    def _rules(self, target: PreparationTarget) -> list[Manifest]:
        if not target.is_openshift:
            return [self._rule("assay", target.namespace, RULES)]
        own = [rule for rule in RULES if not of_dcgm(rule)]
        rules = [self._rule("assay", target.namespace, own)]
        if self.gpus:
            theirs = filter(of_dcgm, RULES)
            rules.append(self._rule("assay-dcgm", GPU_OPERATOR_NAMESPACE["openshift"], theirs))
        return rules

    def _rule(self, name: str, namespace: str, chosen: Iterable[AlertRule]) -> Manifest:
        spec = {"groups": groups(chosen)}
        return self._labeled(bare(f"{GROUP}/v1", "PrometheusRule", name, namespace, spec=spec))

    def _labeled(self, obj: Manifest) -> Manifest:
        obj["metadata"]["labels"] = {"app.kubernetes.io/name": "assay", **self.labels}
        return obj

    # Dashboards and OpenShift's own settings

    def _dashboards(self, target: PreparationTarget) -> list[Manifest]:
        match self.dashboards or ("console" if target.is_openshift else "grafana"):
            case "grafana":
                return config_map_objects(target.namespace)
            case "console":
                return [_for_console(name, text) for name, text in dashboards().items()]
            case _:
                return []

    def _switch(self) -> list[Manifest]:
        data = {"config.yaml": "enableUserWorkload: true\n"}
        return [bare("v1", "ConfigMap", "cluster-monitoring-config", PLATFORM_MONITORING, data=data)]


def _for_console(name: str, text: str) -> Manifest:
    label, value = CONSOLE_LABEL
    data = {f"assay-{name}.json": console_dashboard(text)}  # the console reads one key only
    config_map = bare("v1", "ConfigMap", f"assay-dashboard-{name}", CONSOLE_NAMESPACE, data=data)
    config_map["metadata"]["labels"] = {label: value}
    return config_map


def _readable(namespace: str) -> list[Manifest]:
    """Lets the platform's Prometheus find what it scrapes in a namespace."""
    name, version = "assay-prometheus", f"{AUTHORIZATION}/v1"
    verbs = ["get", "list", "watch"]
    granted = [
        {"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": verbs},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
    ]
    account = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": PLATFORM_MONITORING}
    reference = {"apiGroup": AUTHORIZATION, "kind": "Role", "name": name}
    return [
        bare(version, "Role", name, namespace, rules=granted),
        bare(version, "RoleBinding", name, namespace, roleRef=reference, subjects=[account]),
    ]
