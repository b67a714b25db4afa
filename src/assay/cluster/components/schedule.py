"""A quick suite that runs again and again on the cluster, with the exporter of its results.

What the CronJob runs comes from the suite's file and from the system's entry, which whoever asks for the part
reads: here, only the options and the finished objects are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pydantic import Field, PrivateAttr

from assay.cluster.components.component import (
    Component,
    DeploymentRollout,
    PreparationTarget,
    Requirement,
)
from assay.launch.kubernetes.order import Manifest


class QuickSuite(Component):
    """A CronJob and an exporter."""

    name: ClassVar = "schedule"
    about: ClassVar = "a quick suite that runs again and again, and the exporter of its results"

    suite: str = Field(description="The suite's file, relative to systems.yaml.")
    image: str = Field(description="Container image with Assay.")
    every: str = Field("1h", description="A divisor of an hour, a day or a week: 15min, 1h, 1d.")
    max_trial: str = Field("60s", description="The longest that a trial may take.")
    baseline: str | None = Field(None, description="Runs that each session is compared with.")
    claim: str | None = Field(None, description="An existing claim for the runs; default: a new one.")

    _made: list[Manifest] = PrivateAttr(default_factory=list)

    def completed(self, render: Callable[[QuickSuite], list[Manifest]]) -> QuickSuite:
        """The same with the objects that `render` makes of the files. Raises InputError as that does."""
        completed_suite = self.model_copy()
        completed_suite._made = render(self)
        return completed_suite

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The finished objects; none before they are completed."""
        del target
        return self._made

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The exporter must run; whether the suite does, its history shows."""
        exporters = [obj["metadata"]["name"] for obj in self._made if obj["kind"] == "Deployment"]
        return [DeploymentRollout(target.namespace, name) for name in exporters]
