"""Write docs/commands.md from the commands' own help: `python tools/command_reference.py [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from assay.cli import assay

TARGET = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
WIDTH = 100


def reference() -> str:
    """The whole reference as Markdown."""
    title = "# Commands\nMade from `--help` by `python tools/command_reference.py`.\n"
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


def main() -> None:
    """Write the file, or with --check fail where it is stale."""
    text = reference()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif not TARGET.is_file() or TARGET.read_text() != text:
        sys.exit("docs/commands.md is stale; run: python tools/command_reference.py")


if __name__ == "__main__":
    main()
