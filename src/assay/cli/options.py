"""Options that many commands share, so that each word means the same everywhere."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from assay.api.evidence import runs_directory
from assay.units import margin_of, seconds

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of text.")


RUNS = click.option(
    "--runs",
    "runs_dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=runs_directory,
    show_default="$ASSAY_RUNS or ./runs",
    help="Directory that holds the runs.",
)


def form_of(output: Path | None, form: str | None, endings: Mapping[str, str], default: str) -> str:
    """The format to write: the one that was named, else what the file's ending says, else the default.

    endings  ending → format, as `.md` → markdown

    Raises click.BadParameter where the file ends like one of a format that can't be written.
    """
    ending = "" if output is None else output.suffix.lower()
    if form is not None or ending in endings:
        return form or endings[ending]
    if ending[1:].isalnum() and not ending[1:].isdigit():  # page-v3.1 ends in no format
        raise click.BadParameter(f"{output}: {ending} can't be written; write {' or '.join(endings)}")
    return default


def duration(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """An option's callback: seconds from a time like 90min."""
    try:
        return None if text is None else seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _margin(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else margin_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


MARGIN = click.option(
    "--margin",
    callback=_margin,
    metavar="SHARE",
    help="What counts as equal, like 2%. [default: the suite's, or 2%]",
)


_AGES_S = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def _since(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """Seconds since the epoch from a date or an age."""
    if text is None:
        return None
    age = re.fullmatch(r"(\d+)([hdw])", text)
    if age is not None:
        return time.time() - int(age[1]) * _AGES_S[age[2]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a date like 2026-03-01 nor an age like 7d") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


SINCE = click.option(
    "--since", callback=_since, metavar="WHEN", help="Only newer ones: 2026-03-01 (UTC), 7d, 12h."
)


def echo_json(value: Any) -> None:
    """One JSON document on standard output; plain data only. What an encoding lacks is escaped, not lost."""
    whole = sys.stdout.encoding.lower().startswith("utf")
    click.echo(json.dumps(value, indent=2, ensure_ascii=not whole, allow_nan=False))
