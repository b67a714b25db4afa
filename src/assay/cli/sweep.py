"""`assay sweep`: which nodes of a system are slow, which links between them, and what they share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, QUIET, RUNS, duration, echo_json
from assay.cli.systems import SYSTEMS
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE
from assay.questions.sweep_runs import by_reason
from assay.questions.systems import system_named
from assay.units import fraction, margin_of

if TYPE_CHECKING:
    from assay.launch.platform import KeepOffMethod
    from assay.questions.sweep import SweepResult

_MOST_COMMANDS = 8  # of each kind that the terminal shows


def _share(_context: click.Context, _option: click.Parameter, text: str) -> float:
    try:
        share = fraction(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < share <= 1:
        raise click.BadParameter(f"{text} is not above 0 and up to 100 %; write it as 25%")
    return share


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Names split at commas, except within brackets, `gpu[01,03-07]`, which Slurm expands."""
    return tuple(name for name in re.split(r",(?![^\[]*\])", text or "") if name)


@click.command()
@click.argument("system")
@SYSTEMS
@click.option(
    "--rounds", type=click.IntRange(min=0), default=5, show_default=True, help="Rounds of pairs; 0: none."
)
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Measured time of each run.",
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--nodes", callback=_names, metavar="A,B,…", help="Only these nodes.")
@click.option("--idle", is_flag=True, help="Start nothing on nodes that others are using.")
@click.option(
    "--share",
    callback=_share,
    metavar="SHARE",
    default="25%",
    show_default=True,
    help="Maximum share of the nodes to use at once.",
)
@click.option(
    "--for", "for_s", callback=duration, metavar="TIME", help="Start no trial after this time, such as 30min."
)
@click.option(
    "--by",
    default="",
    metavar="LABEL",
    help="Node label of the rack or switch (Slurm: `switch`): also judge these and their rings.",
)
@click.option(
    "--disk",
    default="",
    metavar="DIRECTORY",
    help="Also measure reading from this directory of each node (1 GiB).",
)
@click.option(
    "--baseline",
    metavar="RUN",
    multiple=True,
    help="An earlier sweep-nodes of the same nodes to compare with; and a sweep-pairs.",
)
@click.option(
    "--margin",
    metavar="SHARE",
    default="5%",
    show_default=True,
    help="Tolerated loss with fewer than 8 nodes.",
)
@click.option(
    "--print",
    "form",
    type=click.Choice(["names", "labels", "taints", "drain"]),
    help="Print commands that keep jobs off slow nodes; all else goes to standard error.",
)
@click.option("--new", is_flag=True, help="Start again even if a sweep is unfinished.")
@QUIET
@RUNS
@JSON
def command(
    system: str,
    systems_file: Path | None,
    runs_dir: Path,
    baseline: tuple[str, ...],
    margin: str,
    nodes: tuple[str, ...],
    form: str | None,
    quiet: bool,
    as_json: bool,
    **choices: Any,
) -> None:
    """Measure each node of SYSTEM alone, then pairs in rounds, then rings, and report those that are slow.

    SYSTEM is a Kubernetes, Slurm or LSF cluster, or hosts reached by ssh. Alone: arithmetic (matmul),
    memory (membw), and a disk if --disk names a directory on it. Pairs: an all-reduce between two nodes,
    in rounds in which each node has a different partner; the pairs of a round run at once as far as --share
    allows, and load a shared fabric together. Rings: one all-reduce over all nodes, and over those of each
    --by LABEL, if --share has room for them.

    The runs are ordinary sessions: sweep-nodes, sweep-pairs and sweep-rings. If a sweep was stopped, ran
    out of time or met busy nodes, the same command resumes it; the results so far are judged.

    With 8 nodes or more, they are compared with each other, such that at most 5 % of sweeps over healthy
    nodes report any as slow; with fewer, each is compared with its --baseline. Nothing on the nodes is
    changed or drained. All nodes must be of one kind; sweep other kinds as a separate system.

    \b
    Examples:
      assay sweep lab
      assay sweep lab --rounds 0 --repeats 5          nodes only
      assay sweep lab --idle --for 30min              in a gap between jobs; again later to resume
      assay sweep lab --share 100% --by topology.kubernetes.io/zone
      assay sweep lab --new --baseline sweep-nodes    compared with the newest sweep before this one
      assay sweep lab --print taints > taints.sh      kubectl commands, for you to run
      assay sweep lab --json | jq -r '.nodes[].slow[]'

    \b
    Exit codes: 0 judged, and nothing is slow; 1 something is slow, or a run gave no result; 3 too few nodes
    or runs to judge, or the sweep is incomplete; 4 the system can't be swept; 130 stopped by Ctrl-C; run
    again to resume.
    """
    from assay.cli.progress import teller
    from assay.node_sweep import keep_off_method
    from assay.questions.sweep import sweep

    if form is not None and as_json:
        raise click.UsageError("--json lists every way to keep jobs off: omit --print")
    where = system_named(system, systems_file)
    if form is not None:
        keep_off_method(where.definition, {}, form)  # fails before hours are spent
    result = sweep(
        where,
        nodes=nodes,
        baseline=baseline,
        margin=_margin(margin),
        runs=runs_dir,
        progress=teller(quiet),
        noted=None if quiet else partial(click.echo, err=True),
        command_line=("assay", *sys.argv[1:]),
        **choices,
    )
    if as_json:
        echo_json(result.document(system))
    else:
        _show(result, beside=form is not None)
    for line in (line for way_off in result.keep_off if way_off.form == form for line in way_off.apply):
        click.echo(line)
    sys.exit(_exit_code(result))


def _margin(text: str) -> float:
    try:
        return margin_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--margin") from None


def _show(result: SweepResult, *, beside: bool) -> None:
    """All findings; on standard error if something else was requested on standard output."""
    from assay.analyse.points.groups import cause
    from assay.cli.console import Console
    from assay.view.sweep import findings
    from assay.view.terminal import shown

    console = Console(highlight=False, stderr=beside)
    runs = result.runs
    console.print(shown(findings(result.verdicts)))
    lines = [] if beside else [*_ways(result.keep_off)]
    lines += [f"{result.run.trial.id} gave no result: {cause(result)}" for result in runs.failures]
    lines += [f"left out, {text}" for text in by_reason(runs.left_out)]
    lines += [f"not run: {text}" for text in runs.too_wide]
    lines += (
        [] if runs.complete else ["The sweep is incomplete: the same command resumes it, --new starts again"]
    )
    kept = " ".join(dict.fromkeys(measured.session.partition("/")[0] for measured in runs.measured))
    lines.append(f"Details: `assay show sweep-nodes`; page with heat maps: `assay report {kept}`")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _ways(off: Sequence[KeepOffMethod]) -> Iterator[str]:
    """The commands that keep jobs off, if there are few; else how to get them."""
    for way in off:
        if way.undo and len(way.apply) <= _MOST_COMMANDS:
            yield f"to keep jobs off (Assay runs none of these commands; {way.does}):"
            yield from (f"  {line}" for line in way.apply)
        elif way.undo:
            yield f"--print {way.form}: {len(way.apply)} commands that keep jobs off ({way.does})"


def _exit_code(result: SweepResult) -> int:
    if result.runs.failures or result.verdicts.slow:
        return EXIT_WORSE
    return EXIT_OK if result.runs.complete and result.verdicts.judged else EXIT_UNDECIDED
