"""`assay monitor fetch`: the telemetry of finished runs from a Prometheus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.questions.fetch_telemetry import FetchedRun

MOST_LINES = 12  # of missing metrics


@click.command("fetch")
@click.argument("run", metavar="RUN")
@click.option("--prometheus", required=True, metavar="URL", help="Its address, which ends before /api/v1.")
@click.option("--token-file", type=click.Path(path_type=Path), help="A file with a bearer token.")
@click.option("--token-env", metavar="NAME", help="A variable that holds the token instead.")
@click.option("--ca-file", type=click.Path(path_type=Path), help="Certificates that vouch for the server.")
@RUNS
@JSON
def command(
    run: str,
    prometheus: str,
    token_file: Path | None,
    token_env: str | None,
    ca_file: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Store what a Prometheus has about the nodes, pods and GPUs of finished runs.

    RUN is a suite (its newest session) or a session. Metrics of the DCGM exporter, node exporter and cAdvisor
    are used, for the time and the nodes of each trial, under any of their usual labels. Reports and doubts
    then rest on them where Assay's sampler did not run. Where it did, the two are compared.

    \b
    Examples:
      assay monitor fetch training --prometheus http://prometheus:9090
      oc whoami -t > token
      assay monitor fetch training --prometheus https://thanos-querier.example --token-file token

    \b
    Exit codes: 0 stored; 1 nothing about these runs is there; 4 an address, a token or RUN is wrong; 5 the
    Prometheus does not answer, or refuses.
    """
    from assay.questions.fetch_telemetry import fetch_telemetry

    watched = sys.stderr.isatty() and not as_json

    def progress(done: int, total: int) -> None:
        click.echo(f"\r{done} of {total} runs", nl=done == total, err=True)

    fetched = fetch_telemetry(
        run,
        prometheus,
        token_file=token_file,
        token_env=token_env,
        ca_file=ca_file,
        runs=runs_dir,
        progress=progress if watched else None,
    )
    if as_json:
        from assay.questions.fetch_telemetry import fetch_document

        echo_json(fetch_document(fetched))
    else:
        for line in _describe_fetched(fetched):
            click.echo(line)
    if all(run.why_not for run in fetched):
        click.get_current_context().exit(1)


def _describe_fetched(fetched: Sequence[FetchedRun]) -> Iterator[str]:
    from assay.units import counted, human

    for run in fetched:
        if run.why_not:
            yield f"{run.run}: nothing stored: {run.why_not}"
            continue
        there, node_count = run.nodes
        yield (
            f"{run.run}: {there} of {counted(node_count, 'node')}, {counted(run.gpus, 'GPU')}: "
            f"{counted(run.samples[0], 'row')} of nodes, {run.samples[1]:,} of GPUs"
        )
        if run.agreement is not None:
            agreed = run.agreement.compared - len(run.agreement.differences)
            yield f"  {agreed} of {run.agreement.compared} means agree with the sampler's"
            for differing in run.agreement.differences:
                unit = differing.unit
                yield (
                    f"  ! {differing.what} of {differing.place}: sampler {human(differing.sampler, unit)}, "
                    f"Prometheus {human(differing.prometheus, unit)}, "
                    f"tolerance {human(differing.tolerance, unit)}"
                )
    missing = {name: source for run in fetched for name, source in (run.missing or {}).items()}
    everywhere = [name for name in missing if all(name in (run.missing or {}) for run in fetched)]
    if everywhere:
        yield "Not there:"
        for name in everywhere[:MOST_LINES]:
            yield f"  {name}: {missing[name]}"
        if len(everywhere) > MOST_LINES:
            yield f"  and {len(everywhere) - MOST_LINES} more; --json has all"
