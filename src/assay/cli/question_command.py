"""The command of a question, made from its fields."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

import click

from assay.cli.options import JSON, RUNS, LocalOption, echo_json, echo_json_line
from assay.cli.redacting_stream import write_bytes
from assay.errors import EXIT_OK
from assay.questions.question import Answer, Question, Reads, alternatives, reads_of
from assay.view.blocks import Block, Table

if TYPE_CHECKING:
    from rich.live import Live

    from assay.questions.question import Snapshot

Field = dataclasses.Field[Any]
# by what help calls a value that names a file: what a shell completes; the question checks the rest
_PATHS: Final = {
    "FILE": click.Path(),
    "PATH": click.Path(),
    "DIRECTORY": click.Path(file_okay=False),
}


def command_of(question: type[Question]) -> click.Command:
    """The command: asks, prints the answer as text or JSON, and exits with its code."""
    hints = get_type_hints(question, include_extras=True)
    every_field = dataclasses.fields(question)  # type: ignore[arg-type]
    fields = [f for f in every_field if not f.metadata.keys() & {"progress", "supplied"}]
    has_runs = any(field.name == "runs" and not field.metadata["names"] for field in fields)
    parameters = [
        _parameter(field, hints[field.name]) for field in fields if not (has_runs and field.name == "runs")
    ]

    def ask(shows_all: bool = False, as_json: bool = False, runs_dir: Any = None, **options: Any) -> None:
        runs = {"runs": runs_dir} if has_runs else {}
        if as_json and str(options.get("output")) == "-":
            raise click.UsageError("--json prints where the file is: name a file with -o, or omit --json")
        with ExitStack() as held:
            with _supplied(every_field, {**options, "as_json": as_json}) as supplied:
                try:
                    question_ = question(**options, **runs, **supplied)
                except ValueError as error:
                    raise click.UsageError(str(error)) from error
                if snapshots := question_.snapshots(live=sys.stdout.isatty() and not as_json):
                    sys.exit(_show_snapshots(snapshots, as_json=as_json))
                answer = held.enter_context(question_.answering())
            _show(question_, answer, as_json=as_json, every=shows_all)
        sys.exit(answer.exit_code)

    required = [p for p in parameters if isinstance(p, click.Option) and p.required]
    command = click.Command(
        None,
        params=parameters,
        callback=ask,
        help=inspect.cleandoc(question.__doc__ or ""),
        options_metavar=" ".join([*(f"{p.opts[0]} {p.metavar}" for p in required), "[OPTIONS]"]),
    )
    if question.all_help:
        command.params.append(click.Option(["--all", "shows_all"], is_flag=True, help=question.all_help))
    for shared in ([RUNS] if has_runs else []) + ([JSON] if question.has_json else []):
        shared(command)
    return command


def _show_snapshots(snapshots: Iterator[Snapshot], *, as_json: bool) -> int:
    """Show each; returns the exit code of the last."""
    exit_code, screen = EXIT_OK, None
    with ExitStack() as held:
        for snapshot in snapshots:
            exit_code = snapshot.exit_code
            if snapshot.screen:
                from assay.view import terminal

                screen = screen or held.enter_context(_screen(is_whole=snapshot.is_whole))
                screen.update(terminal.shown(snapshot.screen), refresh=True)
            if snapshot.is_last:
                held.close()
            for document in snapshot.data if as_json else ():
                echo_json_line(document)
            for line in () if as_json else snapshot.lines:
                click.echo(line)
            for note in snapshot.notes:
                click.echo(note, err=True)
    return exit_code


def _screen(*, is_whole: bool) -> Live:
    from rich.live import Live

    from assay.cli.console import Console

    console = Console(highlight=False)
    return Live(console=console, auto_refresh=False, screen=is_whole, transient=not is_whole)


def _show(question: Question, answer: Answer, *, as_json: bool, every: bool) -> None:
    written = question.write(answer)
    shown = answer if isinstance(written, bytes) else written
    if as_json:
        echo_json(shown.document())
    elif shown is written or question.explains_file:
        _show_blocks([*shown.view()], beside=shown is not written, every=every)
    if not isinstance(written, bytes):
        for line in written.notes:
            click.echo(line, err=True)
    elif not as_json:
        write_bytes(written)


def _show_blocks(blocks: Sequence[Block], *, beside: bool, every: bool) -> None:
    if len(blocks) == 1 and isinstance(blocks[0], Table) and blocks[0].listing:  # without rich: half the time
        from assay.view.blocks import listed

        for line in listed(blocks[0], shutil.get_terminal_size().columns if sys.stdout.isatty() else None):
            click.echo(line, err=beside)
        return
    from assay.cli.console import Console
    from assay.view import terminal

    terminal.show(Console(highlight=False, stderr=beside), blocks, every=every)


@contextmanager
def _supplied(fields: Sequence[Field], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the command gives the question besides its options, by field: what shows progress, above all."""
    with ExitStack() as shown:
        values: dict[str, Any] = {}
        for field in fields:
            if kind := field.metadata.get("supplied"):
                from assay.cli.supplied import SUPPLIED

                value = SUPPLIED[kind](options)
                is_shown = isinstance(value, AbstractContextManager)
                values[field.name] = shown.enter_context(value) if is_shown else value
        lines = {f.name: f.metadata["progress"] for f in fields if "progress" in f.metadata}
        if lines and sys.stderr.isatty():
            from rich.text import Text

            from assay.cli.console import Console

            status = shown.enter_context(Console(stderr=True).status(""))

            def showing(line: Callable[..., str]) -> Callable[..., None]:
                return lambda *news: status.update(Text(line(*news)))

            values |= {name: showing(line) for name, line in lines.items()}
        yield values


def _parameter(field: Field, hint: Any) -> click.Parameter:
    about, reads = field.metadata, reads_of(hint)
    kinds = [kind for kind in alternatives(hint) if kind is not type(None)]
    tuples = [get_args(kind) for kind in kinds if get_origin(kind) in (tuple, Sequence)]
    together = len(tuples[0]) if tuples and len(tuples[0]) > 1 and ... not in tuples[0] else 1  # one value
    is_many = bool(tuples and together == 1) or bool(reads and reads.several)
    has_default = not is_many and field.default not in (dataclasses.MISSING, None)
    shared: dict[str, Any] = {
        "required": field.default is dataclasses.MISSING,
        "metavar": about["metavar"] or (reads.metavar if reads and not about.get("argument") else None),
        "callback": _reading(reads) if reads else None,
        **({"default": field.default} if has_default else {}),
    }
    if about.get("argument"):
        kind = _PATHS.get(reads.metavar, str) if reads else _type(field, kinds)
        return click.Argument([field.name], type=kind, nargs=-1 if is_many else 1, **shared)
    spelled = [*(about["names"] or (f"--{field.name.replace('_', '-')}",)), field.name]
    if hint is bool:
        return click.Option(spelled, is_flag=True, default=field.default, help=about["help"])
    variable = about["variable"]
    shows_default = has_default and field.default != "" and "[default" not in about["help"]
    return (LocalOption if about["local"] and not about["output"] else click.Option)(
        spelled,
        type=_PATHS.get(reads.metavar, click.UNPROCESSED) if reads else _type(field, kinds),
        multiple=is_many,
        nargs=together,
        envvar=variable or None,
        show_default=f"${variable} or ./{field.default}" if variable else shows_default,
        help=about["help"],
        **shared,
    )


def _type(field: Field, kinds: Sequence[Any]) -> Any:
    """What click knows of the value; None: any text."""
    if field.metadata.get("file"):
        return click.Path(path_type=Path, dir_okay=False, exists=True)
    if field.metadata.get("output") and Path in kinds:
        return click.Path(path_type=Path, dir_okay=False, writable=True, allow_dash=True)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    return click.Choice(choices) if choices else kinds[0] if kinds in ([int], [float]) else None


def _reading(reads: Reads) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is None or not isinstance(value, str | tuple):
            return value
        try:
            if isinstance(value, tuple) and not reads.several:
                return tuple(map(reads.read, value))
            return reads.read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback
