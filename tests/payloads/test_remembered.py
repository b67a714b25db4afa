"""What is known of an interpreter is used again only while nothing has changed that it depends on."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay_payloads.probing import interpreter
from assay_payloads.probing.remembered import RememberedAnswers


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The interpreters that were started, in order."""
    started: list[str] = []
    ask = interpreter.ask

    def counted(python: str) -> Callable[[], tuple[dict[str, str], list[str]]]:
        started.append(python)
        return ask(python)

    monkeypatch.setattr(interpreter, "ask", counted)
    return started


@pytest.fixture
def answers() -> Iterator[RememberedAnswers]:
    with closing(RememberedAnswers()) as made:
        yield made


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The interpreter of an environment of its own."""
    venv.create(tmp_path / "env", symlinks=True)
    return str(tmp_path / "env/bin/python")


def packages(python: str) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(Path(python).parents[1])}))


def install(python: str, name: str, *, build: str = "") -> None:
    """The metadata of a package, as an installer writes it."""
    folder = packages(python) / f"{name}-1.0.dist-info"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n{build}")


def twice(answers: RememberedAnswers, python: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What two probes get, of which the second was forked after the first had ended."""
    found = []
    for _ in range(2):
        answers.take_in()
        found.append(dict(answers.ask(python)()))
    return found[0], found[1]


def test_the_same_interpreter_is_started_once(
    answers: RememberedAnswers, python: str, starts: list[str]
) -> None:
    install(python, "one")
    first, second = twice(answers, python)
    assert first == second
    assert first["python.executable"] == python
    assert first["package.one"] == "1.0"
    assert starts == [python]


def test_who_forks_no_probes_asks_each_time(
    answers: RememberedAnswers, python: str, starts: list[str]
) -> None:
    assert dict(answers.ask(python)()) == dict(answers.ask(python)())
    assert starts == [python] * 2


def test_the_port_and_token_of_a_trial_change_nothing(
    answers: RememberedAnswers, python: str, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in ("1", "2"):
        for name in ("ASSAY_SEED", "ASSAY_TOKEN", "MASTER_PORT"):
            monkeypatch.setenv(name, number)
        answers.take_in()
        dict(answers.ask(python)())
    assert starts == [python]


def another_variable(_python: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PYTHONPATH", str(folder))


def another_directory_of_a_relative_path(_python: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)


def a_path_file(python: str, folder: Path, _patch: pytest.MonkeyPatch) -> None:
    (packages(python) / "more.pth").write_text(f"{folder}\n")


def a_path_file_of_equal_size(python: str, _folder: Path, _patch: pytest.MonkeyPatch) -> None:
    file = packages(python) / "there.pth"
    was = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


def settings_of_the_environment(python: str, _folder: Path, _patch: pytest.MonkeyPatch) -> None:
    file = Path(python).parents[1] / "pyvenv.cfg"
    file.write_text(file.read_text().replace("false", "true"))


def a_package(python: str, _folder: Path, _patch: pytest.MonkeyPatch) -> None:
    install(python, "two")


def another_build_of_a_package(python: str, _folder: Path, _patch: pytest.MonkeyPatch) -> None:
    install(python, "one", build="Build: 2\n")


def a_package_of_conda(python: str, _folder: Path, _patch: pytest.MonkeyPatch) -> None:
    (Path(python).parents[1] / "conda-meta/more-1-0.json").write_text("{}")


def another_interpreter(python: str, _folder: Path, _patch: pytest.MonkeyPatch) -> None:
    Path(python).unlink()
    Path(python).symlink_to(Path(sys.executable).resolve())
    (Path(python).parent / "python3").touch()


@pytest.mark.parametrize(
    "change",
    [
        another_variable,
        another_directory_of_a_relative_path,
        a_path_file,
        a_path_file_of_equal_size,
        settings_of_the_environment,
        a_package,
        another_build_of_a_package,
        a_package_of_conda,
        another_interpreter,
    ],
)
def test_what_changed_in_between_is_seen(
    change: Callable[[str, Path, pytest.MonkeyPatch], None],
    answers: RememberedAnswers,
    python: str,
    starts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (packages(python) / "there.pth").write_text("/nowhere\n")
    install(python, "one")
    (tmp_path / "folder").mkdir()
    (Path(python).parents[1] / "conda-meta").mkdir()
    if change is another_directory_of_a_relative_path:
        monkeypatch.setenv("PYTHONPATH", "modules")
    twice(answers, python)
    change(python, tmp_path / "folder", monkeypatch)
    answers.take_in()
    dict(answers.ask(python)())
    assert starts == [python] * 2


def test_a_job_s_own_directory_is_no_reason_to_ask_again(
    answers: RememberedAnswers,
    python: str,
    starts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        answers.take_in()
        dict(answers.ask(python)())
    assert starts == [python]


def test_an_interpreter_that_another_program_starts_is_asked_each_time(
    answers: RememberedAnswers, python: str, starts: list[str], tmp_path: Path
) -> None:
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    shim.chmod(0o755)
    first, second = twice(answers, str(shim))
    assert first == second
    assert starts == [str(shim)] * 2


def test_an_interpreter_that_is_gone_is_an_error_even_if_it_was_known(
    answers: RememberedAnswers, python: str
) -> None:
    twice(answers, python)
    Path(python).unlink()
    answers.take_in()
    with pytest.raises(FileNotFoundError):
        dict(answers.ask(python)())
