"""The machine that Assay runs on, as a platform."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from assay.launch import job_spec
from assay.launch.platform import Platform, late


class LocalSystem(BaseModel):
    """The options of this machine in systems.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)
    max_nodes: ClassVar[int | None] = 1

    python: str | None = Field(
        None, description="Interpreter of the trials, which needs torch; default: the one that runs Assay."
    )
    env: job_spec.Env = Field(default_factory=dict, description=job_spec.ENV_HELP)
    pin_cpus: bool = Field(False, description=job_spec.PIN_HELP)
    grace: job_spec.Grace = Field(5.0, description=job_spec.GRACE_HELP)


_LAUNCHER = late("assay.launch.local.launcher:LocalLauncher")
PLATFORM = Platform(LocalSystem, _LAUNCHER, late("assay.launch.local.facts:examination"))
