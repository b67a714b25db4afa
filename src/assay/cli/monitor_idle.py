"""`assay monitor idle`: whether anything else needs this machine."""

from __future__ import annotations

import sys

import click

from assay.cli.options import JSON, duration, echo_json
from assay.errors import EXIT_OK, EXIT_WORSE


@click.command("idle")
@click.option("--for", "for_s", callback=duration, default="2s", show_default=True, help="How long to look.")
@JSON
def command(for_s: float, as_json: bool) -> None:
    """Check by exit code that nothing else uses this machine: CPUs, and use and memory of NVIDIA GPUs.

    A service of systemd starts a scheduled suite only if this succeeds.

    \b
    Examples:
      assay monitor idle
      assay monitor idle --for 10s --json

    \b
    Exit codes: 0 idle; 1 something else uses it; 4 the time is invalid; 5 this can't be found out.
    """
    from assay.questions.schedule import idleness
    from assay.units import counted

    state = idleness(for_=for_s)
    if as_json:
        echo_json(state.document())
    elif state.is_idle:
        machine = f"{state.busy_cores:.1f} of {state.cores} CPUs busy, {counted(state.gpus, 'GPU')}"
        click.echo(f"idle: {machine}")
    else:
        click.echo("\n".join(f"busy: {reason}" for reason in state.reasons))
    sys.exit(EXIT_OK if state.is_idle else EXIT_WORSE)
