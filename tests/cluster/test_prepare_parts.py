"""The parts of `assay cluster prepare`: what each renders, and how it is asked for. No cluster is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from assay.cli import assay
from assay.cluster.components import KINDS, PARTS, Preparation
from assay.cluster.components.component import (
    Platform,
)
from assay.errors import InputError
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.suite import document
from conftest import GOLDEN, ROOT
from prepared_parts import part, preparation, run, systems_file

GOLDEN = GOLDEN / "prepare"
DOCUMENT = ROOT / "docs" / "how-to" / "prepare.md"
CASES = [(platform, name) for name, of in PARTS.items() for platform in of.platforms]


def rendered(made: Preparation) -> str:
    """All that a preparation of one part asks for, as text."""
    (chosen,) = made.parts
    said = [f"# {of.project}, {of.pin}\n{of.command}\n" for of in made.references(chosen.name)]
    said += [
        f"# {file.path}\n{file.text}" + "".join(f"# then {line}\n" for line in file.then)
        for file in chosen.node_files(made.target)
    ]
    objects = [obj for _, obj in made.objects()]
    return "---\n".join([*said, *([as_yaml(objects)] if objects else [])])


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_what_a_part_asks_for_is_what_it_was(platform: Platform, name: str) -> None:
    golden = GOLDEN / f"{name}.{platform}.yaml"
    assert rendered(preparation(platform, "bench", name)) == golden.read_text()


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_every_object_is_of_a_kind_that_revert_looks_for(platform: Platform, name: str) -> None:
    for _, obj in preparation(platform, "bench", name).objects():
        assert (obj["apiVersion"], obj["kind"]) in KINDS


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("storage", {"claims": {"a": {}}}, "found no source; expected one of scale, nfs, hostPath"),
        (
            "storage",
            {"claims": {"a": {"hostPath": "/d", "storageClassName": "x"}}},
            "found hostPath and storageCl",
        ),
        ("storage", {"claims": {"a": {"storageClassName": "x"}}}, "needs a size, like 500Gi"),
        ("numa", {"isolated_cpus": "2-3"}, "a PerformanceProfile sets it itself"),
        ("numa", {"reserved_cpus": "0..1"}, "should match pattern"),
        (
            "network-operator",
            {"resources": [{"resourceName": "a", "selectors": {}}]},
            "a: set at least one selector, or devices",
        ),
        ("hugepages", {"size": "4Mi"}, "'2Mi' or '1Gi'"),
    ],
)
def test_options_that_contradict_are_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        part(name, **options)


@pytest.mark.parametrize(
    ("platform", "name", "api", "later"),
    [
        ("openshift", "gpu-operator", "nvidia.com/v1", True),
        ("openshift", "gpu-operator", "mellanox.com/v1alpha1", False),
        ("openshift", "kueue", "kueue.x-k8s.io/v1beta2", False),
        ("kubernetes", "gpu-operator", "nvidia.com/v1", False),
    ],
)
def test_only_what_is_subscribed_to_is_waited_for(
    platform: Platform, name: str, api: str, later: bool
) -> None:
    assert preparation(platform, "bench", name).comes_later(api) is later


def test_every_part_and_option_stands_in_the_document() -> None:
    section = DOCUMENT.read_text().partition("## The parts")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    options = {row.split("`")[1]: row.split(" | ")[2] for row in rows}
    assert options.keys() == PARTS.keys()
    for name, of in PARTS.items():
        said = {word for word in options[name].split("`") if word in {*of.model_fields}}
        assert said == {*of.model_fields}, name


# The command line


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return systems_file(tmp_path, "bench")


def test_a_part_or_option_that_does_not_exist_is_refused_with_its_line(lab: Path) -> None:
    said = run(lab, "wrong", "--for", "kubernetes", "--print")
    assert isinstance(said.exception, InputError)
    lines = str(said.exception).splitlines()
    assert f'{lab}:11: wrong.prepare: "gpu-operatr" is not a part; did you mean gpu-operator?' in lines
    assert any(line.startswith(f'{lab}:12: wrong.prepare.hugepages.size: found "3Mi"') for line in lines)
    assert f"{lab}:12: wrong.prepare.hugepages.cuont: unknown key; did you mean count?" in lines


def test_an_editor_knows_the_parts(lab: Path) -> None:
    schema = json.loads(CliRunner().invoke(assay, ["init", "--schema", "systems"]).output)
    checks = jsonschema.Draft202012Validator(schema)
    written = document.read(lab).data
    checks.validate({"lab": written["lab"]})
    said = " ".join(error.message for error in checks.iter_errors({"wrong": written["wrong"]}))
    assert "'gpu-operatr' was unexpected" in said
    assert "3Mi" in said


def test_printing_asks_no_cluster(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    said = run(lab, "lab", "--for", "openshift", "--part", "memlock", "--print")
    assert said.output == (GOLDEN / "memlock.openshift.yaml").read_text()


def test_a_part_of_another_platform_is_refused(lab: Path) -> None:
    said = run(lab, "lab", "--for", "kubernetes", "--part", "registry", "--print")
    assert isinstance(said.exception, InputError)
    assert "registry: not for kubernetes" in str(said.exception)


def test_two_actions_at_once_are_wrong_usage(lab: Path) -> None:
    said = run(lab, "lab", "--apply", "--revert")
    assert said.exit_code == 2
    assert "--apply and --revert: use only one of them" in said.output
