"""Which kind `kind: auto` becomes: assumed and said where no cluster was asked, its choice where one was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_kubernetes_rights import kubeconfig

import kubernetes_cluster as cluster
from assay import launch
from assay.errors import LaunchError
from assay.launch.kubernetes.client import Cluster, connect
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.objects import rbac
from assay.launch.kubernetes.objects.kind_choice import CreatableKinds, KindChoices
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.objects.rbac import needed
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import JobState, Shape
from assay.testing.launchers import job, python
from assay.testing.launchers import run as run_job

JOBSETS = {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]}


def launcher(system: KubernetesSystem, spool: Path) -> KubernetesLauncher:
    made = launch.make("kubernetes", system, spool=spool)
    assert isinstance(made, KubernetesLauncher)
    return made


def test_a_manifest_that_no_cluster_was_asked_for_says_what_is_assumed(tmp_path: Path) -> None:
    shown = launcher(KubernetesSystem(image="x"), tmp_path).render(job(python("pass"), 2)).command
    assert shown.splitlines()[0] == (
        "# kind: auto selects job: several workers need no operator, only an Indexed Job and a Service "
        "(assumed: what every cluster offers; this one was not queried)"
    )


def test_a_kind_that_was_asked_for_has_no_reason_and_is_asked_of_no_cluster(tmp_path: Path) -> None:
    asked = launcher(KubernetesSystem(image="x", kind="job", context="no-such"), tmp_path)
    assert asked.choose(Shape(2, 1)) == ""
    assert asked.render(job(python("pass"), 2)).command.startswith("apiVersion:")


def test_without_the_extra_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")  # a key of its own among the open connections
    monkeypatch.setitem(sys.modules, "lightkube", None)
    with pytest.raises(LaunchError, match=r"needs lightkube.*pip install 'cluster-assay\[kubernetes\]'"):
        connect(None, None)


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


@pytest.mark.kubernetes
def test_one_cluster_has_one_connection_named_or_current(namespace: str) -> None:
    current = connect(None, namespace)
    assert connect(current.context, namespace) is current


@pytest.mark.kubernetes
def test_a_cluster_is_asked_once_for_each_shape_and_each_reason_is_told_once(namespace: str) -> None:
    chosen, there = KindChoices("auto"), connect(None, namespace)
    assert chosen.ask(Shape(1, 1), there) == "kind: auto selects pod: one worker needs only a Job"
    assert chosen.ask(Shape(1, 2), there) == ""
    assert chosen.ask(Shape(2, 1), there).startswith("kind: auto selects job: several workers")
    assert chosen.ask(Shape(2, 1), there) == ""
    assert chosen.comment(Shape(1, 2)) == "# kind: auto selects pod: one worker needs only a Job\n"


@pytest.mark.kubernetes
def test_a_cluster_offers_what_it_knows_and_this_user_may_create(namespace: str) -> None:
    offered = CreatableKinds(connect(None, namespace))
    assert ("batch/v1", "jobs") in offered
    assert ("kubeflow.org/v1", "pytorchjobs") not in offered
    assert "jobs" not in offered


@pytest.fixture
def no_services(namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster as a user who may make JobSets and no Services."""
    account, role, binding = rbac.objects("auto", namespace)
    kept = rbac.rules([right for right in needed("auto") if right.resource != "services"])
    objects = [account, {**role, "rules": [*kept, JOBSETS]}, binding]
    cluster.kubectl("apply", "-f", "-", stdin=as_yaml(objects))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(namespace, rbac.RUNNER, tmp_path / "config")))
    return connect(None, namespace)


@pytest.mark.kubernetes
@pytest.mark.slow
def test_where_services_can_not_be_made_auto_takes_an_operator_that_is_there(
    namespace: str, no_services: Cluster, tmp_path: Path
) -> None:
    assert ("v1", "services") not in CreatableKinds(no_services)
    made = launcher(cluster.system(namespace, imagePullPolicy=None, grace=0.5), tmp_path / "jobs")
    assert made.choose(Shape(2, 1)) == (
        "kind: auto selects jobset: this user can't create Jobs with a Service here, but JobSet is installed"
    )
    asked = job(python("import os; print(os.environ['RANK'])"), 2)
    assert "\nkind: JobSet\n" in made.render(asked).command
    status, streams = run_job(made, asked)
    assert (status.state, status.cause) == (JobState.SUCCEEDED, "")
    assert (streams["rank-0"], streams["rank-1"]) == (b"0\n", b"1\n")
