"""`assay push`: sessions sent to a server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from assay.cli.options import JSON, RUNS, echo_json


@click.command()
@click.argument("url")
@click.argument("references", nargs=-1, metavar="[RUN]…")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File with your token, mode 0600. [default: $ASSAY_TOKEN]",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Certificates that vouch for the server, in PEM. [default: the system's]",
)
@RUNS
@JSON
def command(
    url: str,
    references: tuple[str, ...],
    token_file: Path | None,
    ca_file: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Send sessions to the server at URL, which takes them as `assay import` would.

    RUN is a suite or suite/session; by default, every session here that is not running. A session that the
    server has already is not sent. If it is stopped, the same command continues where it was. The server must
    allow it: `assay serve --allow push --tokens FILE`.

    \b
    Examples:
      assay push https://assay.example.com --token-file ~/.config/assay/token
      assay push http://127.0.0.1:8080 nightly

    \b
    Exit codes: 0 the server has them; 4 it refuses one, or a name matches nothing; 5 it does not answer.
    """
    from assay.questions.push import push
    from assay.units import human

    shown: dict[str, int] = {}

    def tell(session: str, sent: int, total: int) -> None:
        percent = 100 * sent // total if total else 100
        if sys.stderr.isatty() and shown.get(session) != percent:
            end = "\n" if percent == 100 else ""
            click.echo(f"\r{session}: {percent} % of {human(float(total), 'B')}{end}", err=True, nl=False)
            shown[session] = percent

    pushed = push(url, *references, token_file=token_file, ca_file=ca_file, runs=runs_dir, tell=tell)
    if as_json:
        echo_json(pushed.document())
        return
    for session in pushed.sessions:
        what = f"sent, {human(float(session.bytes), 'B')}" if session.added else "the server has it already"
        click.echo(f"{session.session}: {what}")
    for problem in pushed.left_out:
        click.echo(f"left out: {problem}", err=True)
