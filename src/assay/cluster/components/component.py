"""A part of a prepared cluster: options in; objects, releases, node files, and requirements out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.options import KubernetesSystem

Platform = Literal["kubernetes", "openshift"]


@dataclass(frozen=True)
class PreparationTarget:
    """The pods for which the cluster is prepared."""

    platform: Platform
    namespace: str
    system: KubernetesSystem

    @property
    def is_openshift(self) -> bool:
        """Whether it has OpenShift's own kinds: OLM, MachineConfig, SecurityContextConstraints."""
        return self.platform == "openshift"


@dataclass(frozen=True)
class UpstreamRelease:
    """A vendor's own manifests or chart at one version, and the command that installs it.

    pin  what the version is pinned to: a chart's version, a commit, a checksum
    """

    project: str
    pin: str
    command: str


@dataclass(frozen=True)
class NodeFile:
    """A file that each node must have, if no object of the cluster can install it.

    then  commands to run on that node afterward, as root
    """

    path: str
    text: str
    then: tuple[str, ...]


@dataclass(frozen=True)
class NodeLabel:
    """Some node has the label."""

    label: str
    value: str


@dataclass(frozen=True)
class NodeResource:
    """Some node offers the resource, like `nvidia.com/gpu`."""

    resource: str


@dataclass(frozen=True)
class ObjectStatus:
    """An object exists and has the value at `path`; a condition is named by type: `conditions`, `Ready`."""

    api_version: str
    kind: str
    name: str
    path: tuple[str, ...]
    value: str
    namespace: str | None = None


@dataclass(frozen=True)
class DeploymentRollout:
    """A Deployment exists with all its replicas ready."""

    namespace: str
    name: str


Requirement = NodeLabel | NodeResource | ObjectStatus | DeploymentRollout


class ComponentOptions(BaseModel):
    """A mapping in systems.yaml, at or below a part."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class Component(ComponentOptions):
    """One thing to prepare a cluster with. Its fields are its options below `prepare` in systems.yaml.

    name       as on the command line and below `prepare`
    about      one-line description for people
    platforms  the platforms that it supports
    brings     API groups that the cluster has only after the part's operator is installed
    sign       API version and kind that show that the part's `references` are installed
    """

    name: ClassVar[str]
    about: ClassVar[str]
    platforms: ClassVar[tuple[Platform, ...]] = ("kubernetes", "openshift")
    brings: ClassVar[tuple[str, ...]] = ()
    sign: ClassVar[tuple[str, str] | None] = None

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The objects to apply, in the order of creation. Pure."""
        del target
        return []

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """What must be installed first, from the vendor's manifests."""
        del target
        return []

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """Files to write on each node manually, or with whatever sets up the nodes."""
        del target
        return []

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """What must exist afterward."""
        del target
        return []


def bare(api_version: str, kind: str, name: str, namespace: str | None = None, **rest: Any) -> Manifest:
    """An object with its name only; its marks are added when it is applied."""
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
