"""What a system's pods need: a namespace that admits them, an account, images to pull, and storage.

A volume of an existing directory is bound to its claim by name, so that no other claim takes it, and it is
kept when the claim is deleted: nothing here ever deletes data.
"""

# ruff: noqa: N815  (Kubernetes' own names)

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from assay.cluster.components.component import (
    Component,
    ComponentOptions,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    bare,
)
from assay.launch.kubernetes.fields import Quantity
from assay.launch.kubernetes.objects import pod_security
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.objects.rbac import AUTHORIZATION, head


class Pods(Component):
    """Namespace and account of the pods."""

    name: ClassVar = "pods"
    about: ClassVar = "the namespace and its Pod Security level, and the pods' account with its constraints"

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift also SecurityContextConstraints, if the pods need more than restricted-v2."""
        if target.is_openshift:
            return pod_security.openshift_objects(target.system, target.namespace)
        space = head("v1", "Namespace", target.namespace)
        space["metadata"]["labels"][pod_security.ENFORCE] = pod_security.level(
            pod_security.pod_of(target.system)
        )
        account = target.system.serviceAccountName
        return [space, *([head("v1", "ServiceAccount", account, target.namespace)] if account else [])]


class Registry(Component):
    """Internal registry."""

    name: ClassVar = "registry"
    about: ClassVar = "let the pods pull images from the internal registry, and an account push them"
    platforms: ClassVar = ("openshift",)

    images: str | None = Field(None, description="Namespace of the images; default: that of the pods.")
    pushes: str | None = Field(
        None, description="ServiceAccount in that namespace that may push; `builder` always may."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """RoleBindings to OpenShift's own roles, in the namespace of the images."""
        space = self.images or target.namespace
        everyone = {
            "kind": "Group",
            "apiGroup": AUTHORIZATION,
            "name": f"system:serviceaccounts:{target.namespace}",
        }
        bindings = [_bound(f"assay-pull-{target.namespace}", space, "system:image-puller", everyone)]
        if self.pushes is not None:
            account = {"kind": "ServiceAccount", "name": self.pushes, "namespace": space}
            bindings.append(_bound(f"assay-push-{self.pushes}", space, "system:image-builder", account))
        return bindings


def _bound(name: str, space: str, role: str, subject: dict[str, Any]) -> Manifest:
    reference = {"apiGroup": AUTHORIZATION, "kind": "ClusterRole", "name": role}
    return bare(f"{AUTHORIZATION}/v1", "RoleBinding", name, space, roleRef=reference, subjects=[subject])


SCALE = "spectrumscale.csi.ibm.com"
_SIZE = "1Pi"  # a directory's size is not enforced, but a claim must set one
Access = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"]


class StorageScale(ComponentOptions):
    """A directory of IBM Storage Scale, formerly Spectrum Scale, through its CSI driver."""

    cluster: str = Field(description="Cluster ID, as shown by mmlscluster.")
    filesystem: str = Field(description="UID of the file system, as shown by `mmlsfs NAME --uid`.")
    path: str = Field(pattern="^/", description="Directory, absolute.")
    csi: str = Field("3.0", pattern=r"^\d+(\.\d+)*$", description="Version of the CSI driver.")

    def source(self) -> dict[str, Any]:
        """Its entry in a PersistentVolume; drivers before 2.5 know only the short handle, newer ones both."""
        version = tuple(int(part) for part in (*self.csi.split("."), "0")[:2])
        handle = (
            f"0;0;{self.cluster};{self.filesystem};;;{self.path}"
            if version >= (2, 5)
            else f"{self.cluster};{self.filesystem};path={self.path}"
        )
        return {"csi": {"driver": SCALE, "volumeHandle": handle}}


class NFS(ComponentOptions):
    """A directory of an NFS server."""

    server: str
    path: str = Field(pattern="^/")
    mountOptions: tuple[str, ...] = ()


class StorageClass(ComponentOptions):
    """A class that provisions a volume for the claim."""

    provisioner: str = Field(description=f"CSI driver, like {SCALE}.")
    parameters: dict[str, str] = Field(default_factory=dict, description="The driver's parameters.")
    mountOptions: tuple[str, ...] = ()


class VolumeClaim(ComponentOptions):
    """One claim in the pods' namespace, with exactly one source."""

    size: Quantity | None = Field(
        None, description="Needed only for a volume that is provisioned for the claim."
    )
    access: Access = "ReadWriteMany"
    scale: StorageScale | None = None
    nfs: NFS | None = None
    hostPath: str | None = Field(None, pattern="^/", description="A directory that every node has.")
    storageClass: StorageClass | None = Field(None, description="A class to create, and a volume from it.")
    storageClassName: str | None = Field(None, description="An existing class, and a volume from it.")

    @model_validator(mode="after")
    def _one_source(self) -> VolumeClaim:
        sources = ("scale", "nfs", "hostPath", "storageClass", "storageClassName")
        chosen = [name for name in sources if getattr(self, name) is not None]
        if len(chosen) != 1:
            listed = " and ".join(chosen) or "no source"
            raise ValueError(f"found {listed}; expected one of {', '.join(sources)}")
        if self.is_made and self.size is None:
            raise ValueError(f"{chosen[0]}: a provisioned volume needs a size, like 500Gi")
        return self

    @property
    def is_made(self) -> bool:
        """Whether a volume is provisioned for it, rather than an existing directory used."""
        return self.storageClass is not None or self.storageClassName is not None


class Storage(Component):
    """Claims in the pods' namespace."""

    name: ClassVar = "storage"
    about: ClassVar = (
        "claims for data: Spectrum Scale, NFS, directories of the nodes, any CSI driver's volumes"
    )

    claims: dict[str, VolumeClaim] = Field(
        min_length=1, description="Name of the claim → the source of its data."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """Each claim after its volume or class."""
        return [obj for name, claim in self.claims.items() for obj in _objects(name, claim, target.namespace)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """Each claim must be bound; `assay doctor SYSTEM --data` measures its read speed."""
        phase = ("status", "phase")
        return [
            ObjectStatus("v1", "PersistentVolumeClaim", name, phase, "Bound", target.namespace)
            for name in self.claims
        ]


def _objects(name: str, claim: VolumeClaim, space: str) -> list[Manifest]:
    wide = f"assay-{space}-{name}"  # volumes and classes are cluster-wide
    request = {
        "accessModes": [claim.access],
        "resources": {"requests": {"storage": claim.size or _SIZE}},
    }
    persistent_claim = bare("v1", "PersistentVolumeClaim", name, space)
    if claim.storageClassName is not None:
        return [{**persistent_claim, "spec": {**request, "storageClassName": claim.storageClassName}}]
    if claim.storageClass is not None:
        storage_class = _class(wide, claim.storageClass)
        return [storage_class, {**persistent_claim, "spec": {**request, "storageClassName": wide}}]
    volume = bare("v1", "PersistentVolume", wide, spec=_volume(name, claim, space))
    # "" means no class: otherwise the default class would provision a volume
    return [volume, {**persistent_claim, "spec": {**request, "storageClassName": "", "volumeName": wide}}]


def _volume(name: str, claim: VolumeClaim, space: str) -> dict[str, Any]:
    options: tuple[str, ...] = ()
    if claim.scale is not None:
        source = claim.scale.source()
    elif claim.nfs is not None:
        source = {"nfs": {"server": claim.nfs.server, "path": claim.nfs.path}}
        options = claim.nfs.mountOptions
    else:
        source = {"hostPath": {"path": claim.hostPath, "type": "Directory"}}
    return {
        "accessModes": [claim.access],
        "capacity": {"storage": claim.size or _SIZE},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name, "namespace": space},
        "persistentVolumeReclaimPolicy": "Retain",
        **({"mountOptions": list(options)} if options else {}),
        **source,
    }


def _class(name: str, storage_class: StorageClass) -> Manifest:
    return {
        **bare("storage.k8s.io/v1", "StorageClass", name),
        "provisioner": storage_class.provisioner,
        **({"parameters": storage_class.parameters} if storage_class.parameters else {}),
        **({"mountOptions": list(storage_class.mountOptions)} if storage_class.mountOptions else {}),
        "reclaimPolicy": "Retain",
        "allowVolumeExpansion": True,
    }
