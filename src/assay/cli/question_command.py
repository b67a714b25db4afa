"""The command of a question, made from its fields."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.questions.question import Question, Reads


def command_of(question: type[Question]) -> click.Command:
    """The command: asks, prints the answer as text or JSON, and exits with its code."""
    hints = get_type_hints(question, include_extras=True)
    fields = dataclasses.fields(question)  # type: ignore[arg-type]
    parameters = [_parameter(field, hints[field.name]) for field in fields if field.name != "runs"]

    def ask(every: bool = False, as_json: bool = False, runs_dir: Any = None, **options: Any) -> None:
        runs = {"runs": runs_dir} if "runs" in hints else {}
        question_ = question(**options, **runs)
        answer = question_.answer()
        question_.write(answer)
        if as_json:
            echo_json(answer.document())
        else:
            from assay.cli.console import Console
            from assay.view import terminal

            terminal.show(Console(highlight=False), answer.view(), every=every)
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
    for shared in ([RUNS] if "runs" in hints else []) + [JSON]:
        shared(command)
    return command


def _parameter(field: dataclasses.Field[Any], hint: Any) -> click.Parameter:
    if field.metadata.get("argument"):
        return click.Argument([field.name], required=field.default is dataclasses.MISSING)
    kinds = [kind for kind in _alternatives(hint) if kind is not type(None)]
    reads = next((extra for kind in kinds for extra in _extras(kind) if isinstance(extra, Reads)), None)
    spelled = [f"--{field.name.replace('_', '-')}", field.name]
    if hint is bool:
        return click.Option(spelled, is_flag=True, help=field.metadata["help"])
    if field.metadata["output"]:
        file = click.Path(path_type=Path, dir_okay=False, writable=True)
        return click.Option(spelled, type=file, help=field.metadata["help"])
    return click.Option(
        spelled,
        required=field.default is dataclasses.MISSING,
        multiple=any(get_origin(kind) is tuple for kind in kinds),
        metavar=reads.metavar if reads else field.metadata["metavar"],
        callback=_reading(reads.read) if reads else None,
        help=field.metadata["help"],
    )


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _extras(kind: Any) -> tuple[Any, ...]:
    return get_args(kind)[1:] if get_origin(kind) is Annotated else ()


def _reading(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def callback(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback
