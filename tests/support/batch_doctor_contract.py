"""What `assay doctor` says of every batch system: what each fact means, and the facts of a cluster."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner, Result

from assay.checks import Check
from assay.cli import assay
from assay.records import Scalar
from listed_cases import ListedCases, cases

Facts = Mapping[str, Scalar]
JOB_RAN: Facts = {
    "job.directory": "/runs",
    "job.nodes": 2,
    "job.hosts": "n1, n2",
    "job.python": "3.11.7",
    "job.torch": True,
}
OF_THE_JOB: Sequence[tuple[Facts, str, str, str]] = (
    ({"job.waits": "pending: Resources"}, "test job", "unknown", "Resources"),
    ({"job.error": "n2 does not reach n1:10007"}, "test job", "fail", "10000 to 29999"),
    ({"job.error": "can't write the job's directory"}, "test job", "fail", "`directory`"),
    ({"job.error": "exited 127: /no/python"}, "test job", "fail", "`python`"),
    ({"job.torch": False}, "python", "warn", "without torch"),
)


class BatchChecksContract(ListedCases):
    """Inherit it and say what the checks are.

    examine  all checks that the facts allow
    fine     facts of a cluster that lacks nothing
    wrong    facts, the check that they are for, its state, words of its evidence or remedy
    """

    examine: ClassVar[Callable[[Facts], tuple[Check, ...]]]
    fine: ClassVar[Facts]
    wrong: ClassVar[Sequence[tuple[Facts, str, str, str]]]

    def test_a_cluster_that_lacks_nothing_is_fine(self) -> None:
        assert {check.state for check in self.examine(self.fine)} == {"ok"}

    @cases("wrong", "facts", "name", "state", "words")
    def test_what_is_wrong_is_told_with_what_fixes_it(
        self, facts: Facts, name: str, state: str, words: str
    ) -> None:
        found = {check.name: check for check in self.examine(facts)}
        assert found[name].state == state
        assert words in f"{found[name].evidence} {found[name].remedy}"

    @pytest.mark.parametrize(("facts", "name", "state", "words"), OF_THE_JOB)
    def test_what_a_job_met_is_told_with_what_fixes_it(
        self, facts: Facts, name: str, state: str, words: str
    ) -> None:
        self.test_what_is_wrong_is_told_with_what_fixes_it({**self.fine, **facts}, name, state, words)


class BatchDoctorContract(ListedCases, ABC):
    """Inherit it, have a cluster of two nodes, and say what its doctor finds.

    launcher_name  as systems.yaml has it
    found          options of the system, the exit code, and the checks that fail
    """

    launcher_name: ClassVar[str]
    found: ClassVar[Sequence[tuple[str, int, Collection[str]]]]

    @abstractmethod
    def down(self) -> AbstractContextManager[None]:
        """The batch system answers nobody meanwhile."""

    @cases("found", "options", "exit_code", "failing")
    def test_doctor_of_a_cluster(
        self, tmp_path: Path, options: str, exit_code: int, failing: Collection[str]
    ) -> None:
        result = self.doctor(tmp_path, options)
        assert result.exit_code == exit_code, result.output
        found = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
        assert {name for name, check in found.items() if check["state"] == "fail"} == {*failing}
        if not failing:
            assert "reached each other" in found["test job"]["evidence"]
            assert found["memory"]["state"] == "ok"
            assert "hypervisor" in found
        assert [path.name for path in tmp_path.iterdir()] == ["systems.yaml"]

    def test_a_batch_system_that_does_not_answer_is_all_that_is_said(self, tmp_path: Path) -> None:
        with self.down():
            result = self.doctor(tmp_path)
        assert result.exit_code == 5, result.output
        (failing,) = (check for check in json.loads(result.stdout)["checks"] if check["state"] == "fail")
        assert re.fullmatch(r"\w+ does not respond: \w+: no answer within 1 s", failing["evidence"])

    def doctor(self, directory: Path, options: str = "") -> Result:
        """What the command says of a system with these options, whose runs would be in the directory."""
        systems = directory / "systems.yaml"
        systems.write_text(f"cluster: {{launcher: {self.launcher_name}{options}}}\n")
        asked = ["doctor", "cluster", "--systems", str(systems), "--runs", str(directory), "--json"]
        return CliRunner().invoke(assay, asked)
