"""A Kubernetes or OpenShift cluster as a platform."""

from __future__ import annotations

from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.platform import Binding, NodeAccess, Platform, late

PLATFORM = Platform(
    KubernetesSystem,
    late("assay.launch.kubernetes.launcher:KubernetesLauncher"),
    late("assay.launch.kubernetes.doctor.checks:examination"),
    NodeAccess(
        late("assay.launch.kubernetes.nodes:members"),
        Binding("nodes"),
        late("assay.launch.kubernetes.nodes:keep_off_methods"),
    ),
)
