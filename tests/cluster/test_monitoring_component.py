"""The part `monitoring`: what it renders for whom, and OpenShift's setting that it shares with others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

import custom_resources
import kubernetes_cluster as cluster
from assay.cluster import prepare
from assay.cluster.components import KINDS, Preparation
from assay.cluster.components.component import Platform
from assay.cluster.prepare import missing_settings
from assay.errors import InputError
from assay.launch.kubernetes import client
from assay.launch.kubernetes.client import connect
from assay.monitor import rules
from assay.monitor.dashboards import CONSOLE_LABEL, CONSOLE_NAMESPACE, dashboards
from prepared_parts import part, preparation, run

SWITCH = "cluster-monitoring-config"


def made(platform: Platform, **options: Any) -> list[dict[str, Any]]:
    return [obj for _, obj in monitoring(platform, "bench", **options).objects()]


def monitoring(platform: Platform, space: str, **options: Any) -> Preparation:
    return preparation(platform, space, "monitoring", monitoring=options)


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]


def alerts(obj: dict[str, Any]) -> set[str]:
    return {rule["alert"] for group in obj["spec"]["groups"] for rule in group["rules"]}


def test_the_operator_finds_every_monitor_and_rule_by_the_labels() -> None:
    for obj in made("openshift", labels={"release": "mine"}):
        if obj["apiVersion"].startswith("monitoring.coreos.com/"):
            assert obj["metadata"]["labels"]["release"] == "mine"


def test_pods_are_scraped_by_the_ports_of_their_containers() -> None:
    exporter, gpus = of_kind(made("kubernetes", scrape="pods"), "PodMonitor")
    assert [one["port"] for one in exporter["spec"]["podMetricsEndpoints"]] == ["metrics"]
    assert [one["port"] for one in gpus["spec"]["podMetricsEndpoints"]] == ["metrics"]
    exporter, gpus = of_kind(made("kubernetes", scrape="services"), "ServiceMonitor")
    assert [one["port"] for one in gpus["spec"]["endpoints"]] == ["gpu-metrics"]
    assert gpus["spec"]["namespaceSelector"] == {"matchNames": ["gpu-operator"]}


def test_the_job_is_the_one_that_the_alert_looks_for() -> None:
    exporter, _ = of_kind(made("kubernetes"), "ServiceMonitor")
    (relabeled,) = exporter["spec"]["endpoints"][0]["relabelings"]
    (gone,) = (rule for rule in rules.RULES if rule.name == "AssayExporterGone")
    assert relabeled == {"targetLabel": "job", "replacement": "assay"}
    assert 'up{job="assay"}' in gone.expression


def test_every_rule_is_there_once_on_both_platforms() -> None:
    every = {rule.name for rule in rules.RULES}
    (one,) = of_kind(made("kubernetes"), "PrometheusRule")
    assert alerts(one) == every
    own, theirs = of_kind(made("openshift"), "PrometheusRule")
    assert alerts(own) | alerts(theirs) == every
    assert not alerts(own) & alerts(theirs)
    assert theirs["metadata"]["namespace"] == "nvidia-gpu-operator"


@pytest.mark.parametrize(
    ("platform", "chosen", "space", "label"),
    [
        ("kubernetes", None, "bench", ("grafana_dashboard", "1")),
        ("openshift", None, CONSOLE_NAMESPACE, CONSOLE_LABEL),
        ("openshift", "grafana", "bench", ("grafana_dashboard", "1")),
    ],
)
def test_dashboards_are_where_they_are_looked_for(
    platform: Platform, chosen: str | None, space: str, label: tuple[str, str]
) -> None:
    found = of_kind(made(platform, dashboards=chosen, user_workload=False), "ConfigMap")
    assert len(found) == len(dashboards())
    for obj in found:
        assert obj["metadata"]["namespace"] == space
        assert obj["metadata"]["labels"][label[0]] == label[1]
        (text,) = obj["data"].values()
        assert bool(json.loads(text).get("rows")) is (label == CONSOLE_LABEL)


def test_each_object_can_be_left_out() -> None:
    none = {"scrape": "nothing", "rules": False, "dashboards": "none", "user_workload": False}
    assert made("openshift", **none) == []
    assert made("kubernetes", **{**none, "user_workload": True}) == []


@pytest.mark.parametrize("wrong", ["30", "fast", "30 s", ""])
def test_an_interval_that_prometheus_would_refuse_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="interval"):
        part("monitoring", interval=wrong)


# A setting that is a line of another's text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("enableUserWorkload: true\nprometheusK8s: {retention: 7d}\n", None),
        ("prometheusK8s: {retention: 7d}\n", 'add the line "enableUserWorkload: true"'),
        ("enableUserWorkload: false\n", 'change enableUserWorkload to "enableUserWorkload: true"'),
        ("", "add the line"),
        ("- a list\n", "it is not a mapping in YAML"),
        ("a: [", "it is not a mapping in YAML"),
        pytest.param("[" * 5000, "it is not a mapping in YAML", marks=pytest.mark.long),
        (None, "it is not a mapping in YAML"),
    ],
)
def test_the_line_that_an_existing_text_lacks_is_named(text: str | None, hint: str | None) -> None:
    (switch,) = (obj for obj in made("openshift") if obj["metadata"]["name"] == SWITCH)
    found = missing_settings(switch, {"data": {"config.yaml": text}})
    assert ".data.config.yaml: " in found[0] if hint else found == ()
    assert hint is None or hint in found[0]


# On a real API server


@pytest.fixture(scope="module")
def known() -> Iterator[None]:
    with cluster.namespace(), custom_resources.brought(), cluster.openshift_namespaces():
        yield


@pytest.fixture
def space(known: None) -> Iterator[str]:
    del known
    with cluster.namespace() as name:
        yield name
        prepare.revert(there(name))
        cluster.kubectl("-n", "openshift-monitoring", "delete", "configmap", SWITCH, "--ignore-not-found")


def there(namespace: str) -> client.Cluster:
    connected = connect(None, namespace)
    return client.Cluster(connected.wire, connected.context, namespace)


def configure(text: str) -> None:
    """Write OpenShift's setting as somebody else."""
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SWITCH, "namespace": "openshift-monitoring"},
        "data": {"config.yaml": text},
    }
    owner = ("--server-side", "--field-manager=the-owner", "--force-conflicts")
    cluster.kubectl("apply", *owner, "-f", "-", stdin=json.dumps(obj))


def configured() -> str:
    jsonpath = "jsonpath={.data.config\\.yaml}"
    return cluster.kubectl("-n", "openshift-monitoring", "get", "configmap", SWITCH, "-o", jsonpath)


SWITCH_ONLY = {"scrape": "nothing", "rules": False, "dashboards": "none"}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_the_command_shows_validates_applies_checks_and_reverts_it(space: str, tmp_path: Path) -> None:
    file = tmp_path / "systems.yaml"
    file.write_text(
        f"lab:\n  launcher: kubernetes\n  namespace: {space}\n"
        "  prepare:\n    monitoring: {labels: {release: prometheus}}\n"
    )
    asked = ("lab", "--for", "kubernetes", "--part", "monitoring")
    assert "make     ServiceMonitor assay-exporter" in run(file, *asked).output
    assert run(file, *asked, "--validate").exit_code == 0
    assert run(file, *asked, "--check").exit_code == 1
    assert run(file, *asked, "--apply", "--yes").exit_code == 0
    checked = run(file, *asked, "--check")
    assert checked.exit_code == 0, checked.output
    assert run(file, *asked, "--revert", "--yes").exit_code == 0
    assert cluster.objects(space, "servicemonitors,podmonitors,prometheusrules") == []
    assert cluster.objects(space, "configmaps", "grafana_dashboard") == []


QUICK = """\
suite: quick
workload: disk
params: {directory: /tmp, size_bytes: 16777216, min_time_s: 0.2}
"""


def scheduled(folder: Path, space: str, suite: str = QUICK) -> Path:
    """A systems file whose system has the part `schedule`; beside it, the suite."""
    (folder / "quick.yaml").write_text(suite)
    file = folder / "systems.yaml"
    file.write_text(
        f"lab:\n  launcher: kubernetes\n  namespace: {space}\n  image: python:3\n"
        "  prepare:\n    schedule: {suite: quick.yaml, image: 'assay:1', every: 6h}\n"
    )
    return file


def test_a_scheduled_suite_is_read_beside_the_systems_file_and_printed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file = scheduled(tmp_path / "folder", "bench")
    said = run(file, "lab", "--for", "kubernetes", "--part", "schedule", "--print")
    assert said.exit_code == 0, said.exception
    found = {obj["kind"]: obj for obj in YAML(typ="safe", pure=True).load_all(said.output)}
    assert found["CronJob"]["spec"]["schedule"].endswith(" */6 * * *")
    assert found["PriorityClass"]["metadata"]["name"] == "assay-idle-bench"
    for obj in found.values():
        assert (obj["apiVersion"], obj["kind"]) in KINDS


def test_a_suite_that_is_too_long_is_no_part_of_a_cluster(tmp_path: Path) -> None:
    file = scheduled(tmp_path, "bench", QUICK.replace("0.2", "300"))
    said = run(file, "lab", "--for", "kubernetes", "--print")
    assert isinstance(said.exception, InputError)
    assert "disk on lab takes about 10 min" in str(said.exception)


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_scheduled_suite_is_applied_and_reverted(space: str, tmp_path: Path) -> None:
    file = scheduled(tmp_path, space)
    asked = ("lab", "--for", "kubernetes", "--part", "schedule")
    assert run(file, *asked, "--validate").exit_code == 0
    assert run(file, *asked, "--apply", "--yes").exit_code == 0
    assert [one["spec"]["suspend"] for one in cluster.objects(space, "cronjobs")] == [False]
    assert "keep     CronJob assay-quick-lab" in run(file, *asked).output
    checked = run(file, *asked, "--check")
    assert checked.exit_code == 1  # no node has the image
    assert "0 of 1 replicas are ready" in checked.output
    assert run(file, *asked, "--revert", "--yes").exit_code == 0
    assert cluster.objects(space, "cronjobs,deployments,services,roles") == []
    assert f"assay-idle-{space}" not in cluster.kubectl("get", "priorityclasses", "-o", "name")


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_text_of_others_is_never_written(space: str) -> None:
    wanted = monitoring("openshift", space, **SWITCH_ONLY)
    configure("prometheusK8s: {retention: 7d}\n")
    (step,) = prepare.plan(there(space), wanted)
    assert (step.does, "add the line" in step.about[0]) == ("conflict", True)
    configure("prometheusK8s: {retention: 7d}\nenableUserWorkload: true\n")
    (step,) = prepare.apply(there(space), wanted)
    assert step.does == "keep"
    assert prepare.revert(there(space)) == []
    assert "retention" in configured()


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_text_that_assay_made_goes_unless_others_wrote_into_it(space: str) -> None:
    wanted = monitoring("openshift", space, **SWITCH_ONLY)
    assert [step.does for step in prepare.apply(there(space), wanted)] == ["make"]
    assert [step.does for step in prepare.plan(there(space), wanted)] == ["keep"]
    configure("enableUserWorkload: true\nprometheusK8s: {retention: 7d}\n")
    (step,) = prepare.revert(there(space))
    assert (step.does, "the-owner" in step.about[0]) == ("stays", True)
    assert "retention" in configured()
