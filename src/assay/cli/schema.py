"""`assay schema`: the JSON Schemas of suite.yaml, systems.yaml and templates of jobs, for editors."""

from __future__ import annotations

from typing import Literal

import click

from assay.cli.options import JSON, echo_json

File = Literal["suite", "systems", "template"]


@click.command()
@click.argument("file", type=click.Choice(["suite", "systems", "template"]))
@JSON
def command(file: File, as_json: bool) -> None:  # noqa: ARG001 the output is JSON either way
    """Print the JSON Schema of suite.yaml, systems.yaml or a template of `assay data submit`, for an editor.

    \b
    Examples:
      assay schema suite > suite.schema.json
      assay schema systems > systems.schema.json
      assay schema template > template.schema.json
    then, as the first line of the file, for editors with the YAML language server:
      # yaml-language-server: $schema=suite.schema.json
    """
    from assay.questions.schema import schema

    echo_json(schema(file))
