"""Volumes that a system mounts into each pod."""

# ruff: noqa: N815  (Kubernetes' own names)

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay.launch.kubernetes.names import ObjectName
from assay.launch.kubernetes.quantities import Quantity

SOURCES = ("hostPath", "persistentVolumeClaim", "configMap", "secret", "emptyDir")


class Volume(BaseModel):
    """One volume, with exactly one source."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    mountPath: str = Field(pattern="^/", description="Where the ranks find it.")
    readOnly: bool = False
    subPath: str | None = None
    hostPath: str | None = Field(None, pattern="^/", description="A path on the node.")
    type: Literal[
        "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"
    ] = Field("Directory", description="What the path on the node must be.")
    persistentVolumeClaim: ObjectName | None = Field(None, description="Name of a claim.")
    configMap: ObjectName | None = Field(None, description="Name of a ConfigMap.")
    secret: ObjectName | None = Field(None, description="Name of a Secret.")
    emptyDir: Literal["Disk", "Memory"] | None = Field(
        None, description="An empty directory, on disk or in memory."
    )
    sizeLimit: Quantity | None = Field(None, description="Size limit of an emptyDir.")

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        sources = [source for source in SOURCES if getattr(self, source) is not None]
        if len(sources) != 1:
            raise ValueError(
                f"{self.mountPath}: found {' and '.join(sources) or 'no source'}; "
                f"expected one of {', '.join(SOURCES)}"
            )
        if self.sizeLimit is not None and self.emptyDir is None:
            raise ValueError(f"{self.mountPath}: only an emptyDir has a sizeLimit")
        return self

    def source(self) -> dict[str, Any]:
        """Its entry in a pod's `volumes`, without the name."""
        if self.hostPath is not None:
            return {"hostPath": {"path": self.hostPath, "type": self.type}}
        if self.persistentVolumeClaim is not None:
            return {"persistentVolumeClaim": {"claimName": self.persistentVolumeClaim}}
        if self.configMap is not None:
            return {"configMap": {"name": self.configMap}}
        if self.secret is not None:
            return {"secret": {"secretName": self.secret}}
        medium = {"medium": "Memory"} if self.emptyDir == "Memory" else {}
        return {"emptyDir": {**medium, **({"sizeLimit": self.sizeLimit} if self.sizeLimit else {})}}

    def mount(self, name: str) -> dict[str, Any]:
        """Its entry in a container's `volumeMounts`."""
        mount: dict[str, Any] = {"name": name, "mountPath": self.mountPath}
        if self.readOnly:
            mount["readOnly"] = True
        if self.subPath is not None:
            mount["subPath"] = self.subPath
        return mount
