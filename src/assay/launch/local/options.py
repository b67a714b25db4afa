"""What systems.yaml may say of this machine."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from assay.launch import sent


class LocalSystem(BaseModel):
    """What systems.yaml may say of this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)
    max_nodes: ClassVar[int | None] = 1

    python: str | None = Field(
        None, description="Interpreter of the trials, one that has torch; by default the one that runs Assay."
    )
    env: sent.Env = Field(default_factory=dict, description=sent.ENV_HELP)
    pin_cpus: bool = Field(False, description=sent.PIN_HELP)
    grace: sent.Grace = Field(5.0, description=sent.GRACE_HELP)
