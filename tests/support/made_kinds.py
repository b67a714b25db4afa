"""Kinds that tests make up: one that no cluster has, and one with defaults."""

from __future__ import annotations

from typing import Any, ClassVar

from assay.cluster.components.component import Component, PreparationTarget, UpstreamRelease, bare


class Unheard(Component):
    """A part whose kind no cluster has."""

    name: ClassVar = "unheard"
    about: ClassVar = "for tests"
    brings: ClassVar = ("unheard.example",)

    def objects(self, target: PreparationTarget) -> list[dict[str, Any]]:
        del target
        return [bare("unheard.example/v1", "Unheard", "one")]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        return (
            [] if target.is_openshift else [UpstreamRelease("Unheard", "chart 1.2.3", "helm install unheard")]
        )


class Defaulting(Component):
    """A part whose kind has defaults, which the server fills in beside what is applied."""

    name: ClassVar = "defaulting"
    about: ClassVar = "for tests"

    def objects(self, target: PreparationTarget) -> list[dict[str, Any]]:
        del target
        return [
            bare(f"{DEFAULTING['spec']['group']}/v1", "Defaulting", "one", spec={"plugin": {"image": "x"}})
        ]


_TEXT: dict[str, Any] = {"type": "string"}
_PLUGIN = {
    "type": "object",
    "properties": {
        "image": _TEXT,
        "secrets": {"type": "array", "items": _TEXT, "default": []},
        "level": {"type": "integer", "default": 3},
    },
}
_SPEC = {"type": "object", "properties": {"plugin": _PLUGIN, "other": _PLUGIN}}
DEFAULTING: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "defaultings.test.assay.dev"},
    "spec": {
        "group": "test.assay.dev",
        "scope": "Cluster",
        "names": {"kind": "Defaulting", "plural": "defaultings"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
            }
        ],
    },
}
