"""The command line: one file a command group, loaded when it is called, each command a few lines.

The one place that catches `AssayError` and turns it into a message and an exit code.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn, TextIO, cast

import click

from assay import __version__
from assay.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_READER_GONE, AssayError, ReaderGoneError

NARROWEST = 40  # columns that tables are laid out for, whatever the terminal says

# command → (module in this package, one line for --help); the module is imported only when it is called,
# so that `assay --help` stays quick
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a starter suite for this machine."),
    "doctor": ("doctor", "Say what is missing here, and the command that fixes it."),
    "clean": ("clean", "Find and remove what killed or abandoned runs left."),
    "cluster": ("cluster", "Grant what runs on Kubernetes or OpenShift need, and no more."),
    "plan": ("plan", "Show the trials of a suite and exactly what each would send."),
    "run": ("run", "Run a suite, live; run it again to go on."),
    "sweep": ("sweep", "Find the slow nodes of a system, and the slow links between them."),
    "import": ("import_", "Take in logs and runs that others made."),
    "score": ("score", "Score MLPerf training logs by the rules of their round."),
    "submit": ("submit", "Compose a submission to MLPerf training from runs, and check it."),
    "list": ("list_", "List runs and imported sets."),
    "show": ("show", "Show one run: numbers, spread, doubts, provenance."),
    "diff": ("diff", "Show what differs between two runs' machines and software."),
    "compare": ("compare", "Say whether B is as fast as A, with an interval and a verdict."),
    "gate": ("gate", "Say by exit code whether A is no worse than its baseline, for CI."),
    "history": ("history", "Show a metric over sessions, and where it stepped."),
    "scale": ("scale", "Show throughput, speed-up and efficiency over worker counts."),
    "stack": ("stack", "Put together the software that a workload needs, as a container file."),
    "explain": ("explain", "Say what a doubt means and what to do about it."),
    "report": ("report", "Make one page that can be sent to someone."),
    "export": ("export", "Write measurements as CSV, Parquet or JSON."),
    "index": ("index", "Rebuild the index of run directories."),
    "schema": ("schema", "Print the JSON Schema of suite.yaml or systems.yaml."),
}


class LazyGroup(click.Group):
    """Commands by name, imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself, or None where there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"assay.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; the nearest one is proposed where there is none."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "`assay --help` lists them."
            ctx.fail(f"No such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="assay")
@click.pass_context
def assay(context: click.Context) -> None:
    """Is this cluster as fast as it should be, how far does it scale, and where is the time lost.

    \b
    A first run:
      assay doctor                 is this machine ready
      assay init                   a starter suite
      assay run suite.yaml         run it, live
      assay compare A B            the verdict

    \b
    Exit codes: 0 fine; 1 the answer is no (a trial failed, a requirement does not hold);
    2 wrong usage; 3 undecided; 4 input can't be used; 5 this machine can't do it; 6 busy;
    130 interrupted; 141 whatever reads the output has gone, as after `| head`.
    """
    from assay.cli.messages import messages

    context.with_resource(messages())


def main() -> NoReturn:
    """Entry point: run a command, print an error as its message, exit with its code.

    Whatever it prints loses its secrets on the way: those on the command line, in the user's files, and those
    that have the shape of one.
    """
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started this
        nowhere = Path(os.devnull).open("w")  # noqa: SIM115  (as long as this process)
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if isinstance(sys.stdout, TextIOWrapper):  # standard error escapes what its encoding lacks
        sys.stdout.reconfigure(errors="replace")
    if any(word in COMMANDS for word in sys.argv[1:]):  # the list of commands holds no secret, and is quick
        _hide_secrets()
    if 0 < (columns := _columns()) < NARROWEST:
        os.environ["COLUMNS"] = str(NARROWEST)
    elif not columns:  # the terminal tells how wide it is
        os.environ.pop("COLUMNS", None)
    code: object = EXIT_READER_GONE
    try:
        try:
            code = assay.main(prog_name="assay", standalone_mode=False)
        except SystemExit as left:  # with the answer's code
            code = left.code
        sys.stdout.flush()
    except AssayError as error:
        click.echo(f"assay: {error}", err=True)
        _leave(error.exit_code)
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.MissingParameter) and (example := _example(error.ctx)):
            click.echo(f"Example: {example}", err=True)
        _leave(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("assay: interrupted", err=True)
        _leave(EXIT_INTERRUPTED)
    except ReaderGoneError:
        pass
    _leave(code if isinstance(code, int) else EXIT_OK)


def _columns() -> int:
    """What $COLUMNS says; 0 where it says nothing."""
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() else 0


def _hide_secrets() -> None:
    from assay import redact
    from assay.cli.redacting_stream import RedactingStream

    redact.learn(sys.argv[1:])
    sys.stdout = cast(TextIO, RedactingStream(sys.stdout))
    sys.stderr = cast(TextIO, RedactingStream(sys.stderr))


def _example(context: click.Context | None) -> str:
    """The first example in the help of the command that was called; "" if there is none."""
    if context is None:
        return ""
    lines = map(str.strip, (context.command.help or "").splitlines())
    return next((line for line in lines if line.startswith(f"{context.command_path} ")), "")


def _leave(code: int) -> NoReturn:
    """Exit; a Ctrl-C that comes while the interpreter shuts down changes nothing of how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except (AssayError, ReaderGoneError):  # said already; the interpreter would try once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
