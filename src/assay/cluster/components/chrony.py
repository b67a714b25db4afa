"""One time on all nodes: chrony's servers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from assay.cluster.components.component import Component, NodeFile, PreparationTarget, Requirement
from assay.cluster.components.machine_config import PoolOptions, machine_config
from assay.launch.kubernetes.order import Manifest

PATH = "/etc/chrony.conf"


class Chrony(PoolOptions, Component):
    """Time servers."""

    name: ClassVar = "chrony"
    about: ClassVar = "time servers of the nodes, so that traces and logs of ranks agree"

    servers: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = Field(
        min_length=1, description="Names or addresses of time servers."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift: the file, on each node of the pool."""
        return [machine_config("chrony", self.pool, {PATH: self._text()})] if target.is_openshift else []

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """Elsewhere: the file, written manually."""
        if target.is_openshift:
            return []
        text = f"# on Debian and Ubuntu: /etc/chrony/chrony.conf\n{self._text()}"
        return [NodeFile(PATH, text, ("systemctl restart chronyd",))]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The pool must have applied it."""
        return self.updated(target)

    def _text(self) -> str:
        servers = [f"server {name} iburst" for name in self.servers]
        rest = ["driftfile /var/lib/chrony/drift", "makestep 1.0 3", "rtcsync", "logdir /var/log/chrony"]
        return "\n".join([*servers, *rest]) + "\n"
