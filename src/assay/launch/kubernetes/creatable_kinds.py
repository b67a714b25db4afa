"""The kinds that a cluster offers this user, queried one by one on lookup."""

from __future__ import annotations

from dataclasses import dataclass

from assay.launch.kubernetes.client import Cluster


@dataclass(frozen=True)
class CreatableKinds:
    """`("batch/v1", "jobs") in CreatableKinds(cluster)`: the cluster knows it, and this user may create it.

    Raises ApiError if the cluster does not answer.
    """

    cluster: Cluster

    def __contains__(self, kind: object) -> bool:
        match kind:
            case (str(api_version), str(plural)):
                group = api_version.rpartition("/")[0]
                known = plural in self.cluster.kinds(api_version).values()
                return known and self.cluster.may("create", plural, group=group)
            case _:
                return False
