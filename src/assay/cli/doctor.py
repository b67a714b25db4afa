"""`assay doctor`: what is missing on this machine, and the command that fixes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS
from assay.errors import EXIT_ENVIRONMENT, EXIT_OK

if TYPE_CHECKING:
    from assay.checks.check import Check
    from assay.registry import EntryPoint

_SYMBOLS = {
    "ok": ("✓", "green"),
    "warn": ("!", "yellow"),
    "fail": ("✗", "bold red"),
    "unknown": ("?", "cyan"),
}


class Rate(click.ParamType[float]):
    """A speed in a user's notation, in bytes per second."""

    name = "speed"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises a usage error for an invalid speed."""
        from assay.units import rate

        try:
            return rate(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("system", required=False)
@SYSTEMS
@options.RUNS
@click.option("--deep", is_flag=True, help="On Kubernetes: also run pods, and check from inside them.")
@click.option("--data", metavar="DIR", help="Read files in DIR for five seconds, where the trials run.")
@click.option("--at-least", type=Rate(), help="Fail if DIR is read more slowly, such as 2GB/s.")
@options.JSON
def command(
    system: str | None,
    systems_file: Path | None,
    runs_dir: Path,
    deep: bool,
    data: str | None,
    at_least: float | None,
    as_json: bool,
) -> None:
    """Check what is missing here, and show the command that fixes it.

    Checks this machine and the interpreter that trials would use: that of SYSTEM in systems.yaml, or else
    the one that runs Assay. Changes nothing. For a SYSTEM on Slurm or LSF, it checks the cluster and runs
    one job there that ends within seconds; for containers, it checks from inside one; for hosts behind ssh,
    on each of them; for Kubernetes, what its API shows this user, and with --deep or --data from inside a
    pod.

    Packages that add something to Assay are checked as well: which they are, and why one can't be used.

    --data reads past the page cache, in a pod through SYSTEM's volumes, and reports the speed of ten rounds.

    \b
    Examples:
      assay doctor                          this machine
      assay doctor dgx --systems lab.yaml   with the interpreter of the system `dgx`
      assay doctor lab --deep               a cluster, and pods on it
      assay doctor lab --data /data --at-least 2GB/s
      assay doctor --json                   checks and the facts they judged

    \b
    ✓ fine   ! results may suffer   ✗ trials can't run or would mislead   ? unknown

    Exit codes: 0 nothing fails; 4 no such system; 5 something fails.
    """
    if at_least is not None and data is None:
        raise click.UsageError("--at-least applies to what --data DIR reads; add --data DIR")
    if data is not None and not data.startswith("/"):
        raise click.UsageError(f"--data: found {data!r}; expected an absolute path, as trials see it")
    from assay.cli.console import Console
    from assay.questions.doctor import doctor

    with Console(stderr=True).status("") as line:  # shows nothing if standard error is a file
        checkup = doctor(
            system,
            systems=systems_file,
            deep=deep,
            data=data,
            at_least=at_least,
            runs=runs_dir,
            progress=line.update,
        )
    if as_json:
        document = {"schema": "assay.doctor/1", "system": system, "checks": [*map(asdict, checkup.checks)]}
        options.echo_json({**document, "facts": checkup.facts, "plugins": _plugins(checkup.plugins)})
    else:
        _show(checkup.checks)
    sys.exit(EXIT_OK if checkup.ready else EXIT_ENVIRONMENT)


def _plugins(plugins: Sequence[tuple[EntryPoint, str]]) -> list[dict[str, str]]:
    """Each entry point; its trouble is "" if it can be used."""
    return [{**entry._asdict(), "trouble": trouble} for entry, trouble in plugins]


def _show(checks: Sequence[Check]) -> None:
    from rich.text import Text

    from assay.cli.console import Console

    console = Console(highlight=False)
    width = max(len(check.name) for check in checks)
    for check in checks:
        symbol, style = _SYMBOLS[check.state]
        line = Text.assemble((symbol, style), f" {check.name:{width}}  {check.evidence}")
        console.print(line, soft_wrap=True)
        if check.remedy:  # never wrapped here: a command split over lines can't be copied
            console.print(Text(f"  {'':{width}}  → {check.remedy}", "bold"), soft_wrap=True)
    console.print(Text(f"\n{_summary(checks)}"), soft_wrap=True)


def _summary(checks: Sequence[Check]) -> str:
    counts = {state: sum(check.state == state for check in checks) for state in _SYMBOLS}
    labels = {"fail": "to fix", "warn": "to consider", "unknown": "unknown", "ok": "fine"}
    summary = ", ".join(f"{counts[state]} {label}" for state, label in labels.items() if counts[state])
    if counts["fail"]:
        return f"Not ready: {summary}."
    return f"Ready: {summary}."
