"""`assay plan` refuses what `assay run` refuses: everything at once, each with its file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import cli, redact
from assay.errors import InputError

SYSTEMS = """\
jobs:
  launcher: kubernetes
  namespace: bench
  image: torch:1
  kind: trainjob
  placement: spread
  imagePullPolicy: Always
  hostNetwork: true
  patch:
    spec:
      hostIPC: true
alone:
  launcher: kubernetes
  namespace: bench
  kind: pod
  pin_cpus: true
  resources: {accelerator: {cpu: 500m, memory: 1Gi}}
boxed:
  launcher: podman
machines:
  launcher: ssh
  hosts: [one]
fine:
  launcher: local
"""
REFUSED = {
    "jobs": [
        "systems.yaml:6: jobs.placement: a TrainJob does not support topologySpreadConstraints: use",
        "systems.yaml:7: jobs.imagePullPolicy: a TrainJob does not support imagePullPolicy: use",
        "systems.yaml:8: jobs.hostNetwork: a TrainJob does not support hostNetwork, dnsPolicy: use",
        "systems.yaml:9: jobs.patch: a TrainJob does not support hostIPC: use",
    ],
    "alone": [
        "systems.yaml:12: alone.image: neither the system nor the workload names a container image",
        "systems.yaml:15: alone.kind: shape 2x1 has 2 workers, but kind pod is one pod",
        "systems.yaml:17: alone.resources: pin_cpus: shape 2x1 gives each pod 500m CPUs",
    ],
    "boxed": ["systems.yaml:18: boxed.image: launcher podman needs a container image"],
    "machines": ["systems.yaml:22: machines.hosts: shape 2x1 needs 2 hosts"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("systems.yaml").write_text(SYSTEMS)


def suite(*systems: str) -> str:
    content = {"suite": "demo", "workload": "membw", "shapes": ["2x1"], "repeats": 3, "systems": systems}
    Path("suite.yaml").write_text(json.dumps(content))
    return "suite.yaml"


def refusals(*words: str) -> list[str]:
    error = CliRunner().invoke(cli.assay, list(words)).exception
    assert isinstance(error, InputError), error
    return str(error).splitlines()


@pytest.mark.parametrize("system", REFUSED)
def test_plan_names_every_option_that_does_not_fit_with_its_line_as_run_does(system: str) -> None:
    file = suite(system, "fine")
    planned = refusals("plan", file)
    assert [said.startswith(expected) for said, expected in zip(planned, REFUSED[system], strict=True)] == [
        True
    ] * len(planned), planned
    assert refusals("run", file) == planned
    assert refusals("plan", file, "--json") == planned
    assert not Path("runs").exists()


def test_the_refusals_of_all_systems_come_at_once_each_of_them_once() -> None:
    file = suite(*REFUSED)
    said = refusals("plan", file)
    assert len(said) == len(set(said)) == sum(map(len, REFUSED.values()))
    lines = [int(line.split(":")[1]) for line in said]
    assert lines == sorted(lines)


def test_a_system_that_is_left_out_refuses_nothing() -> None:
    said = CliRunner().invoke(cli.assay, ["plan", suite("jobs", "fine"), "--system", "fine"])
    assert said.exit_code == 0, said.output


COMMAND = {"argv": ["no-such-program"], "metrics": {"x": {"pattern": "x (?P<value>.+)", "unit": "s"}}}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "argv: found no-such-program; this program does not exist on this machine"),
        (
            {"argv": ["./run.sh"], "cwd": "/"},
            "argv: found ./run.sh; this program does not exist on this machine",
        ),
        (
            {"argv": ["true"], "cwd": "/no/such"},
            "cwd: found /no/such; this directory does not exist on this machine",
        ),
        (
            {"argv": ["python3", "train.py"]},
            "argv: found train.py; this file does not exist in the job's own directory: list it under files, "
            "or set cwd",
        ),
        ({"argv": ["true"]}, None),
        ({"argv": ["python3", "suite.yaml"], "files": ["suite.yaml"]}, None),
        ({"argv": ["./suite.yaml"], "files": ["suite.yaml"]}, None),
    ],
)
def test_what_a_command_names_is_looked_for_on_this_machine(
    params: dict[str, object], said: str | None
) -> None:
    content = {"suite": "demo", "workload": "command", "params": COMMAND | params, "systems": ["fine"]}
    Path("suite.yaml").write_text(json.dumps(content))
    if said is None:
        planned = CliRunner().invoke(cli.assay, ["plan", "suite.yaml"])
        assert planned.exit_code == 0, planned.output
    else:
        assert refusals("plan", "suite.yaml") == [f"suite.yaml:1: {said}"] == refusals("run", "suite.yaml")
        assert not Path("runs").exists()


@pytest.mark.parametrize("several", [False, True], ids=["one workload", "benchmarks"])
@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"argv": ["{python}", "plantd.py"], "cwd": "."}, "argv"),
        ({"argv": ["no-such-program"]}, "argv"),
        ({"argv": ["true"], "cwd": "/no/such"}, "cwd"),
    ],
    ids=["script", "program", "directory"],
)
def test_what_is_not_there_is_named_with_the_line_of_its_parameter(
    params: dict[str, object], name: str, several: bool
) -> None:
    content = {"metrics": COMMAND["metrics"], **params}
    lines = [f"  {key}: {json.dumps(value)}" for key, value in content.items()]
    head = ["suite: demo", "systems: [fine]", ""]
    body = ["workload: command", "", "params:", *lines]
    if several:
        body = ["benchmarks:", "  mine:", *(f"    {line}" for line in body)]
    text = [*head, *body]
    Path("suite.yaml").write_text("\n".join(text) + "\n")
    [at] = [number for number, line in enumerate(text, 1) if line.strip().startswith(f"{name}:")]
    [said] = refusals("plan", "suite.yaml")
    assert said.startswith(f"suite.yaml:{at}: {name}: found "), said


def test_a_secret_s_file_that_is_no_absolute_path_is_named() -> None:
    Path("systems.yaml").write_text("fine:\n  launcher: local\n  env:\n    MY_TOKEN: {from_file: tok.txt}\n")
    [said] = refusals("plan", suite("fine"))
    assert redact.text(said) == (
        "systems.yaml:4: fine.env.MY_TOKEN: found from_file: 'tok.txt'; expected an absolute path, or one "
        "that begins with ~/"
    )


def test_a_python_that_is_not_there_is_named_with_its_line() -> None:
    Path("systems.yaml").write_text("fine:\n  launcher: local\n  python: /no/such/python\n")
    expected = [
        "systems.yaml:3: fine.python: found /no/such/python; this program does not exist on this machine"
    ]
    assert refusals("plan", suite("fine")) == expected == refusals("run", suite("fine"))


def test_the_sites_program_of_a_workload_is_looked_for_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "systems.yaml").write_text("here: {launcher: local}\n")
    file = tmp_path / "suite.yaml"
    file.write_text(
        "suite: x\nsystems: [here]\nbenchmarks:\n  heat: {workload: gpu-burn, params: {program: no-such}}\n"
    )
    told = CliRunner().invoke(cli.assay, ["plan", str(file)])
    assert "program: found no-such; this program does not exist on this machine" in str(told.exception)
    file.write_text(file.read_text().replace("no-such", "python3"))
    assert CliRunner().invoke(cli.assay, ["plan", str(file)]).exit_code == 0
