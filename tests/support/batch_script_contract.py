"""What holds for every batch system, without one: the script that is sent, options, what answers mean."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from assay import launch, shell
from assay.launch.batch.job_state import QueueAnswer, unreported_status
from assay.launch.batch.launcher import BatchLauncher
from assay.launch.batch.queue import Queue, QueuedJob, QueueSilentError
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.records import Job, JobState, Shape
from assay.testing.launchers import job, python
from conftest import GOLDEN, ROOT
from listed_cases import ListedCases, cases

Options = Mapping[str, object]
Prints = Mapping[str, tuple[int, str, str]]
"""What each command of a batch system prints: its exit code, standard output and standard error."""
TOKEN = "0123456789abcdef0123456789abcdef"
REFUSED_BY_ALL: Sequence[tuple[Options, str]] = (
    ({"before": ["module load a\nrm -rf /"]}, "one line"),
    ({"before": [" "]}, "one line"),
    ({"directory": "relative"}, "absolute"),
    ({"cpus_per_rank": 0}, "greater than or equal to 1"),
    ({"env": {"RANK": "1"}}, "the launcher sets"),
    ({"mem": "64 G"}, "not a value"),
    ({"partitoin": "x"}, "Extra inputs"),
)


def wide(shape: str) -> Job:
    return replace(job(python("print(1)"), trial_id="training-2x8-größe r01"), shape=Shape.parse(shape))


class BatchScriptContract(ListedCases):
    """Inherit it, name the launcher and list the cases.

    launcher_name  as systems.yaml has it
    queue          the batch system
    goldens        file in tests/golden, shape, options
    shapes         placement, shape, options, and the lines of the script that follow from them
    time_limit     the script's line for a trial of 61 s, with 2.5 minutes to start and to end
    refused        options that can't be sent, and what is said of them, beside REFUSED_BY_ALL
    answers        what commands print, and what the batch system then says of job 7 with TOKEN
    silences       what commands print from which nothing follows
    ends           the last word of the batch system, the state that follows, and words of its cause
    failed_node    as it is named where one is down
    """

    launcher_name: ClassVar[str]
    queue: ClassVar[Queue]
    goldens: ClassVar[Sequence[tuple[str, str, Options]]]
    shapes: ClassVar[Sequence[tuple[str, str, Options, Sequence[str]]]]
    time_limit: ClassVar[str]
    refused: ClassVar[Sequence[tuple[Options, str]]]
    answers: ClassVar[Sequence[tuple[Prints, QueuedJob | None]]]
    silences: ClassVar[Sequence[tuple[Prints]]]
    ends: ClassVar[Sequence[tuple[QueuedJob | None, JobState, str]]]
    failed_node: ClassVar[str]

    def launcher(self, spool: Path, options: Options) -> BatchLauncher[Any]:
        system = launch.SYSTEM_MODELS[self.launcher_name].model_validate(options)
        launcher = launch.make(self.launcher_name, system, spool=spool)
        assert isinstance(launcher, BatchLauncher)
        return launcher

    @pytest.fixture
    def prints(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Prints], None]:
        """Sets what each command prints; one that is not named is not installed."""

        def fake(commands: Prints) -> None:
            def run(argv: tuple[str, ...], **_: object) -> shell.CompletedCommand:
                if argv[0] not in commands:
                    raise shell.ProgramMissingError(f"{argv[0]}: No such file or directory")
                return shell.CompletedCommand(argv, *commands[argv[0]], 0.0)

            monkeypatch.setattr(shell, "run", run)

        return fake

    # What is sent

    @cases("goldens", "golden", "shape", "options")
    def test_the_script_is_what_it_was_byte_for_byte(
        self, tmp_path: Path, golden: str, shape: str, options: Options
    ) -> None:
        script = self.launcher(tmp_path, options).render(wide(shape)).command.partition("\n\n#")[0] + "\n"
        assert script == (GOLDEN / golden).read_text()
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr

    @cases("shapes", "placement", "shape", "options", "lines")
    def test_the_shape_says_how_much_is_asked_for_and_how_much_of_it_on_each_node(
        self, tmp_path: Path, placement: str, shape: str, options: Options, lines: Sequence[str]
    ) -> None:
        launcher = self.launcher(tmp_path, {"placement": placement, "cpus_per_rank": 3, **options})
        script = launcher.script(wide(shape), "assay-x").splitlines()
        assert [line for line in lines if line not in script] == []

    def test_the_batch_systems_time_limit_leaves_room_for_the_trials_own(self, tmp_path: Path) -> None:
        launcher = self.launcher(tmp_path, {"startup": "2min", "grace": 30})
        script = launcher.script(replace(job(python("")), timeout_s=61), "assay-x")
        assert self.time_limit in script.splitlines()

    @cases("refused", "options", "said")
    def test_options_that_can_not_be_sent_are_refused(self, options: Options, said: str) -> None:
        with pytest.raises(ValidationError, match=said):
            launch.SYSTEM_MODELS[self.launcher_name].model_validate(options)

    @pytest.mark.parametrize(("options", "said"), REFUSED_BY_ALL)
    def test_options_that_no_batch_system_can_be_sent_are_refused(self, options: Options, said: str) -> None:
        self.test_options_that_can_not_be_sent_are_refused(options, said)

    def test_every_option_is_in_the_document(self) -> None:
        page = (ROOT / "docs" / "how-to" / "launchers" / f"{self.launcher_name}.md").read_text()
        options = launch.SYSTEM_MODELS[self.launcher_name].model_fields
        assert [name for name in options if f"`{name}`" not in page] == []

    # What its commands say

    @cases("answers", "commands", "found")
    def test_the_first_command_that_knows_the_job_tells(
        self, prints: Callable[[Prints], None], commands: Prints, found: QueuedJob | None
    ) -> None:
        prints(commands)
        assert self.queue.ask(7, TOKEN) == found

    @cases("silences", "commands")
    def test_no_answer_is_not_taken_for_a_job_that_is_gone(
        self, prints: Callable[[Prints], None], commands: Prints
    ) -> None:
        prints(commands)
        with pytest.raises(QueueSilentError, match=self.queue.called):
            self.queue.ask(7, TOKEN)

    # What an end without the keepers' word means

    @cases("ends", "told", "state", "words")
    def test_each_end_that_it_tells_has_its_cause(
        self, tmp_path: Path, told: QueuedJob | None, state: JobState, words: str
    ) -> None:
        (tmp_path / "spec.json").write_text('{"nodes": 1}')
        answer = QueueAnswer(0.0, False, told)
        status = unreported_status(
            SharedJobDirectory(tmp_path), answer, [self.failed_node], self.queue.called
        )
        assert status.state is state, status
        assert words in status.cause
