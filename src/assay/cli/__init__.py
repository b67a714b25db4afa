"""The command line: one file per command group, loaded on demand, each command a few lines.

This is the only place that catches `AssayError` and turns it into a message and an exit code.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import click
from click.core import ParameterSource

from assay.cli.commands import COMMANDS, RENAMED, about
from assay.cli.one_blas_thread import install as install_one_blas_thread
from assay.errors import (
    EXIT_ENVIRONMENT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_READER_GONE,
    NO_TEMPORARY_DIRECTORY,
    AssayError,
    HostError,
    PluginError,
    ReaderGoneError,
    machine_advice,
)
from assay.version import __version__

COLLECT_EVERY = 100_000  # new containers; Python's 700 makes the collector scan all imports again and again
_OUT_OF_MEMORY = "out of memory: this machine, or `ulimit -v`, allows too little"
_NO_TEMPORARY = "No usable temporary directory"  # the words of tempfile.gettempdir
_MISSING = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
NARROWEST = 40  # minimum number of columns for tables, whatever the terminal reports


class LazyGroup(click.Group):
    """The commands of `assay`, imported on demand, of which a server answers some."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which users typically need them."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; None if there is no command with this name."""
        try:
            return COMMANDS.get(cmd_name)
        except PluginError:
            if ctx.resilient_parsing:  # the shell completes another word
                return None
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; for an unknown one, an error with the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            near = [RENAMED[args[0]]] if args[0] in RENAMED else near
            hint = f"did you mean {near[0]}?" if near else "`assay --help` lists them."
            ctx.fail(f"No such command {args[0]!r}; {hint}")
        if ctx.params.get("server") and args and not {"-h", "--help"} & set(args):
            from assay.cli.remote_commands import ANSWERED

            # $ASSAY_SERVER is for the commands that a server answers; the others work here
            if args[0] in ANSWERED or ctx.get_parameter_source("server") is ParameterSource.COMMANDLINE:
                return args[0], _CommandElsewhere(ctx.params, args, self.get_command(ctx, args[0])), []
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([*about().items()])


class _CommandElsewhere(click.Command):
    """A command that asks the server instead of running here; its usage is that of the command here."""

    def __init__(
        self, options: Mapping[str, Any], arguments: Sequence[str], command: click.Command | None
    ) -> None:
        super().__init__(arguments[0], callback=self._forward)
        self._options, self._words, self._command = options, arguments, command

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Options and arguments, for the usage line of an error."""
        own = super().collect_usage_pieces(ctx)
        return own if self._command is None else self._command.collect_usage_pieces(ctx)

    def _forward(self) -> None:
        from assay.cli.remote_commands import forward

        options = self._options
        forward(options["server"], options["token_file"], options["ca_file"], self._words)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="assay")
@click.option(
    "--server",
    metavar="URL",
    envvar="ASSAY_SERVER",
    help="Ask this server's runs instead: compare, show, history, gate and others that only read.",
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="For --server: your token. [default: $ASSAY_TOKEN]"
)
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="For --server: certificates that vouch for it."
)
@click.pass_context
def assay(context: click.Context, /, **_server: object) -> None:
    """Is this cluster as fast as it should be, how far does it scale, and where is time lost?

    \b
    First steps:
      assay demo                   three verdicts on this machine
      assay try 'COMMAND {a,b}'    which of two commands is faster?
      assay doctor                 is this machine ready?
      assay init                   write a starter suite
      assay run suite.yaml         run it and show progress
      assay compare A B            get the verdict

    \b
    Exit codes: 0 success; 1 the answer is no (a trial failed, a requirement does not hold);
    2 usage error; 3 undecided; 4 unusable input; 5 this machine can't do it; 6 busy;
    130 interrupted; 141 the reader of the output is gone, as after `| head`.
    """
    from assay.cli.messages import messages

    context.with_resource(messages())


def main() -> NoReturn:
    """Entry point: run a command, print an error as its message, exit with its code.

    Secrets are removed from everything it prints: those on the command line, those in the user's files, and
    anything that looks like one.
    """
    gc.set_threshold(COLLECT_EVERY)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, as some daemons leave it, exit codes are lost
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        nowhere = Path(os.devnull).open("w")  # noqa: SIM115  (open for the life of this process)
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if isinstance(sys.stdout, TextIOWrapper):  # standard error escapes what its encoding lacks
        sys.stdout.reconfigure(errors="replace")
    if 0 < (columns := _columns()) < NARROWEST:
        os.environ["COLUMNS"] = str(NARROWEST)
    elif not columns:  # the terminal reports its width
        os.environ.pop("COLUMNS", None)
    code: object = EXIT_READER_GONE
    try:
        code = _answer()
        sys.stdout.flush()
    except AssayError as error:
        click.echo(f"assay: {error}", err=True)
        _leave(error.exit_code)
    except click.ClickException as error:
        error.show()
        unfit = isinstance(error, click.MissingParameter) or isinstance(error.__cause__, ValueError)
        if unfit and isinstance(error, click.UsageError) and (example := _example(error.ctx)):
            click.echo(f"Example: {example}", err=True)
        _leave(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("assay: interrupted", err=True)
        _leave(EXIT_INTERRUPTED)
    except ReaderGoneError:
        pass
    except OSError as error:  # of the machine: what is missing or of another kind would be a bug
        if error.errno is None or isinstance(error, _MISSING):
            raise
        click.echo(f"assay: {_machine_trouble(error)}", err=True)
        _leave(EXIT_ENVIRONMENT)
    _leave(code if isinstance(code, int) else EXIT_OK)


def _answer() -> object:
    """Run the command; returns its exit code.

    Raises HostError if it runs out of memory, processes, or places for temporary files.
    """
    if any(word in COMMANDS for word in sys.argv[1:]):  # the list of commands has no secrets and must be fast
        _hide_secrets()
        install_one_blas_thread()
    try:
        return assay.main(prog_name="assay", standalone_mode=False)
    except SystemExit as left:  # with the answer's code
        return left.code
    except MemoryError:
        raise HostError(_OUT_OF_MEMORY) from None
    except SystemError as error:  # Python's, where there was no memory even for a MemoryError
        if "without exception set" not in str(error):
            raise
        raise HostError(_OUT_OF_MEMORY) from None
    except RuntimeError as error:  # threading's only one for this
        if "can't start new thread" not in str(error):
            raise
        raise HostError(_no_more_processes()) from None
    except FileNotFoundError as error:
        if _NO_TEMPORARY not in str(error):
            raise
        raise HostError(NO_TEMPORARY_DIRECTORY) from None
    except ImportError as error:  # a library that can't be mapped
        if "map segment" not in str(error) and "allocate memory" not in str(error):
            raise
        raise HostError(_OUT_OF_MEMORY) from None


def _machine_trouble(error: OSError) -> str:
    if error.filename is not None:
        return f"{error.filename}: can't be used: {error.strerror}; {machine_advice(error)}"
    if error.errno == errno.EAGAIN:  # of `fork`: no file of this process is non-blocking
        return _no_more_processes()
    return f"{error.strerror}; {machine_advice(error)}"


def _no_more_processes() -> str:
    from assay_payloads.keeping.cgroups import process_limit
    from assay_payloads.keeping.file_tree import FileTree

    limit = process_limit(FileTree())
    named = "`ulimit -u`" if limit is None else f"pids.max {limit}, or `ulimit -u`"
    return (
        f"this machine or its container allows no more processes or threads ({named}); raise the "
        "limit, or end other programs, then run the same command again"
    )


def _columns() -> int:
    """The value of $COLUMNS; 0 if it is not set."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() else 0


def _hide_secrets() -> None:
    from assay import redact
    from assay.cli.redacting_stream import RedactingStream

    redact.learn(sys.argv[1:])
    sys.stdout = cast(TextIO, RedactingStream(sys.stdout))
    sys.stderr = cast(TextIO, RedactingStream(sys.stderr))


def _example(context: click.Context | None) -> str:
    """The first example in the help of the current command; "" if there is none."""
    if context is None:
        return ""
    lines = map(str.strip, (context.command.help or "").splitlines())
    return next((line for line in lines if line.startswith(f"{context.command_path} ")), "")


def _leave(code: int) -> NoReturn:
    """Exit; Ctrl-C during the interpreter's shutdown does not change the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "torch" not in sys.modules:  # its libraries (nanobind) would print every frozen object as leaked
        gc.freeze()  # the shutdown would look at every object of every import, which takes 80 ms
    try:
        sys.stdout.flush()
    except (AssayError, ReaderGoneError):  # already reported; the interpreter would try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
