"""`assay clean`: what runs left on the systems, shown, and removed where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.api.systems import every_system, system_named
from assay.cli.options import JSON, RUNS, echo_json
from assay.cli.systems import SYSTEMS
from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, InputError

if TYPE_CHECKING:
    from assay.api.leftovers import Leftovers

_SHOWN = 4  # things of one job that a line names


@click.command()
@click.argument("system", required=False)
@click.option("--all", "all_systems", is_flag=True, help="Every system of the systems' file.")
@SYSTEMS
@click.option("--yes", is_flag=True, help="Remove what is shown, but for what still goes on.")
@click.option(
    "--running", is_flag=True, help="Count as left what still goes on, too: with --yes its jobs are ended."
)
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
    """Find what runs left on SYSTEM, by its label there, and in the runs directory; remove it with --yes.

    Killed runs, lost connections and machines that went down leave jobs, pods, ConfigMaps, Services,
    containers, queued batch jobs, processes and directories. All of a job carries its token, so it is found
    whoever submitted it, also where its runs directory is gone. Without SYSTEM: this machine.

    What still goes on stays: a job that runs or waits, one of a session that an Assay works on, and one of
    an unknown run that ended less than ten minutes ago, since another Assay may be collecting it.

    \b
    Examples:
      assay clean lab                     what runs left in the namespace of the system `lab`
      assay clean lab --yes               remove it
      assay clean --all --yes             on every system of systems.yaml
      assay clean lab --running --yes     end everything of Assay's there

    \b
    Exit codes: 0 looked, and removed what was requested; 4 no such system; 5 one of the systems could not be
    looked at, or something can't be removed.
    """
    from assay.api.leftovers import clean, not_looked_at

    if all_systems and system is not None:
        raise InputError("name a SYSTEM or write --all, not both")
    chosen = every_system(systems_file) if all_systems else [system_named(system, systems_file)]
    cleaned = [_plain(clean(one, yes=yes, running=running, runs=runs_dir)) for one in chosen]
    others = not_looked_at([one.name for one in chosen], systems=systems_file, runs=runs_dir)
    if as_json:
        not_looked = [asdict(other) for other in others]
        echo_json({"schema": "assay.clean/1", "systems": cleaned, "not_looked_at": not_looked})
    else:
        _show(cleaned, asked=yes)
        for other in others:
            jobs = f"{other.jobs} {'job' if other.jobs == 1 else 'jobs'}"
            click.echo(f"{other.system}: not looked at; {runs_dir} has {jobs} of it: {other.command}")
    sys.exit(EXIT_ENVIRONMENT if any(one["error"] for one in cleaned) else EXIT_OK)


def _plain(cleaned: Leftovers) -> dict[str, Any]:
    jobs = [
        {
            "token": left.token,
            "what": list(left.what),
            "session": left.session or None,
            "goes_on": left.going or None,
            "removed": left.token in cleaned.removed,
        }
        for left in cleaned.found
    ]
    return {"system": cleaned.system, "looked": cleaned.looked, "error": cleaned.error, "jobs": jobs}


def _show(cleaned: Sequence[dict[str, Any]], *, asked: bool) -> None:
    for one in cleaned:
        for job in one["jobs"]:
            click.echo(f"{one['system']}  {job['token']}  {_things(job['what'])}{_standing(job)}")
        if one["looked"]:
            click.echo(f"{one['system']}: {_summary(one['jobs'], asked=asked)}")
        else:
            click.echo(f"{one['system']}: could not look, so what is left there is not known")
        for line in one["error"].splitlines():
            click.echo(f"assay: {one['system']}: {line}", err=True)


def _things(what: Sequence[str]) -> str:
    more = f" and {len(what) - _SHOWN} more" if len(what) > _SHOWN else ""
    return ", ".join(what[:_SHOWN]) + more


def _standing(job: dict[str, Any]) -> str:
    said = [f"of {job['session']}"] if job["session"] else []
    said += [job["goes_on"]] if job["goes_on"] else []
    return f"  ({'; '.join(said)})" if said else ""


def _summary(jobs: Sequence[dict[str, Any]], *, asked: bool) -> str:
    if not jobs:
        return "nothing is left"
    removed = sum(job["removed"] for job in jobs)
    going = sum(job["goes_on"] is not None and not job["removed"] for job in jobs)
    rest = len(jobs) - removed - going
    said = [f"{removed} removed"] if removed else []
    said += [f"{rest} left" + ("" if asked else ", which --yes removes")] if rest else []
    said += [f"{going} still going on, which only --running counts as left"] if going else []
    return f"of {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} " + "; ".join(said)
