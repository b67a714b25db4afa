"""`assay stack explore` when something goes wrong: indexes, disks, hanging builds, a budget that ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.package_index import Release, serving

from assay import shell
from assay.errors import HostError
from assay.shell import CompletedCommand
from assay.stacks.explore import ExplorationResult, explore
from assay.stacks.storage import failures_dir

SPEC = """\
explore: trouble
requirements: [pace]
vary:
  packages: {pace: VERSIONS}
incumbent: {packages: {pace: "1.0.0"}}
measure:
  workload: command
  params:
    argv: ["{python}", -c, "import pace; print('rate', pace.SPEED)"]
    metrics: {rate: {pattern: 'rate (?P<value>[0-9.]+)', unit: 1/s, better: higher}}
  sample_every: never
search: one-factor
batch: 1
max_repeats: 3
"""
RELEASES = [
    Release("pace", "1.0.0", module="SPEED = 100\n"),
    Release("pace", "1.1.0", module="SPEED = 200\n", wrong_hash=True),
    Release("pace", "1.2.0", module="SPEED = 300\n", yanked="it loses data"),
    Release("pace", "1.3.0", module="SPEED = 400\n"),
]


def spec(folder: Path, versions: str) -> Path:
    path = folder / "spec.yaml"
    path.write_text(SPEC.replace("VERSIONS", versions))
    return path


def run(path: Path, **options: float) -> ExplorationResult:
    return explore(path, runs=path.parent / "runs", **options)  # type: ignore[arg-type]


def test_an_index_that_lies_about_hashes_makes_a_stack_that_does_not_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(RELEASES) as index:
        for name, value in index.environment(tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        found = run(spec(tmp_path, '["1.0.0", "1.1.0"]'))
    (liar,) = found.candidates
    assert liar.failure == "does not install"
    assert "hash" in liar.why.lower()
    assert "1.1.0" in liar.why
    assert not failures_dir(tmp_path / "runs").exists(), "another download may be whole"


@pytest.mark.long
def test_a_range_leaves_out_a_version_that_was_yanked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(RELEASES) as index:
        for name, value in index.environment(tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        found = run(spec(tmp_path, '{range: ">=1.2", step: patch}'))
    assert [one.choice["pace"] for one in found.candidates] == ["1.3.0"]


@pytest.mark.long
def test_an_index_that_does_not_answer_ends_the_command_and_says_nothing_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec(tmp_path, '["1.0.0", "1.3.0"]')
    with serving(RELEASES) as index:
        environment = index.environment(tmp_path / "cache")
    for name, value in {**environment, "UV_HTTP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HostError, match=r"(?s)^error: .*the package index can't be reached: check"):
        run(path)
    assert not list((tmp_path / "runs").rglob("failures/*.json"))
    with serving(RELEASES) as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.url}/simple/")
        found = run(path)
    assert [one.failure for one in found.candidates] == [None]


@pytest.mark.long
def test_a_full_disk_ends_the_command_which_resumes_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = spec(tmp_path, '["1.0.0", "1.3.0"]'), shell.run

    def full(argv: list[str], **options: object) -> CompletedCommand:
        if argv[1:3] == ["pip", "install"] and "1.3.0" in (Path(argv[argv.index("-r") + 1])).read_text():
            words = "error: failed to copy file\n  Caused by: No space left on device (os error 28)"
            return CompletedCommand(tuple(argv), 2, "", words, 0.1)
        return real(argv, **options)  # type: ignore[arg-type]

    with serving(RELEASES) as index:
        for name, value in index.environment(tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as patch:
            patch.setattr(shell, "run", full)
            with pytest.raises(HostError, match=r"the disk is full: .*os error 28.*to resume"):
                run(path)
        assert not list((tmp_path / "runs").rglob("failures/*.json"))
        found = run(path)
    assert [one.choice["pace"] for one in found.candidates] == ["1.3.0"]
    assert found.candidates[0].comparison is not None


@pytest.mark.long
def test_a_budget_of_time_ends_after_the_batch_and_a_larger_one_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec(tmp_path, '["1.0.0", "1.1.0", "1.3.0"]')
    with serving(RELEASES) as index:
        for name, value in index.environment(tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        short = run(path, max_time_s=0.001)
        assert (short.ended, len(short.candidates)) == ("time is up", 1)
        long = run(path, max_time_s=3600)
    assert (long.ended, len(long.candidates)) == ("every stack tried", 2)
    assert long.candidates[-1].choice["pace"] == "1.1.0" or long.candidates[0].choice["pace"] == "1.3.0"


@pytest.mark.long
def test_a_stack_whose_import_hangs_is_ended_after_the_build_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec(tmp_path, '["1.0.0", "2.0.0"]')
    path.write_text(path.read_text() + "build_timeout: 15s\n")
    hanging = Release("pace", "2.0.0", module="import time\ntime.sleep(600)\n")
    with serving([*RELEASES, hanging]) as index:
        for name, value in index.environment(tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        found = run(path)
    (one,) = found.candidates
    assert one.failure == "does not import"
    assert "no answer within 15 s" in one.why
