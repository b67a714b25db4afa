"""What the CustomResourceDefinition of RayJob says beside the pod templates, as far as Assay fills it in.

Source: ray-project/kuberay, ray-operator v1.5.0, config/crd/bases/ray.io_rayjobs.yaml, version v1. The pod
templates in it are those of Kubernetes; no unknown field is allowed here.
"""

from __future__ import annotations

from typing import Any

INTEGER, TEXT, FLAG = {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
PARAMS = {"type": "object", "additionalProperties": TEXT}
WORKERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["groupName", "maxReplicas", "minReplicas", "template"],
    "properties": {
        "groupName": TEXT,
        "maxReplicas": INTEGER,
        "minReplicas": INTEGER,
        "replicas": INTEGER,
        "rayStartParams": PARAMS,
        "template": {"type": "object"},
    },
}
HEAD: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["template"],
    "properties": {"rayStartParams": PARAMS, "template": {"type": "object"}},
}
RAYJOB: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "activeDeadlineSeconds": INTEGER,
                "backoffLimit": INTEGER,
                "entrypoint": TEXT,
                "shutdownAfterJobFinishes": FLAG,
                "submissionMode": TEXT,
                "ttlSecondsAfterFinished": INTEGER,
                "rayClusterSpec": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["headGroupSpec"],
                    "properties": {
                        "headGroupSpec": HEAD,
                        "rayVersion": TEXT,
                        "workerGroupSpecs": {"type": "array", "items": WORKERS},
                    },
                },
            },
        },
    },
}
