"""`assay notebook`: a notebook that reproduces a report."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import MARGIN, RUNS


@click.command()
@click.argument("references", nargs=-1, required=True, metavar="RUN…")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; `-` is standard output. [default: <suite>-<session>.ipynb here]",
)
@click.option("--baseline", metavar="SYSTEM", help="What to compare with. [default: the suite's]")
@MARGIN
@RUNS
def command(
    references: tuple[str, ...],
    output: Path | None,
    baseline: str | None,
    margin: float | None,
    runs_dir: Path,
) -> None:
    """Write a Jupyter notebook that asks the library for what a report on RUN says.

    Its cells have no outputs; run them to see the report, its charts and numbers. The last one fails if the
    answers are no longer the same.

    \b
    Examples:
      assay notebook quickstart
      assay notebook resnet50:bare-metal resnet50:openshift -o resnet50.ipynb
    """
    from assay.durable import deliver
    from assay.questions.notebook import notebook

    runs_notebook = notebook(*references, margin=margin, baseline=baseline, runs=runs_dir)
    if str(output) == "-":
        click.echo(runs_notebook.text(), nl=False)
        return
    path = output or Path(f"{runs_notebook.name}.ipynb")
    deliver(path, runs_notebook.text().encode(), option="-o")
    click.echo(path)
