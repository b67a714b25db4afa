"""`assay sweep`: which nodes of a system are slow, and which links between them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json, margin_of
from assay.cli.sweep_runs import Sweep, stored
from assay.cli.systems import SYSTEMS, named
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError

if TYPE_CHECKING:
    from assay.analyse.sweep import Nodes, Pairs
    from assay.records import Result


@click.command()
@click.argument("system")
@SYSTEMS
@click.option("--rounds", type=click.IntRange(min=0), default=5, show_default=True, help="Of pairs; 0: none.")
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Timed in each run."
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--baseline", metavar="RUN", help="An earlier sweep-nodes of the same nodes, to hold them against."
)
@click.option(
    "--margin", metavar="SHARE", default="5%", show_default=True, help="Loss borne by fewer than 8 nodes."
)
@click.option("--new", is_flag=True, help="Begin again although a sweep is unfinished.")
@click.option("--quiet", is_flag=True, help="Show nothing before the results.")
@RUNS
@JSON
def command(
    system: str,
    systems_file: Path | None,
    rounds: int,
    repeats: int,
    seconds: float,
    device: str,
    baseline: str | None,
    margin: str,
    new: bool,
    quiet: bool,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Measure each host of SYSTEM alone, then pairs in rounds, and name those that are slow.

    Alone: arithmetic (matmul) and memory (membw). Pairs: an all-reduce between two hosts, in rounds in which
    each has another partner. The runs are ordinary sessions, sweep-nodes and sweep-pairs: a stopped one is
    gone on with, and `assay show`, `report` and `export` take them. One job runs at a time. What was stopped
    among the pairs measures the nodes anew first.

    From 8 nodes on they are held against each other, so that in at most 5 % of sweeps over healthy nodes any
    is named; with fewer, each against its --baseline. Nothing on the nodes is changed, nothing is drained.
    All hosts have to be of one kind; sweep others as another system.

    \b
    Examples:
      assay sweep lab
      assay sweep lab --rounds 0 --repeats 5          nodes only
      assay sweep lab --new --baseline sweep-nodes    against the newest sweep before this one
      assay sweep lab --json | jq -r '.nodes[].slow[]'

    \b
    Exit codes: 0 judged, and nothing is slow; 1 something is slow, or a run gave no figure; 3 too few nodes
    or runs to judge; 4 the system can't be swept; 130 stopped by Ctrl-C, run again to go on.
    """
    from assay.analyse.sweep import judged_nodes, judged_pairs
    from assay.cluster import rounds as order
    from assay.cluster import sweep

    where = named(system, systems_file)
    hosts = sweep.hosts_of(system, where.definition)
    borne = _margin(margin)
    before = None if baseline is None else stored(runs_dir, baseline)
    run = Sweep(where, runs_dir, repeats, device, seconds, new, quiet)
    alone = run.groups(sweep.nodes_suite, order.alone(hosts))
    if before is not None and alone.session in before[1]:
        raise InputError(f"--baseline {baseline} is the sweep that went on here; add --new, or name another")
    nodes = judged_nodes(alone, None if before is None else before[0], borne)
    pairs = None
    if rounds and len(hosts) > 1:
        met = order.pairs(hosts, min(rounds, order.most_rounds(len(hosts))))
        pairs = judged_pairs(run.groups(sweep.pairs_suite, [pair for one in met for pair in one]))
    if as_json:
        echo_json(_document(system, nodes, pairs, run.failures))
    else:
        _show(nodes, pairs, borne, run.failures)
    sys.exit(_exit_code(nodes, pairs, run.failures))


def _margin(text: str) -> float:
    try:
        return margin_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--margin") from None


# Words ---------------------------------------------------------------------------------------------------


def _show(nodes: Sequence[Nodes], pairs: Pairs | None, margin: float, failures: Sequence[Result]) -> None:
    from rich.console import Console

    from assay.analyse.groups import cause
    from assay.report import sweep_terminal

    console = Console(highlight=False)
    for one in nodes:
        console.print(sweep_terminal.crowd(one.point.benchmark, one.crowd))
        if one.changes:
            console.print(sweep_terminal.changes(one.changes, margin))
    if pairs is not None:
        console.print(sweep_terminal.pairs(pairs.ratios, pairs.blame))
    for result in failures:
        said = f"{result.run.trial.id} gave no figure: {cause(result)}"
        console.print(said, markup=False, soft_wrap=True)
    console.print("Kept as sweep-nodes and sweep-pairs; `assay show sweep-nodes`", markup=False)


def _document(
    system: str, nodes: Sequence[Nodes], pairs: Pairs | None, failures: Sequence[Result]
) -> dict[str, Any]:
    """What `--json` prints; a number that there is none of is null."""
    from assay.analyse.groups import cause
    from assay.records import to_plain

    return {
        "schema": "assay.sweep/1",
        "system": system,
        "nodes": [
            {
                "benchmark": one.point.benchmark,
                "metric": one.point.metric,
                "unit": one.point.unit,
                "slow": one.slow,
                "judged": one.judged,
                "crowd": to_plain(one.crowd),
                "changes": to_plain(one.changes),
            }
            for one in nodes
        ],
        "pairs": None if pairs is None else _pairs_plain(pairs),
        "failures": [{"trial": result.run.trial.id, "cause": cause(result)} for result in failures],
    }


def _pairs_plain(pairs: Pairs) -> dict[str, Any]:
    from assay.records import to_plain

    ratios = [{"nodes": [*pair], "ratio": ratio} for pair, ratio in pairs.ratios.items()]
    return {"ratios": ratios, "blame": to_plain(pairs.blame)}


def _exit_code(nodes: Sequence[Nodes], pairs: Pairs | None, failures: Sequence[Result]) -> int:
    blamed = pairs is not None and (pairs.blame.nodes or pairs.blame.links or pairs.blame.pairs)
    if failures or blamed or any(one.slow for one in nodes):
        return EXIT_WORSE
    return EXIT_OK if all(one.judged for one in nodes) else EXIT_UNDECIDED
