"""What commands give their questions besides options: each function makes it from these."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from assay.registry import imported

if TYPE_CHECKING:
    from assay.questions.question import Answer
    from assay.run.progress import Tell

Options = Mapping[str, Any]
_STEP: Final = re.compile(r"(?:STEP|Step) (\d+)/(\d+)")  # of podman or buildah


def _command_line(_: Options) -> tuple[str, ...]:
    """The command as it was typed."""
    return ("assay", *sys.argv[1:])


def _sessions(options: Options) -> Tell:
    """Shows the trials of a session, unless --quiet."""
    from assay.cli.progress import teller

    return teller(options.get("quiet", False))


def _commands(_: Options) -> Callable[..., Any]:
    """Answers `assay --server`; it knows all commands, so it is imported by its name."""
    answer: Callable[..., Any] = imported("assay.cli.remote_commands:answer")
    return answer


def _lines(options: Options) -> Callable[[str], None]:
    """Shows lines on standard error, unless --quiet."""
    return lambda line: None if options.get("quiet") else click.echo(line, err=True)


def _preview(options: Options) -> Callable[[Answer], None]:
    """Shows what the command is about to do, unless it prints JSON; beside the results if they follow."""
    has_results = "quiet" in options

    def show_first(answer: Answer) -> None:
        from assay.cli.console import Console
        from assay.view.terminal import show

        if not (options["as_json"] or options.get("quiet")):
            show(Console(highlight=False, stderr=has_results), answer.view())

    return show_first


def _consent(options: Options) -> Callable[[str], None]:
    """Asks for consent, unless --yes; a command with results only where a person sees the question.

    Raises click.Abort if it is refused.
    """
    acts = [name for name in ("apply", "revert") if options.get(name)]
    if acts and options["as_json"] and not options["yes"]:
        raise click.UsageError(f"--json can't ask for confirmation: add --yes to --{acts[0]}")
    has_results = "quiet" in options
    is_seen = sys.stdin.isatty() and sys.stderr.isatty() and not (options["as_json"] or options.get("quiet"))

    def ask(prompt: str) -> None:
        if not options["yes"] and (is_seen or not has_results):
            click.confirm(prompt, default=has_results, abort=True, err=has_results)

    return ask


@contextmanager
def _build_steps(_: Options) -> Iterator[Callable[[str], None]]:
    """Shows the steps of an image's build: a bar with the time left on a terminal, else a line for each."""
    if not sys.stderr.isatty():
        yield lambda line: click.echo(line, err=True) if _STEP.match(line) else None
        return
    from rich import progress

    from assay.cli.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Building", total=None)

        def on_line(line: str) -> None:
            if match := _STEP.match(line):
                bar.update(task, completed=int(match[1]) - 1, total=int(match[2]))

        yield on_line


SUPPLIED: Final[Mapping[str, Callable[[Options], Any]]] = {
    "sessions": _sessions,
    "lines": _lines,
    "command line": _command_line,
    "commands": _commands,
    "build steps": _build_steps,
    "preview": _preview,
    "consent": _consent,
}
