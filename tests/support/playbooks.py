"""What the tests of examples/ share: reading and changing their files, and running the command on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from assay.cli import assay


def yaml(path: Path) -> Any:
    """What a file holds, as plain data."""
    return YAML(typ="safe").load(path)


def command(*words: object) -> Result:
    """`assay` with these words; an error that it would print is raised."""
    return CliRunner().invoke(assay, [str(word) for word in words], catch_exceptions=False)
