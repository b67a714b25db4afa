"""`assay monitor export`: metrics of runs and results for Prometheus."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import RUNS, duration

DEFAULT_ADDRESS = "127.0.0.1:9850"


@click.command("export")
@click.option("--listen", metavar="HOST:PORT", help=f"Where to serve /metrics.  [default: {DEFAULT_ADDRESS}]")
@click.option(
    "--textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a file for node exporter's textfile collector instead.",
)
@click.option("--every", callback=duration, metavar="TIME", help="With --textfile: write it again and again.")
@RUNS
def command(listen: str | None, textfile: Path | None, every: float | None, runs_dir: Path) -> None:
    """Serve what Assay knows as metrics: running trials with their telemetry, newest results and verdicts.

    Each scrape reads the runs directory. A batch node, which nobody can scrape, writes a file for node
    exporter's textfile collector. The server has no authentication, so it listens on the loopback address;
    put a proxy before it, or choose another address with --listen, to let others in.

    \b
    Examples:
      assay monitor export
      assay monitor export --listen 0.0.0.0:9850
      assay monitor export --textfile /var/lib/node_exporter/assay.prom --every 30s

    \b
    Exit codes: 0 the file is written; 2 the options contradict each other; 4 no such address;
    5 can't listen or write; 130 stopped by Ctrl-C.
    """
    from assay.questions import monitor as monitor_question

    if textfile is None:
        if every is not None:
            raise click.UsageError("--every needs --textfile: a server answers each scrape")
        server, url = monitor_question.monitor_server(listen or DEFAULT_ADDRESS, runs=runs_dir)
        click.echo(f"Serving {url} until Ctrl-C.")
        with server:
            server.serve_forever()
        return
    if listen is not None:
        raise click.UsageError("--textfile and --listen exclude each other")
    if every is None:
        monitor_question.write_textfile(textfile, runs=runs_dir)
        return
    monitor_question.write_textfile_every(textfile, every, runs=runs_dir)
