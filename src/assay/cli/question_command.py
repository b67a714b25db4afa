"""The command of a question, made from its fields."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.cli.redacting_stream import write_bytes
from assay.questions.question import Question, alternatives, reads_of

Field = dataclasses.Field[Any]


def command_of(question: type[Question]) -> click.Command:
    """The command: asks, prints the answer as text or JSON, and exits with its code."""
    hints = get_type_hints(question, include_extras=True)
    fields = [f for f in dataclasses.fields(question) if "progress" not in f.metadata]  # type: ignore[arg-type]
    parameters = [_parameter(field, hints[field.name]) for field in fields if field.name != "runs"]

    def ask(every: bool = False, as_json: bool = False, runs_dir: Any = None, **options: Any) -> None:
        runs = {"runs": runs_dir} if "runs" in hints else {}
        if as_json and str(options.get("output")) == "-":
            raise click.UsageError("--json prints where the file is: name a file with -o, or omit --json")
        with _progress(question) as progress:
            try:
                question_ = question(**options, **runs, **progress)
            except ValueError as error:
                raise click.UsageError(str(error)) from None
            answer = question_.answer()
        written = question_.write(answer)
        if isinstance(written, bytes):
            write_bytes(written)
        elif as_json:
            echo_json(written.document())
        else:
            from assay.cli.console import Console
            from assay.view import terminal

            terminal.show(Console(highlight=False), written.view(), every=every)
        for line in () if isinstance(written, bytes) else written.notes:
            click.echo(line, err=True)
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
        command.params.append(click.Option(["--all", "every"], is_flag=True, help=question.all_help))
    for shared in ([RUNS] if "runs" in hints else []) + ([JSON] if question.has_json else []):
        shared(command)
    return command


@contextmanager
def _progress(question: type[Question]) -> Iterator[dict[str, Callable[..., None]]]:
    """What shows a question's progress, by its field, if standard error is a terminal."""
    fields = dataclasses.fields(question)  # type: ignore[arg-type]
    lines = {f.name: f.metadata["progress"] for f in fields if "progress" in f.metadata}
    if not lines or not sys.stderr.isatty():
        yield {}
        return
    from rich.text import Text

    from assay.cli.console import Console

    with Console(stderr=True).status("") as status:

        def showing(line: Callable[..., str]) -> Callable[..., None]:
            return lambda *news: status.update(Text(line(*news)))

        yield {name: showing(line) for name, line in lines.items()}


def _parameter(field: Field, hint: Any) -> click.Parameter:
    kinds = [kind for kind in alternatives(hint) if kind is not type(None)]
    is_many, required = any(get_origin(kind) is tuple for kind in kinds), field.default is dataclasses.MISSING
    default: dict[str, Any] = {} if required or is_many else {"default": field.default}
    if field.metadata.get("argument"):
        many, metavar = -1 if is_many else 1, field.metadata["metavar"]
        return click.Argument([field.name], required=required, nargs=many, metavar=metavar, **default)
    spelled = [*(field.metadata["names"] or (f"--{field.name.replace('_', '-')}",)), field.name]
    if hint is bool:
        return click.Option(spelled, is_flag=True, default=field.default, help=field.metadata["help"])
    reads = reads_of(hint)
    return click.Option(
        spelled,
        type=_type(field, kinds),
        required=required,
        **default,
        multiple=is_many,
        metavar=reads.metavar if reads else field.metadata["metavar"],
        callback=_reading(reads.read) if reads else None,
        help=field.metadata["help"],
    )


def _type(field: Field, kinds: Sequence[Any]) -> click.ParamType[Any] | None:
    """What click knows of the value; None: any text."""
    if field.metadata["file"]:
        return click.Path(path_type=Path, dir_okay=False, exists=True)
    if field.metadata["output"] and Path in kinds:
        return click.Path(path_type=Path, dir_okay=False, writable=True, allow_dash=True)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    return click.Choice(choices) if choices else None


def _reading(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is None or not isinstance(value, str | tuple):
            return value
        try:
            return tuple(map(read, value)) if isinstance(value, tuple) else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback
