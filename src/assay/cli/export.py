"""`assay export`: measurements as a table, for a notebook or a spreadsheet."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from assay.cli.options import RUNS, form_of
from assay.cli.redacting_stream import write_bytes
from assay.units import counted

_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".json": "json"}


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "json"]),
    help="By default, the file name's extension decides, else csv.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="-",
    help="File to write; - is standard output.  [default: -]",
)
@RUNS
def command(runs: tuple[str, ...], form: str | None, as_json: bool, output: Path, runs_dir: Path) -> None:
    """Write the measurements of RUNS, one row each.

    Columns: system, benchmark, workload, shape, metric, unit, run, suite, session, block, value, labels (as
    JSON: swept parameters and the measurement's own), file, line, better, started_at, conditions (as JSON:
    how the runs were ordered and what the kernels counted). Runs without a result have no rows.
    `assay import` can import such a CSV.

    In CSV, a text that a spreadsheet would take for a formula (its first character is =, +, -, @, a tab or
    a line break) is prefixed with an apostrophe, which `assay import` removes. Numbers stay numbers, and
    JSON and Parquet contain the texts unchanged.

    \b
    Examples:
      assay export quickstart -o quickstart.parquet
      assay export resnet50:bare-metal resnet50:openshift --format csv > both.csv
      assay export quickstart --json | jq '.[].value'
    """
    from assay.questions.export import export
    from assay.store.query import Format

    chosen: Format
    chosen = "json" if as_json else form_of(output, form, _ENDINGS, "csv")  # type: ignore[assignment]
    if str(output) != "-":
        count = export(*runs, output=output, format=chosen, runs=runs_dir)
        what = f"{counted(count.measurements, 'measurement')} of {counted(count.runs, 'run')}"
        click.echo(f"{output}: {what}", err=True)
        return
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "measurements"
        export(*runs, output=file, format=chosen, runs=runs_dir)
        write_bytes(file.read_bytes())
