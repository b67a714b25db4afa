"""`assay serve` on OpenShift: prepared, checked, changed, checked again and removed, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kubernetes_cluster as cluster
from assay.cluster import prepare
from assay.cluster.components import Preparation
from assay.cluster.components.requirements import check_all
from assay.launch.kubernetes import client
from assay.launch.kubernetes.client import connect
from prepared_parts import preparation

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@pytest.fixture
def there() -> Iterator[client.Cluster]:
    """A namespace; what was prepared for it is gone afterwards."""
    with cluster.namespace() as name:
        connected = connect(None, name)
        made = client.Cluster(connected.wire, connected.context, name)
        yield made
        prepare.revert(made)


def served(there: client.Cluster, **options: Any) -> Preparation:
    return preparation("openshift", there.namespace, "serve", serve=options)


def missing(there: client.Cluster, wanted: Preparation) -> dict[str, str]:
    return {one.name: one.evidence for _, one in check_all(there, wanted) if one.state != "ok"}


def test_it_is_checked_changed_and_removed_and_nothing_stays(there: client.Cluster) -> None:
    first, moved = served(there), served(there, host="bench.apps.lab", readers=[])
    names = [f"{obj['kind']} {obj['metadata']['name']}" for _, obj in first.objects()]
    assert {step.does for step in prepare.plan(there, first)} == {"make"}
    assert set(missing(there, first).values()) >= {"it does not exist"}
    assert len(missing(there, first)) == len(names)

    prepare.apply(there, first)
    assert {step.does for step in prepare.plan(there, first)} == {"keep"}
    [(waiting, why)] = missing(there, first).items()  # there is no image, claim or Secret here
    assert ("assay-serve" in waiting, "0 of 1" in why) == (True, True), (waiting, why)

    steps = {step.called.split()[0]: step.does for step in prepare.apply(there, moved) if step.does != "keep"}
    assert steps == {"Deployment": "change", "Route": "change", "RoleBinding": "delete"}
    assert {step.does for step in prepare.plan(there, moved)} == {"keep"}
    route = cluster.kubectl(
        "-n", there.namespace, "get", "route", "assay-serve", "-o", "jsonpath={.spec.host}"
    )
    assert route == "bench.apps.lab"

    prepare.revert(there)
    assert len(missing(there, moved)) == len(names) - 1
    assert prepare.revert(there) == []
