"""The doctor where trials run in containers or on hosts reached by ssh: made-up facts, and real ones."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.checks import Check
from assay.checks.examine import CHECKS
from assay.launch.podman import ContainerSystem
from assay.launch.podman import doctor as container
from assay.launch.podman import doctor as container_facts
from assay.launch.ssh import SshSystem
from assay.launch.ssh import doctor as host_facts
from assay.launch.ssh import doctor as hosts
from assay.records import Scalar
from containers import need_podman, this_machine
from ssh_hosts import Hosts
from ssh_hosts import hosts as started

HERE: dict[str, Scalar] = {
    "python.version": "3.11.7",
    "kernel": "6.1",
    "clock.offset_s": 0.001,
    "gpu.driver": "570",
}
INSIDE: dict[str, Scalar] = {**HERE, "container.engine": "podman 5", "container.image": "torch:1"}


def of(checks: tuple[Check, ...], name: str) -> Check:
    (found,) = (check for check in checks if check.name == name)
    return found


# Containers


def test_an_engine_that_is_missing_is_all_that_is_said() -> None:
    facts = {"container.missing": "podman is not installed", "container.remedy": "apt-get install podman"}
    assert container.examine(facts) == (
        Check("engine", "fail", "podman is not installed", "apt-get install podman"),
    )


@pytest.mark.parametrize(
    ("facts", "name", "state", "evidence"),
    [
        ({"container.engine": "podman 5"}, "image", "unknown", "names none"),
        (
            {"container.engine": "podman 5", "container.image_error": "not known"},
            "image",
            "fail",
            "not known",
        ),
        ({**INSIDE, "container.refused": "rlimit type 7"}, "container", "fail", "rlimit type 7"),
        ({"container.image": "torch:1", "unreadable": "SyntaxError"}, "container", "fail", "SyntaxError"),
    ],
)
def test_checking_ends_at_the_first_step_that_is_not_fine(
    facts: dict[str, Scalar], name: str, state: str, evidence: str
) -> None:
    last = container.examine(facts)[-1]
    assert (last.name, last.state) == (name, state)
    assert evidence in last.evidence


def test_a_container_that_starts_is_examined_from_inside_like_a_machine() -> None:
    checks = container.examine(INSIDE)
    assert len(checks) == 3 + len(CHECKS) + 1  # of the host nothing was told
    assert of(checks, "host").state == "unknown"
    assert of(checks, "container").state == "ok"


@pytest.mark.podman
@pytest.mark.torch
@pytest.mark.slow
def test_a_real_container_tells_what_is_inside(tmp_path: Path) -> None:
    need_podman()
    system = ContainerSystem(**this_machine(), cpus=0.5, env={"OMP_NUM_THREADS": "3"})
    facts = container_facts.facts_of("podman", system, tmp_path)
    assert facts["python.executable"] == sys.executable
    assert facts["env.OMP_NUM_THREADS"] == "3"
    assert facts["torch.version"]
    assert facts["host.checked"] is True
    assert "podman" in str(facts["container"])
    cores = of(container.examine(facts), "cores")
    assert cores.state == "warn"
    assert "throttled to the time of 0.5" in cores.evidence


@pytest.mark.podman
def test_a_real_engine_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    need_podman()
    for change, name, remedy in (
        ({"image": "localhost/none:1"}, "image", "podman pull localhost/none:1"),
        ({"volumes": ("/nowhere",)}, "container", "correct `volumes`"),
    ):
        system = ContainerSystem.model_validate({**this_machine(), **change})
        last = container.examine(container_facts.facts_of("podman", system, tmp_path))[-1]
        assert (last.name, last.state) == (name, "fail")
        assert remedy in last.remedy


# Hosts


def test_hosts_that_can_not_be_used_fail_with_their_own_words() -> None:
    checks = hosts.examine({"a": {"ssh.error": "a can't be reached: timed out"}, "b": HERE})
    assert of(checks, "hosts").state == "fail"
    assert "1 of 2 can't be used: a can't be reached" in of(checks, "hosts").evidence
    (alone,) = hosts.examine({"a": {"ssh.error": "no"}})
    assert alone.state == "fail"


def test_hosts_that_differ_are_told_apart() -> None:
    checks = hosts.examine({"a": HERE, "b": {**HERE, "gpu.driver": "560"}})
    assert of(checks, "alike").state == "warn"
    assert "gpu.driver: a 570, b 560" in of(checks, "alike").evidence
    assert of(hosts.examine({"a": HERE, "b": HERE}), "alike").state == "ok"


def test_a_clock_that_is_off_is_told_with_its_host() -> None:
    checks = hosts.examine({"a": HERE, "b": {**HERE, "clock.offset_s": -2.5}})
    assert of(checks, "clocks").state == "warn"
    assert "b is off the most: 2.5 s" in of(checks, "clocks").evidence
    assert of(hosts.examine({"a": HERE}), "clocks").state == "ok"


def test_of_each_check_the_worst_host_is_shown() -> None:
    little = {**HERE, "memory.total_bytes": 1e9}
    checks = hosts.examine({"a": {**HERE, "memory.total_bytes": 64e9}, "b": little})
    assert of(checks, "memory").state == "fail"
    assert of(checks, "memory").evidence.startswith("b: 1 GB")


@pytest.fixture
def server() -> Iterator[Hosts]:
    with (
        started(1) as made,
        tempfile.TemporaryDirectory(prefix="assay-ssh-run-") as runtime,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_RUNTIME_DIR", runtime)
        yield made


@pytest.mark.ssh
@pytest.mark.torch
@pytest.mark.slow
def test_a_real_host_tells_what_it_is_and_another_why_it_can_not_be_used(
    server: Hosts, tmp_path: Path
) -> None:
    common = {"config": server.config, "python": sys.executable, "directory": str(tmp_path / "jobs")}
    system = SshSystem.model_validate(
        {**common, "hosts": ["host0", "no-such.invalid"], "env": {"OMP_NUM_THREADS": "3"}}
    )
    facts = host_facts.facts_of(system)
    assert facts["host0"]["kernel"] == os.uname().release
    assert facts["host0"]["torch.version"]
    assert facts["host0"]["host.checked"] is True
    assert facts["host0"]["env.OMP_NUM_THREADS"] == "3"
    assert "HostName" in str(facts["no-such.invalid"]["ssh.error"])
    checks = hosts.examine(facts)
    assert of(checks, "hosts").state == "fail"
    assert of(checks, "clocks").state == "ok"
    assert of(checks, "torch").state in ("ok", "warn")
    assert list((tmp_path / "jobs").iterdir()) == []
