"""What commands about finished runs need: a readable index, the runs behind a reference, what was planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.errors import BusyError, HostError, InputError

if TYPE_CHECKING:
    from assay.records import Metric, Plan, Result, Run

DEFAULT_MARGIN = 0.02


def ready(runs_dir: Path) -> None:
    """Make sure that the index can be read, making it again where it can't, and saying so.

    Raises InputError where there is no runs directory.
    """
    from assay import store

    why = store.trouble(runs_dir)
    if why is None:
        return
    if not runs_dir.is_dir():
        raise InputError(
            f"{runs_dir}: there are no runs here; `assay run SUITE` makes some, --runs names others"
        )
    from assay.run.index import update_index

    click.echo(f"assay: {store.index_path(runs_dir)}: {why}; reading the run directories again", err=True)
    for problem in update_index(runs_dir):
        click.echo(f"assay: {problem}", err=True)


def up_to_date(runs_dir: Path, suite: str | None, session: str | None = None) -> None:
    """Make sure that the index has these runs as their directories are, and say where it had not.

    suite, session  what is asked about; None: all

    Raises InputError for runs of which no file tells what they were.
    """
    from assay import read, store
    from assay.run.index import update_index
    from assay.run.outdated import outdated

    def concerned(name: str) -> bool:
        return name == f"{suite}/{session}" if session else suite in (None, name.partition("/")[0])

    changed = outdated(runs_dir, concerned, read.VERSIONS)
    if not changed:
        return
    what = f"{changed[0]} has" if len(changed) == 1 else f"{changed[0]} and {len(changed) - 1} more have"
    click.echo(f"assay: {what} changed since the index was made; reading what changed", err=True)
    try:
        problems = update_index(runs_dir)
    except (HostError, BusyError) as error:
        click.echo(f"assay: {error}; what follows is as the index has it", err=True)
        return
    unknown = set(changed) & set(outdated(runs_dir, concerned)) - store.known(runs_dir).keys()
    if unknown:
        left = f"{min(unknown)}: can't be taken into the index; make it again with `assay index --rebuild`"
        raise InputError(problems or left)
    for problem in problems:
        click.echo(f"assay: {problem}", err=True)


@dataclass(frozen=True)
class Named:
    """What a reference names: its runs, and the plan of the newest session among them where it has one."""

    reference: str
    results: tuple[Result, ...]
    plan: Plan | None

    def by_system(self) -> dict[str, list[Result]]:
        """The runs of each system, the plan's systems in its order."""
        found: dict[str, list[Result]] = {s: [] for s in (self.plan.systems if self.plan else ())}
        for result in self.results:
            found.setdefault(result.run.trial.system, []).append(result)
        return {system: results for system, results in found.items() if results}

    def metrics(self) -> Callable[[Run], Mapping[str, Metric]]:
        """What a run's workload declares, led by the metric that the suite calls primary."""
        from assay.read import metrics

        chosen = self.plan.primary_metric if self.plan else {}

        def primary_first(run: Run) -> Mapping[str, Metric]:
            declared = metrics(run)
            first = chosen.get(run.trial.benchmark)
            if first is None or first not in declared:
                return declared
            return {first: declared[first], **declared}

        return primary_first


def named(runs_dir: Path, reference: str) -> Named:
    """The runs that a reference names. Raises InputError with the nearest names where nothing fits."""
    from assay import store
    from assay.rundir.session import Session

    asked = store.parse(reference)
    if asked is None:
        up_to_date(runs_dir, None)
    else:
        up_to_date(runs_dir, asked.suite, asked.session)
    results = tuple(store.find(runs_dir, reference))
    newest = max(results, key=lambda result: result.run.session).run
    session = Session(runs_dir / newest.suite / newest.session)
    has_plan = (session.path / "plan.json").is_file()
    return Named(reference, results, session.plan() if has_plan else None)
