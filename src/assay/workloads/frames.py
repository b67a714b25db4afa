"""The frames that a job reads, as a suite's parameters choose them from a catalog."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from assay.formats.reader import Params
from assay.records import FrameChoice
from assay.workloads.program import absolute

CHOOSE_HELP = (
    "Frames of a catalog, chosen each time a trial is submitted, like {catalog: a2d2.duckdb, "
    "where: bicycle > 0, limit: 1000, seed: 1, balance: bicycle}. The manifest is kept with the run."
)


def is_unset(value: object) -> bool:
    """Whether the parameter is left out of a trial: digests of suites without it stay what they were."""
    return value is None


class Choose(Params):
    """Frames of a catalog that `assay data scan` made."""

    catalog: str = Field(min_length=1, description="File of the catalog, relative to the suite's directory.")
    where: str = Field("", description="Condition, as `assay data query` takes it; default: all frames.")
    limit: int | None = Field(None, ge=1, description="Frames to draw at random; default: all.")
    seed: int = Field(0, ge=0, lt=2**53, description="Of the draw.")
    balance: str | None = Field(None, description="A class: as many frames without it as with it.")

    @field_validator("catalog")
    @classmethod
    def _is_absolute(cls, path: str, info: ValidationInfo) -> str:
        return absolute(path, info)

    def choice(self) -> FrameChoice:
        """What a task asks for."""
        return FrameChoice(**self.model_dump())
