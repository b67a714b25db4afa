"""`assay monitor schedule`: a short suite that runs again and again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json

if TYPE_CHECKING:
    from assay.questions.schedule import Schedule, ScheduleForm


@click.command("schedule")
@click.argument("suite", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--system", required=True, metavar="NAME", help="The system of the suite to run it on.")
@click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Where to run. [default: systems.yaml next to the suite]",
)
@click.option("--every", default="1h", show_default=True, metavar="TIME", help="15min, 1h, 6h, 1d, 7d …")
@click.option(
    "--as",
    "form",
    type=click.Choice(["cronjob", "systemd", "scrontab"]),
    help="[default: cronjob on Kubernetes, scrontab on Slurm, otherwise systemd]",
)
@click.option("--baseline", metavar="B", help="Compare each session with these runs, like `assay gate`.")
@click.option(
    "--max-trial", default="60s", show_default=True, metavar="TIME", help="The longest that a trial may take."
)
@click.option(
    "--textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="For node exporter: write the metrics to this file after each session.",
)
@click.option("--namespace", help="Of the CronJob. [default: the system's]")
@click.option("--image", help="With Assay, for the CronJob.")
@click.option("--claim", help="An existing claim for the CronJob's runs. [default: a new one]")
@RUNS
@JSON
def command(
    suite: Path,
    system: str,
    systems_file: Path | None,
    every: str,
    form: ScheduleForm | None,
    baseline: str | None,
    max_trial: str,
    textfile: Path | None,
    namespace: str | None,
    image: str | None,
    claim: str | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Print what runs SUITE again and again at the lowest priority, and install nothing.

    For a suite of seconds whose history shows when a system became slower: Assay's metrics have each step
    and drift, and the alert AssayStepped reports it. Earlier runs and the parameters show how long a trial
    takes; a suite with a longer one is refused.

    \b
    Examples:
      assay monitor schedule quick.yaml --system lab --image registry/assay:1 | kubectl apply -f -
      assay monitor schedule quick.yaml --system here --every 15min
      assay monitor schedule quick.yaml --system cluster --as scrontab --textfile /shared/assay.prom

    \b
    Exit codes: 0 printed; 2 usage error; 4 the suite, the system or an option does not fit, or the suite is
    too long; 5 the namespace must be read from a kubeconfig, and that can't be.
    """
    from assay.questions.schedule import schedule

    scheduled = schedule(
        suite,
        system=system,
        systems=systems_file,
        every=every,
        form=form,
        baseline=baseline,
        max_trial=max_trial,
        textfile=textfile,
        namespace=namespace,
        image=image,
        claim=claim,
        runs=runs_dir,
    )
    if as_json:
        echo_json(scheduled.document())
        return
    _show(scheduled)


def _show(scheduled: Schedule) -> None:
    """The files on standard output, what to know on standard error."""
    for name, text in scheduled.files.items():
        if len(scheduled.files) > 1:
            click.echo(f"# /etc/systemd/system/{name}")
        click.echo(text, nl=False)
        if len(scheduled.files) > 1:
            click.echo()
    for note in scheduled.notes:
        click.echo(f"note: {note}", err=True)
