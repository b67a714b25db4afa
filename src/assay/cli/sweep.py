"""`assay sweep`: which nodes of a system are slow, which links between them, and what they share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, duration, echo_json
from assay.cli.sweep_runs import by_reason, stored
from assay.cli.systems import SYSTEMS, named
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.units import fraction, margin_of

if TYPE_CHECKING:
    from assay.analyse.rings import Ring
    from assay.analyse.sweep import Figures, Nodes, Pairs
    from assay.cli.sweep_runs import Swept
    from assay.launch.keep_off import Way

_MOST_COMMANDS = 8  # that the terminal shows of each kind


def _share(_context: click.Context, _option: click.Parameter, text: str) -> float:
    try:
        share = fraction(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < share <= 1:
        raise click.BadParameter(f"{text} is not above 0 and up to 100 %; write it like 25%")
    return share


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Names at commas, but for those inside brackets, `gpu[01,03-07]`, which Slurm expands."""
    return tuple(name for name in re.split(r",(?![^\[]*\])", text or "") if name)


@click.command()
@click.argument("system")
@SYSTEMS
@click.option("--rounds", type=click.IntRange(min=0), default=5, show_default=True, help="Of pairs; 0: none.")
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Timed in each run."
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--nodes", "named", callback=_names, metavar="A,B,…", help="These nodes only.")
@click.option("--idle", is_flag=True, help="Begin nothing on nodes that others use now.")
@click.option(
    "--share",
    callback=_share,
    metavar="SHARE",
    default="25%",
    show_default=True,
    help="Of the nodes, busy at once at most.",
)
@click.option(
    "--for", "for_s", callback=duration, metavar="TIME", help="Begin no trial after so long: 30min."
)
@click.option(
    "--by",
    default="",
    metavar="LABEL",
    help="Node label of the rack or switch (Slurm: `switch`): judge these and their rings, too.",
)
@click.option(
    "--disk", default="", metavar="DIRECTORY", help="Of each node: measure reading there, too (1 GiB)."
)
@click.option(
    "--baseline",
    metavar="RUN",
    multiple=True,
    help="An earlier sweep-nodes of the same nodes, to hold them against; and a sweep-pairs.",
)
@click.option(
    "--margin", metavar="SHARE", default="5%", show_default=True, help="Loss borne by fewer than 8 nodes."
)
@click.option(
    "--print",
    "form",
    type=click.Choice(["names", "labels", "taints", "drain"]),
    help="Slow nodes as commands that keep jobs off them; all else goes to standard error.",
)
@click.option("--new", is_flag=True, help="Begin again although a sweep is unfinished.")
@click.option("--quiet", is_flag=True, help="Show nothing before the results.")
@RUNS
@JSON
def command(
    system: str,
    systems_file: Path | None,
    runs_dir: Path,
    baseline: tuple[str, ...],
    margin: str,
    form: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Measure each node of SYSTEM alone, then pairs in rounds, then rings, and name those that are slow.

    SYSTEM is a cluster of Kubernetes or Slurm, or hosts reached by ssh. Alone: arithmetic (matmul), memory
    (membw), and a disk where --disk names a directory on it. Pairs: an all-reduce between two nodes, in
    rounds in which each has another partner; the pairs of a round run at once as far as --share allows, and
    load a shared fabric together. Rings: one all-reduce over all nodes, and over those of each --by LABEL,
    where --share has room for them.

    The runs are ordinary sessions, sweep-nodes, sweep-pairs and sweep-rings. A sweep that was stopped, ran
    out of time or met busy nodes is gone on with by the same command; what there is by then is judged.

    From 8 nodes on they are held against each other, so that in at most 5 % of sweeps over healthy nodes any
    is named; with fewer, each against its --baseline. Nothing on the nodes is changed, nothing is drained.
    All nodes have to be of one kind; sweep others as another system.

    \b
    Examples:
      assay sweep lab
      assay sweep lab --rounds 0 --repeats 5          nodes only
      assay sweep lab --idle --for 30min              in a gap between jobs; again later to go on
      assay sweep lab --share 100% --by topology.kubernetes.io/zone
      assay sweep lab --new --baseline sweep-nodes    against the newest sweep before this one
      assay sweep lab --print taints > taints.sh      kubectl commands, for you to run
      assay sweep lab --json | jq -r '.nodes[].slow[]'

    \b
    Exit codes: 0 judged, and nothing is slow; 1 something is slow, or a run gave no figure; 3 too few nodes
    or runs to judge, or not all of it is done; 4 the system can't be swept; 130 stopped by Ctrl-C, run again
    to go on.
    """
    from assay.cli.sweep_runs import Sweep, Wanted
    from assay.cluster.keep_off import way, ways

    if form is not None and as_json:
        raise click.UsageError("--json has every way to keep jobs off: leave --print out")
    where = named(system, systems_file)
    if form is not None:
        way(where.definition, {}, form)  # known before hours are spent
    borne = _margin(margin)
    before, sessions = stored(runs_dir, baseline)
    swept = Sweep(Wanted(where, runs_dir, **asked)).run()
    if sessions & {measured.session for measured in swept.measured}:
        raise InputError(
            f"--baseline {', '.join(baseline)} is the sweep that went on here; add --new, or name another"
        )
    found = _judged(swept, before, borne)
    off = ways(where.definition, _slow(swept, found))
    if as_json:
        echo_json(_document(system, swept, found, off))
    else:
        _show(swept, found, borne, off, beside=form is not None)
    for line in (line for one in off if one.form == form for line in one.apply):
        click.echo(line)
    sys.exit(_exit_code(swept, found))


def _margin(text: str) -> float:
    try:
        return margin_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--margin") from None


@dataclass(frozen=True)
class Found:
    """The verdicts."""

    nodes: Sequence[Nodes]
    pairs: Pairs | None
    rings: Sequence[Ring]

    @property
    def slow(self) -> bool:
        """Whether anything is named."""
        blame = None if self.pairs is None else self.pairs.blame
        blamed = blame is not None and (blame.groups or blame.nodes or blame.links or blame.pairs)
        return bool(blamed) or any(one.slow for one in self.nodes) or any(one.slower for one in self.rings)


def _judged(swept: Swept, before: Figures | None, margin: float) -> Found:
    from assay.analyse.sweep import judged_nodes, judged_pairs, judged_rings

    alone, *together = swept.measured
    nodes = judged_nodes(alone, before, margin)
    if not together:
        return Found(nodes, None, ())
    pairs, *rings = together
    judged = judged_pairs(pairs, swept.groups or None, before=before, margin=margin)
    return Found(nodes, judged, judged_rings(rings, pairs, swept.groups))


def _slow(swept: Swept, found: Found) -> dict[str, dict[str, float]]:
    """Slow node → what it is slow in, and how; the slowest first."""
    from assay.analyse.suspects import suspects

    return {one.node: one.losses for one in suspects(found.nodes, found.pairs, swept.measured[0].hosts)}


# Words ---------------------------------------------------------------------------------------------------


def _show(swept: Swept, found: Found, margin: float, off: Sequence[Way], *, beside: bool) -> None:
    """All that was found; on standard error where something else is what was asked for."""
    from rich.console import Console

    from assay.analyse.groups import cause
    from assay.report import sweep_rings, sweep_terminal, sweep_words

    console = Console(highlight=False, stderr=beside)
    for one in found.nodes:
        console.print(sweep_terminal.crowd(one.point.benchmark, one.crowd))
        if one.changes:
            console.print(sweep_terminal.changes(one.changes, margin))
    if found.pairs is not None:
        if found.pairs.changes:
            console.print(sweep_terminal.changes(found.pairs.changes, margin))
        console.print(sweep_terminal.pairs(found.pairs.ratios, found.pairs.blame))
    if found.rings:
        console.print(sweep_rings.rings(found.rings))
    told = sweep_words.told_apart(found.nodes, found.pairs, swept.measured[0].hosts)
    said = [f"{node}: {words}" for node, words in told]
    said += [] if beside else _ways(off)
    said += [f"{result.run.trial.id} gave no figure: {cause(result)}" for result in swept.failures]
    said += [f"left out, {words}" for words in by_reason(swept.left_out)]
    said += [f"not run: {words}" for words in swept.too_wide]
    said += [] if swept.complete else ["Not all of it is done: the same command goes on, --new begins again"]
    kept = " ".join(dict.fromkeys(measured.session.partition("/")[0] for measured in swept.measured))
    said.append(f"Kept: `assay show sweep-nodes`; as a page with heat maps: `assay report {kept}`")
    for line in said:
        console.print(line, markup=False, soft_wrap=True)


def _ways(off: Sequence[Way]) -> Iterator[str]:
    """The commands that keep jobs off, where those are few; else how they are had."""
    for way in off:
        if way.undo and len(way.apply) <= _MOST_COMMANDS:
            yield f"to keep jobs off, none of it was done ({way.does}):"
            yield from (f"  {line}" for line in way.apply)
        elif way.undo:
            yield f"--print {way.form}: {len(way.apply)} commands that keep jobs off ({way.does})"


def _document(system: str, swept: Swept, found: Found, off: Sequence[Way]) -> dict[str, Any]:
    """What `--json` prints; a number that there is none of is null."""
    from assay.analyse.groups import cause
    from assay.records import to_plain

    return {
        "schema": "assay.sweep/1",
        "system": system,
        "sessions": [measured.session for measured in swept.measured],
        "complete": swept.complete,
        "left_out": [{"node": node, "why": why} for node, why in sorted(swept.left_out.items())],
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
            for one in found.nodes
        ],
        "pairs": None if found.pairs is None else _pairs_plain(found.pairs),
        "rings": to_plain(found.rings),
        "keep_off": to_plain(off),
        "failures": [{"trial": result.run.trial.id, "cause": cause(result)} for result in swept.failures],
    }


def _pairs_plain(pairs: Pairs) -> dict[str, Any]:
    from assay.records import to_plain

    ratios = [{"nodes": [*pair], "ratio": ratio} for pair, ratio in pairs.ratios.items()]
    changes = to_plain(pairs.changes)
    return {
        "ratios": ratios,
        "groups": dict(pairs.groups),
        "blame": to_plain(pairs.blame),
        "changes": changes,
    }


def _exit_code(swept: Swept, found: Found) -> int:
    if swept.failures or found.slow:
        return EXIT_WORSE
    return EXIT_OK if swept.complete and all(one.judged for one in found.nodes) else EXIT_UNDECIDED
