"""`assay report`: a self-contained page to share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from assay.cli.options import JSON, MARGIN, RUNS, echo_json, form_of

if TYPE_CHECKING:
    from assay.questions.report import Form

SUFFIXES = {"html": ".html", "markdown": ".md"}
ENDINGS = {suffix: form for form, suffix in SUFFIXES.items()}


@click.command()
@click.argument("references", nargs=-1, required=True, metavar="RUN…")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; `-` is standard output. [default: <suite>-<session> here]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(SUFFIXES)),
    help="By default, the output name's extension decides, or html.",
)
@click.option(
    "--with-logs",
    is_flag=True,
    help="Copy each run's logs into a folder next to the page, and link them.",
)
@click.option(
    "--with-identity",
    is_flag=True,
    help="Keep host names, user names, home directories and boot IDs.",
)
@click.option(
    "--baseline",
    metavar="SYSTEM",
    help="What to compare with. [default: the suite's, else the first of at most four]",
)
@MARGIN
@RUNS
@JSON
def command(
    references: tuple[str, ...],
    output: Path | None,
    form: str | None,
    with_logs: bool,
    with_identity: bool,
    baseline: str | None,
    margin: float | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Write a self-contained page about RUNs.

    It contains a recommendation, verdicts, charts, numbers, doubts, provenance and how to reproduce the runs.
    Names of machines and people are left out unless you use --with-identity; secrets are always hidden.

    RUNs are sessions, imported sets or `suite:system`; `assay list` shows them. The others are compared
    with the baseline, or else with the first; more than four sides without a baseline are ranked instead.
    The page needs no network and no other files.

    \b
    Examples:
      assay report quickstart
      assay report resnet50:bare-metal resnet50:openshift -o openshift.html
      assay report quickstart --format markdown -o -        for a pull request
      assay report quickstart -o page.html --with-logs      the folder page-logs next to it
      assay report v3.0-ubuntu v3.1-openshift --margin 1%
      assay report sweep-nodes sweep-pairs                  slow nodes and links, as heat maps
    """
    from assay.durable import deliver
    from assay.questions.report import report

    if as_json and str(output) == "-":
        raise click.UsageError(
            "--json prints the location of the report: name a file with -o, or omit --json"
        )
    form = cast("Form", form_of(output, form, ENDINGS, "html"))
    if with_logs and (form != "html" or str(output) == "-"):
        raise click.UsageError("--with-logs creates a folder next to an HTML page: name the page with -o")
    runs_report = report(
        *references, margin=margin, baseline=baseline, with_identity=with_identity, runs=runs_dir
    )
    path = output if output is not None else Path(f"{runs_report.name}{SUFFIXES[form]}")
    if with_logs:
        runs_report = runs_report.with_logs(path)
    text = runs_report.text(form)
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    deliver(path, text.encode(), option="-o")
    if as_json:
        echo_json({"schema": "assay.report/1", "path": str(path), "format": form, **runs_report.plain()})
    else:
        click.echo(path)
