"""The commands, from their own help."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner

from assay.cli import assay

WIDTH = 100


def page() -> str:
    """The whole page as Markdown."""
    title = "# Commands\nThe help of every command, as `--help` prints it.\n"
    return "\n".join([title, _help(()), *_sections(assay, ())])


def _sections(group: click.Group, path: tuple[str, ...]) -> Iterator[str]:
    """The section of each command of a group, followed by those of its own commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        words = (*path, name)
        yield f"\n## assay {' '.join(words)}\n"
        yield _help(words)
        if isinstance(command, click.Group):
            yield from _sections(command, words)


def _help(words: tuple[str, ...]) -> str:
    """What `assay WORDS --help` prints, as a block."""
    called = CliRunner().invoke(assay, [*words, "--help"], prog_name="assay", terminal_width=WIDTH)
    if called.exit_code:
        raise SystemExit(f"assay {' '.join(words)} --help: {called.output}")
    return f"```text\n{called.output}```\n"
