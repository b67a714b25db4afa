"""`assay data submit`: a site's template, filled with chosen labels, shown, and run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.named_values import named
from assay.cli.options import JSON, QUIET, RUNS, echo_json
from assay.questions.values import texts, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.data.questions.submit import DataJob
    from assay.suite.filled_template import Choice


@click.command("submit")
@click.argument("template", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--set",
    "labels",
    multiple=True,
    metavar="LABEL=VALUE",
    callback=named(texts),
    help="Choose a label; repeatable.",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    callback=named(values),
    help="Set a parameter; repeatable.",
)
@click.option("--limit", type=click.IntRange(min=1), help="So many frames, at random.")
@click.option("--seed", type=click.IntRange(min=0), help="Of the random choice.  [default: the template's]")
@click.option("--system", metavar="NAME", help="Where to run.  [default: the template's first]")
@click.option("--shape", metavar="WxA", help="Workers x accelerators.  [default: the template's first]")
@click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The systems file.  [default: systems.yaml next to the template]",
)
@click.option("--dry-run", is_flag=True, help="Show everything that would be submitted; submit nothing.")
@click.option("--yes", is_flag=True, help="Submit without asking.")
@click.option("--new", is_flag=True, help="Start a new session even if one is unfinished.")
@click.option("--failed", is_flag=True, help="Repeat the failed runs of the newest session.")
@QUIET
@RUNS
@JSON
def command(
    template: Path,
    labels: dict[str, str],
    params: dict[str, object],
    limit: int | None,
    seed: int | None,
    system: str | None,
    shape: str | None,
    systems_file: Path | None,
    dry_run: bool,
    yes: bool,
    new: bool,
    failed: bool,
    quiet: bool,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Run a site's TEMPLATE on the frames that your choice of labels finds.

    First it shows what was chosen, how many frames that is now, and the suite that it becomes; on a terminal
    it asks whether to submit, unless --yes. Then it is an `assay run`: the same command resumes it, and jobs
    that are still running are taken over. The frames are chosen anew directly before each run is submitted,
    and their manifest is kept with the run, as inputs/manifest.jsonl.

    \b
    Examples:
      assay data submit pedestrians.yaml --set pedestrian=5000..6000
      assay data submit pedestrians.yaml --set pedestrian=5000.. --set camera=cam_front_left --dry-run
      assay data submit pedestrians.yaml --set pedestrian=1..500 --param max_epochs=3 --system power --yes

    \b
    Exit codes: 0 all runs gave a result; 1 a run failed; 4 the template, a choice or the catalog is wrong, or
    no frame is left: every problem is listed; 5 a platform can't be used; 130 stopped by Ctrl-C.
    """
    from assay.data.questions.submit import data_job, submit_data

    if new and failed:
        raise click.UsageError("--failed repeats runs of an existing session; --new starts another one")
    job = data_job(
        template,
        labels=labels,
        params=params,
        system=system,
        shape=shape,
        limit=limit,
        seed=seed,
        systems=systems_file,
        runs=runs_dir,
    )
    if dry_run:
        _show_dry_run(job, as_json=as_json)
        return
    if not (quiet or as_json):
        click.echo("\n".join(_overview(job)), err=True)
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm("Submit?", default=True, abort=True, err=True)
    from assay.cli.progress import teller

    result = submit_data(
        job,
        new=new,
        failed=failed,
        runs=runs_dir,
        progress=teller(quiet),
        command_line=("assay", *sys.argv[1:]),
    )
    if as_json:
        echo_json({**result.document(), "data_job": job.document()})
    else:
        from assay.cli.console import Console
        from assay.view import terminal

        terminal.show(Console(highlight=False), result.view())
    sys.exit(result.exit_code)


def _show_dry_run(job: DataJob, *, as_json: bool) -> None:
    trial = job.plan.plan.trials[0]
    if as_json:
        from assay.questions.plan import SentTrial

        sent = SentTrial(job.plan, trial, None).document()
        echo_json({"schema": "assay.data-job/1", **job.document(), "first": sent})
        return
    from assay.questions.plan import sent_text

    click.echo("\n".join([*_overview(job), "", sent_text(trial, job.plan.sent(trial))]))


def _overview(job: DataJob) -> Iterator[str]:
    """What was chosen, the frames, and the suite."""
    from assay import redact
    from assay.units import counted, human

    content, filled, manifest = job.template.content, job.filled, job.manifest
    yield f"Template {content.template}" + (f": {content.about}" if content.about else "")
    if content.where.strip():
        yield f"  {content.where}  (always)"
    yield from (_line(choice.value, choice) for choice in filled.labels)
    size = human(float(manifest.bytes), "B")
    drawn = "" if filled.limit is None else f", drawn by seed {filled.seed}"
    yield (
        f"Frames now: {len(manifest.frames):,} of {job.of:,}{drawn}, {size}, digest {manifest.digest[:12]}; "
        "chosen again when a run is submitted"
    )
    runs = counted(content.repeats, "run")
    yield f"Job: {content.workload} on {filled.system}, shape {filled.shape}, {runs}"
    yield from (_line(f"{choice.name} = {choice.value}", choice) for choice in filled.params)
    yield "The suite that it becomes:"
    yield from (f"  {line}" for line in redact.redacted_yaml(filled.suite.text).rstrip().splitlines())


def _line(text: str, choice: Choice) -> str:
    bounds = f"  (of {choice.bounds})" if choice.bounds else ""
    return f"  {text}{bounds}{'  by default' if choice.by == 'template' else ''}"
