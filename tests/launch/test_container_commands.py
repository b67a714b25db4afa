"""What podman and docker are given, and what systems.yaml may say of it; no engine is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from assay import launch
from assay.errors import InputError
from assay.launch.podman import ContainerSystem, engine
from assay.records import Shape
from assay.shell import CompletedCommand
from assay.testing.launchers import job, python
from conftest import GOLDEN

GOLDEN = GOLDEN
SYSTEM = ContainerSystem.model_validate_json("""{
    "image": "nvcr.io/nvidia/pytorch:25.09-py3",
    "python": "/usr/bin/python3",
    "env": {"NCCL_DEBUG": "INFO"},
    "volumes": ["/data", "/models:/inside", "/scratch:/scratch:rw"],
    "devices": ["nvidia.com/gpu=all", "/dev/infiniband"],
    "ipc": "host",
    "shm_size": "8g",
    "ulimits": {"stack": "67108864:67108864", "memlock": -1},
    "cpus": 16,
    "cpuset": "0-15",
    "memory": "64g",
    "user": "1000:1000",
    "args": ["--cap-add=IPC_LOCK"],
    "pin_cpus": true
}""")


@pytest.mark.parametrize("program", ["podman", "docker"])
def test_the_command_is_the_golden_one(program: str) -> None:
    asked = job(python("print(1)"), 8, cwd="/work")
    rendered = launch.make(program, SYSTEM, spool=Path("jobs")).render(asked)
    assert rendered.command + "\n" == (GOLDEN / f"{program}.txt").read_text()


def test_without_a_user_podman_is_root_inside_and_docker_the_one_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1234)
    monkeypatch.setattr("os.getgid", lambda: 100)
    system = ContainerSystem(image="any")
    commands = [
        launch.make(program, system, spool=Path("jobs")).render(job(python(""))).command.split()
        for program in ("podman", "docker")
    ]
    assert "--user=0:0" in commands[0]
    assert "--user=1234:100" in commands[1]


def test_the_workloads_image_is_taken_where_the_system_names_none_and_one_is_needed() -> None:
    launcher = launch.make("podman", ContainerSystem(), spool=Path("jobs"))
    asked = job(python(""))
    with pytest.raises(InputError, match=r"needs a container image.*set `image` for the system"):
        launcher.render(asked)
    named = replace(asked, task=replace(asked.task, image="of/the-workload:1"))
    assert " of/the-workload:1 " in launcher.render(named).command


def test_more_than_one_node_is_refused() -> None:
    with pytest.raises(InputError, match="launcher podman has one: write 4x2"):
        launch.make("podman", SYSTEM, spool=Path("jobs")).render(
            replace(job(python("")), shape=Shape(4, 2, 2))
        )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"volumes": ["data"]}, "/host/path"),
        ({"volumes": ["/a:/b:/c"]}, "/host/path"),
        ({"shm_size": "8 GB"}, "like 8g"),
        ({"ulimits": {"memlock": "none"}}, "-1 for none"),
        ({"cpus": 0}, "greater than 0"),
        ({"images": "x"}, "Extra inputs"),
    ],
)
def test_what_can_not_be_meant_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ContainerSystem.model_validate(wrong)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("docker: Error response from daemon: No such image: pytorch:1", "docker pull"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "systemctl start docker"),
        ("docker: Error response from daemon: error gathering device information", "correct `devices`"),
        ("Error: cannot find newuidmap: exec: not found", "usermod --add-subuids"),
        ("Error: something that nobody knows", "refused the container: something that nobody knows"),
    ],
)
def test_words_of_engines_that_can_not_run_here_have_their_remedies(words: str, remedy: str) -> None:
    answer = CompletedCommand(("docker", "run"), 125, "", f"{words}\n", 0.1)
    assert remedy in str(engine.refusal_of(answer, SYSTEM, "pytorch:1"))
