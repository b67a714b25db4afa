"""Commands that a server answers from its own runs, for `assay --server URL COMMAND …`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from assay.cli.commands import COMMANDS
from assay.cli.options import LocalOption
from assay.errors import CODES_OF_ANSWERS, EXIT_ENVIRONMENT, InputError

# each only reads, and is answered from the runs directory
ANSWERED = (
    "compare", "diff", "explain", "gate", "goodput", "history", "scale", "show", "watch",
)  # fmt: skip
LONGEST_S = 120.0
PATH = "/api/v1/command"
_SECRETS = ("ASSAY_TOKENS", "ASSAY_TOKEN")


@dataclass(frozen=True)
class CommandAnswer:
    """What a command printed, and its exit code."""

    exit_code: int
    output: str
    error: str


def refusal(arguments: Sequence[str]) -> str:
    """Why a server does not answer this command; "" if it does. Nothing is run."""
    name = arguments[0] if arguments else ""
    if name not in ANSWERED:
        return f"{name or 'this'} works only where the runs are; a server answers {', '.join(ANSWERED)}"
    command = COMMANDS[name]
    if isinstance(command, click.Group):
        return f"{name} has parts, which a server does not answer"
    if {"-h", "--help"} & set(arguments):
        return "ask for help without --server"
    try:
        context = command.make_context(name, list(arguments[1:]))
    except click.BadParameter as error:  # for a file: the same answer whether the server has it or not
        return _names_what_is_here(error.param) or error.format_message()
    except click.ClickException as error:
        return error.format_message()
    for parameter in command.params:
        is_given = context.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT
        if is_given and (why := _names_what_is_here(parameter)):
            return why
    return ""


def _names_what_is_here(parameter: click.Parameter | None) -> str:
    is_file = parameter is not None and isinstance(parameter.type, click.Path | click.File)
    if parameter is None or not (is_file or isinstance(parameter, LocalOption)):
        return ""
    what = "a file" if is_file else "what is here"
    return f"{parameter.opts[0]} names {what}, which is not on the server: omit it, or omit --server"


def answer(arguments: Sequence[str], columns: int, is_colored: bool, runs: Path) -> CommandAnswer:
    """A command answered from these runs, in its own process. Raises InputError if it is refused."""
    if why := refusal(arguments):
        raise InputError(why)
    environment = {
        name: value for name, value in os.environ.items() if name not in (*_SECRETS, "ASSAY_SERVER")
    }
    environment |= {"COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
    environment |= {"FORCE_COLOR": "1"} if is_colored else {"NO_COLOR": "1"}
    place = runs.absolute()  # named from its parent: messages say nothing of where it is on this machine
    own = ["--runs", place.name] if _takes_runs(arguments[0]) else []  # first: a `--` may follow
    line = [sys.executable, "-P", "-m", "assay", arguments[0], *own, *arguments[1:]]
    try:
        done = subprocess.run(
            line,
            cwd=place.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CommandAnswer(5, "", f"assay: this took longer than {LONGEST_S:.0f} s on the server\n")
    output, error = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode not in CODES_OF_ANSWERS:  # killed, for want of memory for one
        why = f"assay: the server's process ended with {done.returncode}\n"
        return CommandAnswer(EXIT_ENVIRONMENT, output, error + why)
    return CommandAnswer(done.returncode, output, error)


def forward(server: str, token_file: Path | None, ca_file: Path | None, arguments: Sequence[str]) -> NoReturn:
    """Ask a server, print what it answers, and exit with its code."""
    from assay.cli.redacting_stream import echo_colored
    from assay.remote import AssayServer, NotAssayError, token_of

    if why := refusal(arguments):
        raise click.UsageError(why)
    query: dict[str, Any] = {"word": list(arguments), "columns": shutil.get_terminal_size().columns}
    query |= {"color": "true"} if sys.stdout.isatty() and "NO_COLOR" not in os.environ else {}
    client = AssayServer(server, token_of(token_file), ca_file)
    reply = client.record(CommandAnswer, client.ask("GET", PATH, query))
    if reply.exit_code not in CODES_OF_ANSWERS:
        raise NotAssayError(server, f"it has the exit code {reply.exit_code}")
    echo_colored(reply.output, sys.stdout)
    echo_colored(reply.error, sys.stderr)
    sys.stdout.flush()
    sys.exit(reply.exit_code)


def _takes_runs(name: str) -> bool:
    return any(parameter.name == "runs_dir" for parameter in COMMANDS[name].params)
