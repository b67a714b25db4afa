"""`assay plan`: what a suite would run, in which order, and exactly what each trial would send."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.cli.until_options import check_limits, until_options
from assay.errors import LaunchError

if TYPE_CHECKING:
    from rich.table import Table

    from assay.launch.check import PartCheck
    from assay.records import Plan, RenderedJob, Trial
    from assay.run.duration import DurationEstimate
    from assay.run.interim_looks import Limits


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path),
    help="The systems' file.  [default: systems.yaml beside the suite]",
)
@click.option("--system", "only", multiple=True, metavar="NAME", help="Plan only this system; repeatable.")
@until_options
@RUNS
@click.option("--show", "shown", metavar="TRIAL", help="Print what this trial would send.")
@click.option("--validate", is_flag=True, help="With --show: have the platform check it, as a dry run there.")
@JSON
def command(
    suite: Path,
    systems_file: Path | None,
    only: tuple[str, ...],
    until: str | None,
    max_repeats: int | None,
    max_time: float | None,
    runs_dir: Path,
    shown: str | None,
    validate: bool,
    as_json: bool,
) -> None:
    """Show the trials of SUITE in their order, and exactly what each would send.

    This is the dry run: what `assay run` with the same options sends is what is printed here, with the looks
    and the level of the intervals where it runs until decided. It starts nothing and writes nothing.
    The duration rests on earlier runs of the same trials, or on what their parameters set, or is unknown.
    --validate sends it to the API server of a Kubernetes system as a server-side dry run, with a pod of it,
    so that quota, Pod Security and webhooks are asked too, and prints what the server says.

    \b
    Examples:
      assay plan suite.yaml
      assay plan suite.yaml --show train-2x1-r01    command, environment and files of one trial
      assay plan suite.yaml --show train-2x1-r01 --validate
      assay plan suite.yaml --system here           one side only
      assay plan suite.yaml --until decided --max-repeats 32
      assay plan suite.yaml --json | jq -r '.trials[].id'

    \b
    Exit codes: 0 the suite can be run; 4 it can't: every problem is named with its file and line;
    5 the platform refuses the trial, or can't be asked.
    """
    if validate and shown is None:
        raise click.UsageError("--validate checks one trial: name it with --show")
    check_limits(until, max_repeats, max_time)
    from assay.api.plans import plan
    from assay.records import to_plain
    from assay.run import duration
    from assay.rundir.files import without_secrets

    found = plan(
        suite,
        systems=systems_file,
        system=only,
        until="decided" if until else None,
        max_repeats=max_repeats,
        max_time=max_time,
        runs=runs_dir,
    )
    planned, asked = found.plan, found.limits
    if shown is None:
        durations = found.durations()
        if as_json:
            looked = None if asked is None else _until(planned, asked)
            document = {"schema": "assay.plan/1", **without_secrets(planned), "until": looked}
            echo_json({**document, "duration": _durations(durations)})
        else:
            _print_plan(planned, asked, duration.lines(planned, durations))
        return
    trial = found.trial(shown)
    says = found.checked(trial) if validate else []
    rendered = found.sent(trial)
    if as_json:
        document = {"schema": "assay.trial/1", "trial": without_secrets(trial), "sends": to_plain(rendered)}
        echo_json({**document, "platform_says": to_plain(says)} if validate else document)
    else:
        click.echo("\n".join([_sent(trial, rendered), *(f"# {_said(one)}" for one in says)]))
    if any(one.refusal for one in says):
        raise LaunchError(f"trial {trial.id} would be refused")


def _said(one: PartCheck) -> str:
    return f"{one.part}: {'accepted' if one.refusal is None else f'refused: {one.refusal}'}"


def _sent(trial: Trial, rendered: RenderedJob) -> str:
    """Command, environment and files, as a person copies them."""
    head = (
        f"# trial {trial.id}: {trial.workload} on {trial.system}, {_count(trial.shape.ranks, 'rank')},"
        f" seed {trial.seed}, at most {trial.timeout_s:g} s"
    )
    if rendered.whole:
        return f"{head}\n{rendered.command.rstrip()}"
    lines = [
        head,
        "# command",
        rendered.command,
        "# environment",
        *(f"{name}={shlex.quote(value)}" for name, value in sorted(rendered.env.items())),
        "# files",
        *(f"{digest}  {name}" for name, digest in sorted(rendered.files.items())),
    ]
    return "\n".join(lines)


def _until(planned: Plan, limits: Limits) -> dict[str, Any]:
    """How one looks, and at which level: that of every interval at every look."""
    from assay.analyse.statistics.sequential import nominal_p

    p = nominal_p(limits.max_repeats, paired=planned.interleaved)
    return {
        "max_repeats": limits.max_repeats,
        "max_time_s": limits.max_time_s,
        "looks": list(planned.looks),
        "nominal_p": p,
        "confidence": 1 - p,
    }


def _durations(of_systems: Mapping[str, DurationEstimate]) -> dict[str, Any]:
    from assay.records import to_plain
    from assay.run.duration import total

    systems = {name: to_plain(of_system) for name, of_system in of_systems.items()}
    return {"systems": systems, "total": to_plain(total(of_systems.values()))}


def _print_plan(planned: Plan, limits: Limits | None, duration: Iterable[str]) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=400)  # never folded: an id that is cut can't be typed
    console.print(_table(planned))
    console.print(_design(planned, limits), markup=False, soft_wrap=True)
    for line in duration:
        console.print(line, markup=False, soft_wrap=True)


def _table(planned: Plan) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("block", "trial", "workload", "system", "shape", "seed"):
        table.add_column(heading, justify="right" if heading in ("block", "seed") else "left", no_wrap=True)
    for trial in planned.trials:
        cells = (trial.block, trial.id, trial.workload, trial.system, trial.shape, trial.seed)
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def _design(planned: Plan, limits: Limits | None) -> str:
    """The design in words: what an analysis rests on."""
    points = len({(t.benchmark, t.shape, str(t.varied)) for t in planned.trials})
    order = "interleaved: systems take turns within each block" if planned.interleaved else "not interleaved"
    if len(planned.systems) == 1:
        order = "one system, nothing to interleave"
    baseline = f", baseline {planned.baseline}" if planned.baseline else ""
    return "\n".join(
        [
            f"\n{_count(len(planned.trials), 'trial')}: {_count(points, 'point')} on"
            f" {_count(len(planned.systems), 'system')} ({', '.join(planned.systems)}{baseline}),"
            f" {'' if limits is None else 'at most '}{_count(planned.repeats, 'block')}.",
            f"Order: {order}; each block shuffled by seed {planned.seed}.",
            f"Margin: {100 * planned.margin:.3g} %.",
            *_tried_again(planned),
            *_asked(planned),
            *([] if limits is None else _looks(planned, limits)),
            f"Digests: suite {planned.suite_digest}, plan {planned.digest}.",
        ]
    )


def _tried_again(planned: Plan) -> list[str]:
    """How often each benchmark's trials are tried again, those with the same number together."""
    benchmarks: dict[int, dict[str, None]] = {}
    for trial in planned.trials:
        benchmarks.setdefault(trial.retries, {})[trial.benchmark] = None
    parts = [
        f"{'at most ' if most else ''}{_count(most, 'time')}"
        + (f" ({', '.join(of)})" if len(benchmarks) > 1 else "")
        for most, of in benchmarks.items()
    ]
    return [f"A trial that the platform lost is tried again {'; '.join(parts)}; one that failed is not."]


def _asked(planned: Plan) -> list[str]:
    requirements = [
        f"{benchmark} {expectation.metric} {expectation.written}"
        for benchmark, asked in planned.expectations.items()
        for expectation in asked
    ]
    return [f"Required: {'; '.join(requirements)}."] if requirements else []


def _looks(planned: Plan, limits: Limits) -> list[str]:
    """When one looks and at which level, and what ends the run."""
    from assay.units import human_seconds

    how = _until(planned, limits)
    late = (
        ""
        if limits.max_time_s is None
        else f"; no block begins after {human_seconds(limits.max_time_s)} of trials"
    )
    looks, level = ", ".join(map(str, planned.looks)), f"{100 * how['confidence']:.4g} %"
    return [
        f"Until decided: looks after {looks} blocks, ends at the first that leaves no primary comparison"
        f" undecided{late}.",
        f"Level: at each look {level} intervals (p {how['nominal_p']:g}), so that 95 % hold at all looks"
        " together; claims that are made together share it.",
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
