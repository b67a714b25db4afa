"""`assay serve`: the same in a browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from assay.cli.data import CATALOG
from assay.cli.options import RUNS
from assay.errors import HostError

DEFAULT_ADDRESS = "127.0.0.1:8080"


@click.command()
@click.option(
    "--listen", default=DEFAULT_ADDRESS, show_default=True, metavar="HOST:PORT", help="Port 0 is a free one."
)
@click.option(
    "--host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Also answer for this host name, such as a proxy's; repeatable.",
)
@CATALOG
@click.option(
    "--mlperf",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Show the scores of the MLPerf logs below this directory; repeatable.",
)
@RUNS
def command(
    listen: str, names: tuple[str, ...], catalog: Path, folders: tuple[Path, ...], runs_dir: Path
) -> None:
    """Show runs, verdicts, logs and what runs now in a browser, and answer the same as JSON.

    Every page shows what a command shows, and has the command that prints the same. The address of a page is
    all it depends on, so it can be kept and sent. The server only reads; it has no authentication, so it
    listens on the loopback address. To let others in, put a proxy with authentication in front.

    \b
    Examples:
      assay serve
      assay serve --listen 127.0.0.1:9000 --runs /scratch/runs
      assay serve --host assay.example.com               behind a proxy on this machine

    \b
    Exit codes: 0 stopped; 4 no such address; 5 can't listen, or the extra `serve` is missing.
    """
    if find_spec("litestar") is None or find_spec("uvicorn") is None:
        raise HostError("`assay serve` needs an extra: pip install 'assay[serve]'")
    from assay.web.server import serve
    from assay.web.site import Site

    site = Site(runs_dir, catalog=catalog, folders=folders)
    serve(listen, site, names=names, ready=lambda url: click.echo(f"Serving {url} until Ctrl-C."))
