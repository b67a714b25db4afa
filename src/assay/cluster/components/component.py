"""What a part of a prepared cluster is: options in; objects, references, node files and requirements out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import Manifest

Platform = Literal["kubernetes", "openshift"]


@dataclass(frozen=True)
class PreparationTarget:
    """Whose pods the cluster is prepared for."""

    platform: Platform
    namespace: str
    system: KubernetesSystem

    @property
    def is_openshift(self) -> bool:
        """Whether it has OpenShift's own kinds: OLM, MachineConfig, SecurityContextConstraints."""
        return self.platform == "openshift"


@dataclass(frozen=True)
class UpstreamRelease:
    """Others' own manifests or chart at one version, and the command that installs it.

    pin  what the version is held to: a chart's version, a commit, a checksum
    """

    of: str
    pin: str
    command: str


@dataclass(frozen=True)
class NodeFile:
    """A file that each node has to have, where no object of the cluster can bring it.

    then  commands to run on that node afterwards, as root
    """

    path: str
    text: str
    then: tuple[str, ...]


@dataclass(frozen=True)
class NodeLabel:
    """Some node bears the label."""

    label: str
    value: str


@dataclass(frozen=True)
class NodeResource:
    """Some node has the resource to give, like `nvidia.com/gpu`."""

    resource: str


@dataclass(frozen=True)
class ObjectStatus:
    """An object is there and says so at `path`; a condition is named by its type: `conditions`, `Ready`."""

    api_version: str
    kind: str
    name: str
    path: tuple[str, ...]
    value: str
    namespace: str | None = None


@dataclass(frozen=True)
class DeploymentRollout:
    """A Deployment is there with all its replicas ready."""

    namespace: str
    name: str


Requirement = NodeLabel | NodeResource | ObjectStatus | DeploymentRollout


class ComponentOptions(BaseModel):
    """A mapping of systems.yaml, at or below a part."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class Component(ComponentOptions):
    """One thing a cluster can be given. Its fields are what systems.yaml may say of it below `prepare`.

    name       as on the command line and below `prepare`
    about      one line for people
    platforms  what it can be given to
    brings     API groups that the cluster has only once the part's operator is installed
    sign       API version and kind that show that what `references` name is installed
    """

    name: ClassVar[str]
    about: ClassVar[str]
    platforms: ClassVar[tuple[Platform, ...]] = ("kubernetes", "openshift")
    brings: ClassVar[tuple[str, ...]] = ()
    sign: ClassVar[tuple[str, str] | None] = None

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """What is applied, in the order in which it is made. Pure."""
        del target
        return []

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """What is installed first by its own makers' manifests."""
        del target
        return []

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """What is written on each node by hand, or by whatever sets the nodes up."""
        del target
        return []

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """What has to be there afterwards."""
        del target
        return []


def bare(api_version: str, kind: str, name: str, namespace: str | None = None, **rest: Any) -> Manifest:
    """An object with its name only; whose it is stands on it when it is applied."""
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
