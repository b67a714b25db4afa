"""`assay clean`: list what runs left on the systems, and remove it on request."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.cli.systems import SYSTEMS
from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, InputError
from assay.questions.systems import every_system, system_named

if TYPE_CHECKING:
    from assay.questions.clean import Leftovers
    from assay.run.leftovers import Remains

_SHOWN = 4  # things of one job that a line lists


@click.command()
@click.argument("system", required=False)
@click.option("--all", "all_systems", is_flag=True, help="Every system in the systems file.")
@SYSTEMS
@click.option("--yes", is_flag=True, help="Remove what is shown, except what may be in use.")
@click.option("--running", is_flag=True, help="Include active jobs; with --yes, end them.")
@RUNS
@JSON
def command(
    system: str | None,
    all_systems: bool,
    systems_file: Path | None,
    yes: bool,
    running: bool,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Find what runs left on SYSTEM, by label, and in the runs directory; remove it with --yes.

    Killed runs, lost connections and crashed machines leave jobs, pods, ConfigMaps, Services,
    containers, queued batch jobs, processes and directories. Everything that belongs to a job has its token,
    so Assay finds it no matter who submitted it, even if its runs directory is gone. Without SYSTEM: this
    machine.

    What is active stays: a job that runs or waits, a job of a session that an Assay process is working on,
    and a job of an unknown run that ended less than ten minutes ago, because another Assay may be collecting
    it.

    \b
    Examples:
      assay clean lab                     what runs left in the namespace of the system `lab`
      assay clean lab --yes               remove it
      assay clean --all --yes             on every system of systems.yaml
      assay clean lab --running --yes     end all Assay jobs there

    \b
    Exit codes: 0 checked, and removed what was requested; 4 no such system; 5 a system can't be checked,
    or something can't be removed.
    """
    from assay.questions.clean import clean, clean_document, not_looked_at

    if all_systems and system is not None:
        raise InputError("name a SYSTEM or use --all, not both")
    chosen = every_system(systems_file) if all_systems else [system_named(system, systems_file)]
    cleaned = [clean(target, yes=yes, running=running, runs=runs_dir) for target in chosen]
    others = not_looked_at([target.name for target in chosen], systems=systems_file, runs=runs_dir)
    if as_json:
        echo_json(clean_document(cleaned, others))
    else:
        _show(cleaned, removing=yes)
        for other in others:
            jobs = f"{other.jobs} {'job' if other.jobs == 1 else 'jobs'}"
            click.echo(f"{other.system}: not checked; {runs_dir} has {jobs} from it: {other.command}")
    sys.exit(EXIT_ENVIRONMENT if any(leftovers.error for leftovers in cleaned) else EXIT_OK)


def _show(cleaned: Sequence[Leftovers], *, removing: bool) -> None:
    for leftovers in cleaned:
        for left in leftovers.found:
            click.echo(f"{leftovers.system}  {left.token}  {_things(left.what)}{_standing(left)}")
        if leftovers.looked:
            click.echo(f"{leftovers.system}: {_summary(leftovers, removing=removing)}")
        else:
            click.echo(f"{leftovers.system}: the check failed, so what is left there is unknown")
        for line in leftovers.error.splitlines():
            click.echo(f"assay: {leftovers.system}: {line}", err=True)


def _things(what: Sequence[str]) -> str:
    more = f" and {len(what) - _SHOWN} more" if len(what) > _SHOWN else ""
    return ", ".join(what[:_SHOWN]) + more


def _standing(left: Remains) -> str:
    notes = [f"of {left.session}"] if left.session else []
    notes += [left.going] if left.going else []
    return f"  ({'; '.join(notes)})" if notes else ""


def _summary(cleaned: Leftovers, *, removing: bool) -> str:
    jobs = cleaned.found
    if not jobs:
        return "nothing left"
    removed = sum(left.token in cleaned.removed for left in jobs)
    going = sum(bool(left.going) and left.token not in cleaned.removed for left in jobs)
    rest = len(jobs) - removed - going
    parts = [f"{removed} removed"] if removed else []
    parts += [f"{rest} left" + ("" if removing else ", which --yes removes")] if rest else []
    parts += [f"{going} that may be in use, included only with --running"] if going else []
    return f"of {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} " + "; ".join(parts)
