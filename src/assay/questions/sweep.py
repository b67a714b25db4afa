"""Which nodes of a system are slow, which links between them, and what they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Count,
    Question,
    Reads,
    Reference,
    argument,
    function,
    option,
    question,
    read_value,
    supplied,
)
from assay.questions.sweep_runs import SweepInProgress, SweepRequest, SweepRuns, by_reason, stored
from assay.questions.systems import system_named
from assay.questions.values import Duration, File, Seed
from assay.run.progress import Silence, Tell
from assay.suite.model import System
from assay.units import fraction, margin_of, seconds
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.analyse.sweeps.verdicts import Pairs, SweepVerdicts
    from assay.launch.platform import KeepOffMethod
    from assay.view.blocks import Block

_MOST_COMMANDS: Final = 8  # of each kind that the terminal shows


def _share(text: str | float) -> float:
    share = fraction(text)
    if not 0 < share <= 1:
        raise ValueError(f"{text} is not above 0 and up to 100 %; write it as 25%")
    return share


def _seconds(text: str) -> float:
    if not 0.1 <= float(text) < float("inf"):
        raise ValueError(f"{text} is not at least 0.1")
    return float(text)


def _names(text: str) -> tuple[str, ...]:
    """Names split at commas, except within brackets, `gpu[01,03-07]`, which Slurm expands."""
    return tuple(name for name in re.split(r",(?![^\[]*\])", text) if name)


@question
class Sweep(Question):
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

    system: str | System = argument()
    systems: File | None = option(
        "File with the system.  [default: systems.yaml here]", default=None, local=True
    )
    rounds: Seed = option("Rounds of pairs; 0: none.", default=5)
    repeats: Count = option("Runs of each.", default=3)
    seconds: Annotated[float, Reads(_seconds, "NUMBER")] = option("Measured time of each run.", default=1.0)
    device: Literal["auto", "cpu", "cuda"] = option("What computes.", default="auto")
    nodes: Annotated[Sequence[str], Reads(_names, "A,B,…")] | None = option("Only these nodes.", default=None)
    idle: bool = option("Start nothing on nodes that others are using.", default=False)
    share: Annotated[str | float, Reads(_share, "SHARE")] = option(
        "Maximum share of the nodes to use at once.", default="25%"
    )
    for_s: Duration | None = option(
        "Start no trial after this time, such as 30min.", default=None, names=("--for",)
    )
    by: str = option(
        "Node label of the rack or switch (Slurm: `switch`): also judge these and their rings.",
        default="",
        metavar="LABEL",
    )
    disk: str = option(
        "Also measure reading from this directory of each node (1 GiB).", default="", metavar="DIRECTORY"
    )
    baseline: str | Sequence[str] = option(
        "An earlier sweep-nodes of the same nodes to compare with; and a sweep-pairs.",
        default=(),
        metavar="RUN",
    )
    margin: Annotated[str | float, Reads(margin_of, "SHARE")] = option(
        "Tolerated loss with fewer than 8 nodes.", default="5%"
    )
    print: Literal["names", "labels", "taints", "drain"] | None = option(
        "Print commands that keep jobs off slow nodes; all else goes to standard error.",
        default=None,
        output=True,
    )
    new: bool = option("Start again even if a sweep is unfinished.", default=False)
    quiet: bool = option("Show nothing before the results.", default=False, output=True)
    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Tell | None = supplied("sessions", default=None)
    noted: Callable[[str], None] | None = supplied("lines", default=None)
    command_line: Sequence[str] = supplied("command line", default=())

    explains_file = True

    def answer(self) -> SweepResult:
        """What is slow. Raises InputError if the system can't be swept or a baseline does not match.

        Raises what `run` raises.
        """
        from assay.analyse.sweeps.verdicts import judge_sweep
        from assay.node_sweep import keep_off_method, keep_off_methods

        where = system_named(self.system, self.systems) if isinstance(self.system, str) else self.system
        if self.print is not None:
            keep_off_method(where.definition, {}, self.print)  # fails before hours are spent
        directory = runs_directory(self.runs)
        references = (self.baseline,) if isinstance(self.baseline, str) else tuple(self.baseline)
        before, sessions = stored(directory, references)
        request = SweepRequest(
            where=where,
            runs_dir=directory,
            repeats=self.repeats,
            device=self.device,
            seconds=self.seconds,
            rounds=self.rounds,
            share=read_value("share", self.share, _share) or 0.0,
            named=tuple(self.nodes or ()),
            idle=self.idle,
            by=self.by,
            disk=self.disk,
            for_s=None if self.for_s is None else seconds(self.for_s),
            new=self.new,
            command_line=self.command_line,
        )
        measured = SweepInProgress(request, self.progress or Silence, self.noted or _nobody).run()
        if sessions & {session.session for session in measured.measured}:
            raise InputError(
                f"--baseline {', '.join(references)} is the sweep that was resumed here; add --new, or name "
                "another"
            )
        alone, *together = measured.measured
        verdicts = judge_sweep(
            alone,
            together[0] if together else None,
            together[1:],
            hosts=alone.hosts,
            groups=measured.groups,
            nodes_before=before,
            pairs_before=before,
            margin=margin_of(self.margin),
        )
        ways = keep_off_methods(where.definition, verdicts.losses)
        return SweepResult(where.name, measured, verdicts, ways, self.print)

    def write(self, answer: SweepResult) -> SweepResult | bytes:
        """The commands that keep jobs off, if they are printed."""
        if self.print is None:
            return answer
        lines = (line for way in answer.keep_off if way.form == self.print for line in way.apply)
        return "".join(f"{line}\n" for line in lines).encode()


sweep = function(Sweep, Sweep.answer)


@dataclass(frozen=True)
class SweepResult(Answer):
    """The result of `sweep`.

    system    that was swept
    runs      what was measured so far, and what remains for the next call
    verdicts  what is slow
    keep_off  ways to keep jobs off the slow nodes, as commands that Assay did not run
    printed   the way whose commands are printed beside
    """

    system: str
    runs: SweepRuns
    verdicts: SweepVerdicts
    keep_off: tuple[KeepOffMethod, ...]
    printed: str | None = None

    @property
    def exit_code(self) -> int:
        """Whether something is slow or failed, and whether everything was judged."""
        if self.runs.failures or self.verdicts.slow:
            return EXIT_WORSE
        return EXIT_OK if self.runs.complete and self.verdicts.judged else EXIT_UNDECIDED

    def view(self) -> Iterator[Block]:
        """The nodes by measurement, the pairs, the rings; then each slow node, and what to do."""
        from assay.analyse.points.groups import cause
        from assay.view.sweep import findings

        runs = self.runs
        yield from findings(self.verdicts)
        lines = [] if self.printed else [*_ways(self.keep_off)]
        lines += [f"{result.run.trial.id} gave no result: {cause(result)}" for result in runs.failures]
        lines += [f"left out, {text}" for text in by_reason(runs.left_out)]
        lines += [f"not run: {text}" for text in runs.too_wide]
        if not runs.complete:
            lines.append("The sweep is incomplete: the same command resumes it, --new starts again")
        kept = " ".join(dict.fromkeys(measured.session.partition("/")[0] for measured in runs.measured))
        lines.append(f"Details: `assay show sweep-nodes`; page with heat maps: `assay report {kept}`")
        yield from (Paragraph(line, wraps=False) for line in lines)

    def document(self) -> dict[str, Any]:
        """The output of `--json`; a number that does not exist is null."""
        from assay.analyse.points.groups import cause
        from assay.records import to_plain

        runs = self.runs
        return {
            "schema": "assay.sweep/1",
            "system": self.system,
            "sessions": [measured.session for measured in runs.measured],
            "complete": runs.complete,
            "left_out": [{"node": node, "why": why} for node, why in sorted(runs.left_out.items())],
            **_verdicts_as_data(self.verdicts),
            "keep_off": to_plain(self.keep_off),
            "failures": [{"trial": result.run.trial.id, "cause": cause(result)} for result in runs.failures],
        }


def _ways(off: Sequence[KeepOffMethod]) -> Iterator[str]:
    """The commands that keep jobs off, if there are few; else how to get them."""
    for way in off:
        if way.undo and len(way.apply) <= _MOST_COMMANDS:
            yield f"to keep jobs off (Assay runs none of these commands; {way.does}):"
            yield from (f"  {line}" for line in way.apply)
        elif way.undo:
            yield f"--print {way.form}: {len(way.apply)} commands that keep jobs off ({way.does})"


def _nobody(_words: str) -> None:
    """Ignores messages."""


def _verdicts_as_data(verdicts: SweepVerdicts) -> dict[str, Any]:
    from assay.records import to_plain

    return {
        "nodes": [
            {
                "benchmark": measurement.point.benchmark,
                "metric": measurement.point.metric,
                "unit": measurement.point.unit,
                "slow": measurement.slow,
                "judged": measurement.judged,
                "crowd": to_plain(measurement.crowd),
                "changes": to_plain(measurement.changes),
            }
            for measurement in verdicts.nodes
        ],
        "pairs": None if verdicts.pairs is None else _pairs_as_data(verdicts.pairs),
        "rings": to_plain(verdicts.rings),
    }


def _pairs_as_data(pairs: Pairs) -> dict[str, Any]:
    from assay.records import to_plain

    ratios = [{"nodes": [*pair], "ratio": ratio} for pair, ratio in pairs.ratios.items()]
    changes = to_plain(pairs.changes)
    return {
        "ratios": ratios,
        "groups": dict(pairs.groups),
        "blame": to_plain(pairs.blame),
        "changes": changes,
    }


def judged_sweep_document(run: str, verdicts: SweepVerdicts) -> dict[str, Any]:
    """What is slow in the sweep of these runs, with the keys of `assay sweep --json`."""
    return {"schema": "assay.judged-sweep/1", "run": run, **_verdicts_as_data(verdicts)}
