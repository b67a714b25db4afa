"""`assay stack list`: the stacks that runs have observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.units import counted

_KEY = 20  # characters of a party's key

if TYPE_CHECKING:
    from assay.stacks.known import KnownStack
    from assay.stacks.stack import Observation


@click.command()
@click.option(
    "--package", metavar="REQUIREMENT", help="Only stacks that meet it, such as torch or 'torch>=2.8'."
)
@click.option("--workload", metavar="NAME", help="Only what was observed with this workload.")
@options.RUNS
@options.JSON
def command(package: str | None, workload: str | None, runs_dir: Path, as_json: bool) -> None:
    """List the software stacks that runs have observed, the most recently observed first.

    Every run is an observation: its provenance says which software it ran with, on which hardware. Nothing
    needs to be recorded. A stack is named by the beginning of its digest.

    \b
    Examples:
      assay stack list
      assay stack list --package 'torch>=2.8' --workload resnet50
    """
    from assay.cli.stack_progress import reading
    from assay.stacks.known import list_stacks

    with reading() as progress:
        stack_listing = list_stacks(package=package, workload=workload, runs=runs_dir, progress=progress)
    if as_json:
        options.echo_json(stack_listing.document())
        return
    if not stack_listing.stacks:
        click.echo("No run has observed such a stack." if package or workload else "No stack is known yet.")
    for line in _describe_stacks(stack_listing.stacks):
        click.echo(line)
    for note in left_out_notes(stack_listing.left_out):
        click.echo(note, err=True)


def _describe_stacks(stacks: Sequence[KnownStack]) -> Iterator[str]:
    hardware: dict[str, str] = {}
    for known in stacks:
        for observation in known.observations:
            hardware.setdefault(observation.hardware.digest, str(observation.hardware))
    shown = ""
    for digest, description in hardware.items():
        here = [
            s for s in stacks if any(observation.hardware.digest == digest for observation in s.observations)
        ]
        if description != shown:
            yield f"On {description}:"
            shown = description
        for known in here:
            yield "  ".join(
                ["", known.stack.digest[:8], day(known.newest), _evidence(known, digest), known.title]
            )


def _evidence(known: KnownStack, hardware: str) -> str:
    """How often it was observed on this hardware."""
    runs = known.runs_on(hardware)
    sessions = {(o.origin, o.session) for o in known.observations if o.hardware.digest == hardware}
    failed = [failure for failure in known.failures if failure.hardware.digest == hardware]
    kinds = sorted({failure.failure for failure in failed if failure.failure})
    ended = f", {len(failed)} × {' or '.join(kinds)}" if failed else ""
    return f"{counted(runs, 'run')} in {counted(len(sessions), 'session')}{ended}"


def session_names(observed: Iterable[Observation]) -> str:
    """Some of the sessions of observations; of those of others, with the beginning of their key."""
    sessions = sorted({(observation.session, observation.origin) for observation in observed})
    names = [f"{session} of {origin[:_KEY]}…" if origin else session for session, origin in sessions]
    return some_of(names)


def some_of(names: Sequence[str]) -> str:
    """The first three."""
    return f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}"


def left_out_notes(left_out: Mapping[str, int]) -> Iterator[str]:
    """How many runs say nothing about a stack, and why."""
    for why, runs in sorted(left_out.items()):
        yield f"{counted(runs, 'run')} left out: {why}."


def day(moment: float) -> str:
    """The date, UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
