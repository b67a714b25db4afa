"""Write docs/commands.md from the commands' own help: `python tools/command_reference.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from assay.cli import COMMANDS, assay

TARGET = Path(__file__).resolve().parent.parent / "docs" / "commands.md"


def reference() -> str:
    """The whole reference as Markdown."""
    context = click.Context(assay, info_name="assay", max_content_width=100, terminal_width=100)
    title = "# Commands\nMade from `--help` by `python tools/command_reference.py`.\n"
    parts = [title, _block(assay, context)]
    for name in COMMANDS:
        command = assay.get_command(context, name)
        if command is None:
            raise SystemExit(f"no command {name}")
        parts += _sections(command, context, name, f"assay {name}")
    return "\n".join(parts)


def _sections(command: click.Command, parent: click.Context, name: str, title: str) -> list[str]:
    """The section of a command, then those of its own commands."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    parts = [f"\n## {title}\n", _block(command, context)]
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            made = command.get_command(context, inner)
            assert made is not None
            parts += _sections(made, context, inner, f"{title} {inner}")
    return parts


def _block(command: click.Command, context: click.Context) -> str:
    return "```text\n" + command.get_help(context) + "\n```\n"


def main() -> None:
    """Write the file, or with --check fail where it is stale."""
    text = reference()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif not TARGET.is_file() or TARGET.read_text() != text:
        sys.exit("docs/commands.md is stale; run: python tools/command_reference.py")


if __name__ == "__main__":
    main()
