"""What the CustomResourceDefinition of PyTorchJob says beside the pod template.

Source: kubeflow/trainer at ee38ae8a6c21, manifests/base/crds/kubeflow.org_pytorchjobs.yaml, version v1. The
pod template in it is that of Kubernetes; descriptions are left out, and no unknown field is allowed.
"""

from __future__ import annotations

from typing import Any

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
REPLICAS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"replicas": INTEGER, "restartPolicy": TEXT, "template": {"type": "object"}},
}
PYTORCHJOB: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "kubeflow.org/v1"},
        "kind": {"const": "PyTorchJob"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["pytorchReplicaSpecs"],
            "properties": {
                "elasticPolicy": {"type": "object"},
                "nprocPerNode": TEXT,
                "pytorchReplicaSpecs": {"type": "object", "additionalProperties": REPLICAS},
                "runPolicy": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "activeDeadlineSeconds": INTEGER,
                        "backoffLimit": INTEGER,
                        "cleanPodPolicy": TEXT,
                        "managedBy": TEXT,
                        "schedulingPolicy": {"type": "object"},
                        "suspend": {"type": "boolean"},
                        "ttlSecondsAfterFinished": INTEGER,
                    },
                },
            },
        },
    },
}
