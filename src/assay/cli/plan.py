"""`assay plan`: what a suite would run, in which order, and exactly what each trial would submit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.cli.until_options import check_limits, until_options
from assay.errors import LaunchError

if TYPE_CHECKING:
    from rich.table import Table

    from assay.launch.launcher import PartCheck
    from assay.questions.plan import SuitePlan
    from assay.records import Plan, RenderedJob, Trial
    from assay.run.interim_looks import Limits


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path),
    help="The systems file.  [default: systems.yaml next to the suite]",
)
@click.option("--system", "only", multiple=True, metavar="NAME", help="Plan only this system; repeatable.")
@until_options
@RUNS
@click.option("--show", "shown", metavar="TRIAL", help="Print what this trial would submit.")
@click.option("--validate", is_flag=True, help="With --show: have the platform check it in a dry run.")
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
    """Show the trials of SUITE in their order, and exactly what each would submit.

    This is the dry run: it prints what `assay run` submits with the same options, including the looks
    and the confidence level for a run until decided. It starts nothing and writes nothing.
    The duration is estimated from earlier runs of the same trials or from their parameters, or is unknown.
    --validate sends the trial and one of its pods to the API server of a Kubernetes system as a server-side
    dry run, so that quota, Pod Security and webhooks check it too, and prints the server's answer.

    \b
    Examples:
      assay plan suite.yaml
      assay plan suite.yaml --show train-2x1-r01    command, environment and files of one trial
      assay plan suite.yaml --show train-2x1-r01 --validate
      assay plan suite.yaml --system here           only one side
      assay plan suite.yaml --until decided --max-repeats 32
      assay plan suite.yaml --json | jq -r '.trials[].id'

    \b
    Exit codes: 0 the suite can be run; 4 it can't: every problem is listed with its file and line;
    5 the platform rejects the trial, or can't be reached.
    """
    if validate and shown is None:
        raise click.UsageError("--validate checks one trial: name it with --show")
    check_limits(until, max_repeats, max_time)
    from assay.questions.plan import plan

    suite_plan = plan(
        suite,
        systems=systems_file,
        system=only,
        until="decided" if until else None,
        max_repeats=max_repeats,
        max_time=max_time,
        runs=runs_dir,
    )
    if shown is None:
        if as_json:
            echo_json(suite_plan.document())
        else:
            _print_plan(suite_plan)
        return
    trial = suite_plan.trial(shown)
    answers = suite_plan.checked(trial) if validate else None
    if as_json:
        echo_json(suite_plan.trial_document(trial, answers))
    else:
        replies = [f"# {_describe_check(check)}" for check in answers or ()]
        click.echo("\n".join([sent_text(trial, suite_plan.sent(trial)), *replies]))
    if any(check.refusal for check in answers or ()):
        raise LaunchError(f"trial {trial.id} would be rejected")


def _describe_check(check: PartCheck) -> str:
    return f"{check.part}: {'accepted' if check.refusal is None else f'rejected: {check.refusal}'}"


def sent_text(trial: Trial, rendered: RenderedJob) -> str:
    """Command, environment and files, ready to copy."""
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


def _print_plan(suite_plan: SuitePlan) -> None:
    from assay.cli.console import Console
    from assay.run import duration

    console = Console(highlight=False, width=400)  # never wrapped: an id that is cut can't be typed
    console.print(_table(suite_plan.plan))
    console.print(_design(suite_plan), markup=False, soft_wrap=True)
    for line in duration.lines(suite_plan.plan, suite_plan.durations()):
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


def _design(suite_plan: SuitePlan) -> str:
    """The design as text: what an analysis rests on."""
    planned, limits = suite_plan.plan, suite_plan.limits
    points = len({(t.benchmark, t.shape, str(t.varied)) for t in planned.trials})
    order = "interleaved: systems alternate within each block" if planned.interleaved else "not interleaved"
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
            *_describe_requirements(planned),
            *_brought_near(planned),
            *([] if limits is None else _looks(suite_plan, limits)),
            f"Digests: suite {planned.suite_digest}, plan {planned.digest}.",
        ]
    )


def _tried_again(planned: Plan) -> list[str]:
    """How often each benchmark's trials are retried, grouped by number."""
    benchmarks: dict[int, dict[str, None]] = {}
    for trial in planned.trials:
        benchmarks.setdefault(trial.retries, {})[trial.benchmark] = None
    parts = [
        f"{'at most ' if most else ''}{_count(most, 'time')}"
        + (f" ({', '.join(names)})" if len(benchmarks) > 1 else "")
        for most, names in benchmarks.items()
    ]
    return [f"A trial that the platform lost is retried {'; '.join(parts)}; a failed trial is not."]


def _describe_requirements(planned: Plan) -> list[str]:
    requirements = [
        f"{benchmark} {expectation.metric} {expectation.written}"
        for benchmark, expectations in planned.expectations.items()
        for expectation in expectations
    ]
    return [f"Required: {'; '.join(requirements)}."] if requirements else []


def _brought_near(planned: Plan) -> list[str]:
    """Which frames each benchmark's nodes bring near, and where to."""
    from assay import redact
    from assay.units import counted, human

    data = {trial.benchmark: trial.data for trial in planned.trials if trial.data is not None}
    lines = []
    for benchmark, staged in data.items():
        size, root = human(float(staged.bytes), "B"), redact.text(staged.root)
        when = (
            "copied before the ranks start" if staged.mode == "local" else "each kept when it is first read"
        )
        most = (
            ""
            if staged.space_bytes is None
            else f"; {staged.cache} has at most {human(float(staged.space_bytes), 'B')}"
        )
        lines += [
            f"Data: {benchmark} reads {counted(staged.frames, 'frame')} of {Path(staged.manifest).name} from "
            f"{staged.directory}: {size} of {root}, {when}{most}."
        ]
    return lines


def _looks(suite_plan: SuitePlan, limits: Limits) -> list[str]:
    """The looks, their confidence level, and what ends the run."""
    from assay.units import human_seconds

    late = (
        ""
        if limits.max_time_s is None
        else f"; no block starts after {human_seconds(limits.max_time_s)} of trials"
    )
    looks, level = ", ".join(map(str, suite_plan.plan.looks)), f"{100 * (1 - suite_plan.nominal_p):.4g} %"
    return [
        f"Until decided: looks after {looks} blocks, ends at the first look that leaves no primary comparison"
        f" undecided{late}.",
        f"Level: {level} intervals at each look (p {suite_plan.nominal_p:g}), so that 95 % hold at all looks"
        " jointly; joint claims share it.",
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
