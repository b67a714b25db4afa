"""A command that another package adds: listed without being imported, called, and one that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.cli import assay
from plugin_packages import STATED, install, used

NAMED = "plug-in assay-oven 1.0 (assay.commands: bake = oven_command:bake)"
BAKE = f"""{STATED}
import click

from assay.plugins import InputError


@click.command()
@click.argument("dish")
@click.option("--loudly", is_flag=True)
def bake(dish: str, loudly: bool) -> None:
    \"\"\"Bake a dish.\"\"\"
    if dish == "stone":
        raise InputError("stone: can't be baked; name a dish")
    if dish == "glass":
        raise ValueError("it broke")
    if dish == "rare":
        raise SystemExit(3)
    click.echo(dish.upper() if loudly else dish)
"""


def install_command(place: Path, text: str = BAKE, package: str = "assay-oven", name: str = "bake") -> None:
    module = f"{package.replace('-', '_')[6:]}_command"
    entries = {"assay.commands": {name: f"{module}:bake"}}
    install(place, package, entries, {f"{module}.py": text}, about="Everything about ovens")


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, [*words])


def assay_of(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a person calls it."""
    program = "from assay.cli import main; main()"
    env = {**os.environ, "PYTHONPATH": str(place)}
    return subprocess.run([sys.executable, "-c", program, *words], env=env, capture_output=True, text=True)


QUESTION = f"""{STATED}
from assay.plugins import Answer, Lead, Question, argument, question


class Baked(Answer):
    def view(self):
        yield Lead("It is done.")

    def document(self):
        return {{"schema": "oven.bake/1"}}


@question
class Bake(Question):
    \"\"\"Bake a dish.\"\"\"

    dish: str = argument()

    def answer(self):
        return Baked()


bake = Bake
"""


def test_a_question_is_a_command_with_all_its_forms(tmp_path: Path) -> None:
    install_command(tmp_path, QUESTION)
    with used(tmp_path):
        assert run("bake", "cake").output.strip() == "It is done."
        assert json.loads(run("bake", "cake", "--json").output) == {"schema": "oven.bake/1"}
        assert "Missing argument 'DISH'" in run("bake").output


def test_it_is_listed_with_its_package_and_not_imported(tmp_path: Path) -> None:
    install_command(tmp_path, "raise SystemExit('imported')")
    with used(tmp_path):
        listed = run("--help").output.splitlines()
    assert listed[-1].split(maxsplit=1) == ["bake", "Everything about ovens (assay-oven 1.0)"]


def test_it_is_called_with_its_options_and_its_help(tmp_path: Path) -> None:
    install_command(tmp_path)
    with used(tmp_path):
        assert run("bake", "bread", "--loudly").output == "BREAD\n"
        assert "Usage: assay bake [OPTIONS] DISH\n\n  Bake a dish." in run("bake", "--help").output
        assert "did you mean bake?" in run("bakes").output


def test_its_answers_are_those_of_any_command(tmp_path: Path) -> None:
    install_command(tmp_path)
    done = assay_of(tmp_path, "bake", "stone")
    assert (done.returncode, done.stderr) == (4, "assay: stone: can't be baked; name a dish\n")
    assert assay_of(tmp_path, "bake", "rare").returncode == 3
    done = assay_of(tmp_path, "bake")
    assert done.returncode == 2
    assert "Missing argument 'DISH'" in done.stderr


def test_what_it_raises_otherwise_is_an_error_that_names_it(tmp_path: Path) -> None:
    install_command(tmp_path)
    done = assay_of(tmp_path, "bake", "glass")
    assert done.returncode == 5
    where = tmp_path / "oven_command.py"
    assert done.stderr == f"assay: {NAMED}: ValueError: it broke ({where}:16)\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import of_nobody", "can't be imported: ModuleNotFoundError: No module named 'of_nobody'"),
        (
            f"{STATED}bake = print",
            "oven_command:bake is a builtin_function_or_method; expected a click command or a Question",
        ),
        (
            BAKE.replace("INTERFACE = 1", "INTERFACE = 7"),
            "is written for interface 7; this Assay has interface 1",
        ),
    ],
)
def test_one_that_cannot_be_used_is_named_and_leaves_the_others(tmp_path: Path, text: str, why: str) -> None:
    install_command(tmp_path, text)
    done = assay_of(tmp_path, "bake", "bread")
    assert done.returncode == 5
    assert done.stderr.startswith(f"assay: {NAMED}: {why}")
    assert assay_of(tmp_path, "--help").returncode == 0
    assert assay_of(tmp_path, "explain", "drift").returncode == 0


def test_one_that_cannot_be_used_does_not_end_the_completion_of_others(tmp_path: Path) -> None:
    install_command(tmp_path, "1 / 0")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "_ASSAY_COMPLETE": "bash_complete"}
    env |= {"COMP_WORDS": "assay ex", "COMP_CWORD": "1"}
    program = "from assay.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["plain,explain", "plain,export"]


def test_a_command_of_assays_own_is_not_replaced(tmp_path: Path) -> None:
    install_command(tmp_path, name="explain")
    with used(tmp_path):
        assert "Explain what the doubt CODE means" in run("explain", "--help").output
        assert run("--help").output.count(" explain ") == 1


def test_two_packages_with_one_command_are_both_named(tmp_path: Path) -> None:
    install_command(tmp_path)
    install_command(tmp_path, package="assay-pan")
    done = assay_of(tmp_path, "bake", "bread")
    assert done.stderr == (
        f"assay: {NAMED} and plug-in assay-pan 1.0 (assay.commands: bake = pan_command:bake): "
        "they have the same name, so none of them is used\n"
    )
    assert assay_of(tmp_path, "--help").stdout.count(" bake ") == 1
