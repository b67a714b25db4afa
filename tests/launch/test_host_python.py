"""`python: host`: the interpreter that runs Assay, in containers and pods, at its own path."""

from __future__ import annotations

import sys
from pathlib import Path

import pydantic
import pytest
from ruamel.yaml import YAML

from assay.errors import InputError
from assay.launch.job_spec import host_python
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.podman import ContainerSystem
from assay.launch.podman.launcher import PodmanLauncher
from assay.suite.model import System
from assay.testing.launchers import job, python, run
from containers import IMAGE, ULIMITS, need_podman


def test_its_directories_hold_environment_and_installation_and_none_lies_in_another() -> None:
    host = host_python()
    assert host.executable == sys.executable
    for needed in (sys.executable, sys.prefix, sys.base_prefix):
        assert any(Path(needed).is_relative_to(place) for place in host.directories)
    assert not any(Path(p).is_relative_to(q) for p in host.directories for q in host.directories if p != q)


def test_an_interpreter_whose_links_lead_out_of_its_directories_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere" / "python"
    environment = tmp_path / "environment"
    for place in (elsewhere.parent, environment):
        place.mkdir()
    (environment / "python").symlink_to("../elsewhere/python")
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "executable", str(environment / "python"))
    with pytest.raises(InputError, match=rf"is a link to {elsewhere}, outside .* under volumes"):
        host_python()


def test_a_container_sees_it_read_only_at_its_own_path(tmp_path: Path) -> None:
    system = ContainerSystem(image="debian:12", python="host", volumes=("/data",))
    command = PodmanLauncher("podman", system, tmp_path).render(job(python("1"))).command
    assert f"--entrypoint={sys.executable}" in command
    for place in ("/data", *host_python().directories):
        assert f"--volume={place}:{place}:ro" in command


def test_a_pod_sees_it_read_only_at_its_own_path(tmp_path: Path) -> None:
    system = KubernetesSystem(image="debian:12", python="host")
    sent = KubernetesLauncher(system, tmp_path).render(job(python("1"))).command
    (rendered,) = (one for one in YAML(typ="safe").load_all(sent) if one["kind"] == "Job")
    pod = rendered["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][0] == sys.executable
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    for place in host_python().directories:
        assert mounts[place]["readOnly"] is True
        assert volumes[mounts[place]["name"]]["hostPath"] == {"path": place, "type": "Directory"}


def test_another_interpreter_brings_no_directories(tmp_path: Path) -> None:
    system = ContainerSystem(image="debian:12", python="/opt/python")
    command = PodmanLauncher("podman", system, tmp_path).render(job(python("1"))).command
    assert command.count("--volume=") == 1  # the job's own directory


def test_what_a_suite_is_does_not_hang_on_where_the_interpreter_lies() -> None:
    system = System("pods", "kubernetes", KubernetesSystem(image="debian:12", python="host"))
    assert system.definition["python"] == "host"
    assert sys.prefix not in str(system.definition)


@pytest.mark.podman
def test_it_runs_in_a_container_with_its_own_packages(tmp_path: Path) -> None:
    need_podman()
    system = ContainerSystem(image=IMAGE, python="host", volumes=("/usr",), ulimits=ULIMITS)
    code = "import pydantic, sys; print(sys.executable, pydantic.__file__)"
    _, streams = run(PodmanLauncher("podman", system, tmp_path), job(("{python}", "-c", code)))
    assert streams["rank-0"].decode().split() == [sys.executable, pydantic.__file__]
