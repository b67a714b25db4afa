"""What systems.yaml may say of a Kubernetes or OpenShift cluster.

What Kubernetes has a name for has that name here; what is Assay's own is named as on every other system.
"""

# ruff: noqa: N815  (Kubernetes' own names)

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from assay import units
from assay.launch import sent

Duration = Annotated[float, BeforeValidator(units.seconds), Field(ge=0)]
KindName = Literal["auto", "pod", "job"]


class Part(BaseModel):
    """A mapping inside a system's entry."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KubernetesSystem(Part):
    """What systems.yaml may say of a cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)
    max_nodes: ClassVar[int | None] = None

    # where
    context: str | None = Field(None, description="Context of the kubeconfig; by default the current one.")
    namespace: str | None = Field(None, description="Namespace; by default the context's.")
    kind: KindName = Field(
        "auto", description="Kind of job; auto takes the plainest that the cluster offers."
    )
    # what runs
    image: str | None = Field(None, description="Container image of the ranks; by default the workload's.")
    python: str = Field("python3", description="Interpreter in the image that runs the trials.")
    env: sent.Env = Field(default_factory=dict, description=sent.ENV_HELP)
    grace: sent.Grace = Field(5.0, description=sent.GRACE_HELP)
    pin_cpus: bool = Field(False, description=sent.PIN_HELP)
    # how
    hostNetwork: bool = Field(False, description="Pods in their node's own network.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels added to every object.")
    annotations: dict[str, str] = Field(
        default_factory=dict, description="Annotations added to every object."
    )
