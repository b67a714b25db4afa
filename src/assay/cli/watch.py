"""`assay watch`: what a running job does to this machine, live."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import JSON, duration


@click.command()
@click.option("--pid", type=click.IntRange(min=1), help="Process to watch, with its children.")
@click.option("--slurm-job", metavar="ID", help="Running job of Slurm to watch, on all of its nodes.")
@click.option("--kubernetes", metavar="NAMESPACE/JOB", help="Job to watch, in all of its running pods.")
@click.option(
    "--flight-recorder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Dumps of torch's flight recorder to judge instead.",
)
@click.option("--nccl-ras", metavar="HOST:PORT", help="Where NCCL of the job answers: localhost:28028.")
@click.option(
    "--log",
    "logs",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Log of the job that grows, or one per rank: its steps, alone or with a job above.",
)
@click.option("--step-pattern", metavar="REGEX", help="A step in logs of an unknown program; see below.")
@click.option("--every", callback=duration, default="1s", show_default=True, help="Time between samples.")
@click.option("--for", "for_", callback=duration, metavar="TIME", help="How long; else until it ends.")
@click.option("--python", default="python3", show_default=True, help="Interpreter on the nodes, in the pods.")
@JSON
def command(
    pid: int | None,
    slurm_job: str | None,
    kubernetes: str | None,
    flight_recorder: Path | None,
    nccl_ras: str | None,
    logs: tuple[Path, ...],
    step_pattern: str | None,
    every: float,
    for_: float | None,
    python: str,
    as_json: bool,
) -> None:
    """Watch a job that Assay did not start: its CPU time, memory and disk traffic, its nodes and their GPUs.

    The job is a process on this machine and everything below it, a running job of Slurm, or the pods of a
    Kubernetes job. Assay reads what the kernel and NVIDIA's driver count, and changes nothing of the job: in
    Slurm it runs a step of its own that overlaps with the job's, in Kubernetes a process of its own in each
    pod's first container, which needs Python 3.9 there. The live table and the lines go to standard output; a
    summary follows when the job ends, when the time is over, or after Ctrl-C.

    From dumps of torch's flight recorder (TORCH_FR_BUFFER_SIZE), it names the ranks that are missing in a
    collective in which others wait, and those that others wait for. NCCL 2.28.7 or newer answers the same
    while the job runs, on its nodes at localhost:28028.

    From logs that grow, it shows the newest step and figures, in every format that `assay import` knows, and
    says when steps stop. --step-pattern describes a step of another program: `(?P<step>[0-9]+)` stands for
    its number, `(?P<seconds>…)` or `(?P<milliseconds>…)` for the time that it took, any other named group for
    a figure. From one log per rank with times of the rank's own, it names the rank that is slower.

    \b
    Examples:
      assay watch --pid 4711
      assay watch --slurm-job 1234 --every 5s --for 10min
      assay watch --kubernetes training/bert
      assay watch --flight-recorder traces
      assay watch --nccl-ras localhost:28028 --every 10s
      assay watch --pid 4711 --log train.log
      assay watch --log rank0.log --log rank1.log --step-pattern 'it (?P<step>\\d+) (?P<seconds>\\S+) s'
      assay watch --pid 4711 --json > samples.jsonl     a line per sample, then the summary

    \b
    Exit codes: 0 watched to the end of the job or of the time; 1 dumps, NCCL or logs name a rank or
    a stop; 4 there is no such process, running job, dump or log, or no NCCL answers; 5 nothing could be
    sampled there; 130 stopped by Ctrl-C.
    """
    named = sum(choice is not None for choice in (pid, slurm_job, kubernetes, flight_recorder, nccl_ras))
    if named > 1 or not (named or logs):
        raise click.UsageError(
            "name one: --pid, --slurm-job, --kubernetes, --flight-recorder, --nccl-ras, or --log"
        )
    if step_pattern is not None and not logs:
        raise click.UsageError("--step-pattern describes what --log names; name a log")
    if logs and (flight_recorder is not None or nccl_ras is not None):
        raise click.UsageError("--log goes with --pid, --slurm-job or --kubernetes, or stands alone")
    if nccl_ras is not None:
        from assay.cli.watch_nccl import show as show_nccl

        show_nccl(nccl_ras, every, for_, as_json=as_json)
        return
    if flight_recorder is not None:
        from assay.cli.watch_dumps import show as show_dumps

        show_dumps(flight_recorder, as_json=as_json)
        return
    steps = None
    if logs:
        from assay.monitor.watching_logs import watched_logs

        steps = watched_logs(logs, step_pattern)
    from assay.cli.watch_logs import ended

    if slurm_job is not None or kubernetes is not None:
        from assay.cli.watch_job import show as show_job

        show_job(slurm_job, kubernetes, every, for_, python, steps, as_json=as_json)
    elif pid is not None:
        from assay.cli.watch_process import show as show_process

        show_process(pid, every, for_, steps, as_json=as_json)
    elif steps is not None:
        from assay.cli.watch_logs import show as show_logs

        show_logs(steps, every, for_, as_json=as_json)
    ended(steps)
