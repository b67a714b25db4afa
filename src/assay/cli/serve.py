"""`assay serve`: the same in a browser."""

from __future__ import annotations

import ipaddress
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import RUNS
from assay.errors import HostError, InputError

if TYPE_CHECKING:
    from assay.cli.remote_commands import CommandAnswer
    from assay.web.access import AccessRules
    from assay.web.tokens import Right

DEFAULT_ADDRESS = "127.0.0.1:8080"
_GRANTED: tuple[Right, ...] = ("run", "push")
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


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
@click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="ASSAY_CATALOG",
    default="catalog.duckdb",
    show_default="$ASSAY_CATALOG or ./catalog.duckdb",
    help="File of the catalog.",
)
@click.option(
    "--mlperf",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Show the scores of the MLPerf logs below this directory; repeatable.",
)
@click.option(
    "--tokens",
    "tokens_file",
    type=_FILE,
    help="File of who may ask, mode 0600: a line NAME ROLE TOKEN each. [default: $ASSAY_TOKENS]",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(_GRANTED),
    help="Let operators start suites, or pushers and operators send sessions; repeatable.",
)
@click.option(
    "--suites",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="For --allow run: the directory of the suites that can be started.",
)
@click.option("--tls-cert", type=_FILE, help="Certificate with its chain, in PEM: listen with HTTPS.")
@click.option("--tls-key", type=_FILE, help="Its key, in PEM.")
@click.option("--https-proxy", is_flag=True, help="A proxy in front speaks HTTPS with browsers.")
@click.option(
    "--user-header",
    default="",
    metavar="NAME",
    help="A proxy on this address names in this header whom it let in, such as X-Forwarded-User.",
)
@click.option(
    "--operator", "operators", multiple=True, metavar="USER", help="Of those, an operator; repeatable."
)
@RUNS
def command(
    listen: str,
    names: tuple[str, ...],
    catalog: Path,
    folders: tuple[Path, ...],
    tokens_file: Path | None,
    allow: tuple[str, ...],
    suites: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    https_proxy: bool,
    user_header: str,
    operators: tuple[str, ...],
    runs_dir: Path,
) -> None:
    """Show runs, verdicts, logs and what runs now in a browser, and answer the same as JSON.

    Every page shows what a command shows, and has the command that prints the same. The address of a page is
    all it depends on, so it can be kept and sent. By default the server only reads, asks nobody who they are,
    and listens on the loopback address. With tokens, everybody needs one: a reader reads, a pusher also sends
    sessions, an operator also starts and stops suites, as far as --allow grants it. Every action is recorded
    in .queue/audit.jsonl of the runs directory.

    \b
    Examples:
      assay serve
      assay serve --listen 127.0.0.1:9000 --runs /scratch/runs
      assay serve --host assay.example.com --https-proxy --tokens tokens     behind a proxy on this machine
      assay serve --tokens tokens --allow run --suites suites --allow push
      assay serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --tokens tokens

    \b
    Exit codes: 0 stopped; 4 no such address, or tokens or certificate can't be used; 5 can't listen, or the
    extra `serve` is missing.
    """
    if find_spec("litestar") is None or find_spec("uvicorn") is None:
        raise HostError("`assay serve` needs an extra: pip install 'cluster-assay[serve]'")
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    from assay.web.access import AccessRules
    from assay.web.server import Certificate, serve
    from assay.web.site import Site
    from assay.web.tokens import read_tokens

    is_https = tls_cert is not None or https_proxy
    rules = AccessRules(
        tokens=read_tokens(tokens_file),
        allowed=frozenset(right for right in _GRANTED if right in allow),
        suites=suites,
        is_https=is_https,
        user_header=user_header,
        operators=frozenset(operators),
    )
    _check(rules, listen)
    certificate = Certificate(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that what it keeps in memory is removed
    serve(
        listen,
        Site(runs_dir, catalog=catalog, folders=folders),
        names=names,
        rules=rules,
        certificate=certificate,
        commands=_answer,
        ready=lambda url: click.echo(f"Serving {url} until Ctrl-C."),
    )


def _check(rules: AccessRules, listen: str) -> None:
    """Raises UsageError or InputError for what would be unsafe, or has no effect."""
    if rules.allowed and not rules.are_asked:
        raise click.UsageError(
            "--allow needs to know who asks: name a file with --tokens, or set $ASSAY_TOKENS"
        )
    if ("run" in rules.allowed) != (rules.suites is not None):
        raise click.UsageError("--allow run and --suites DIR belong together")
    if rules.operators and not rules.user_header:
        raise click.UsageError("--operator names users of a proxy: add --user-header")
    host = listen.rpartition(":")[0].strip("[]")
    is_local = host == "localhost" or _is_loopback(host)
    if rules.user_header and not is_local:
        raise InputError(
            "with --user-header, anyone who reaches the server could claim to be anybody: listen on 127.0.0.1"
        )
    if rules.tokens and not (is_local or rules.is_https):
        raise InputError(
            f"tokens would be sent to {listen} unencrypted; add --tls-cert and --tls-key, or --https-proxy "
            "if a proxy speaks HTTPS with browsers"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _answer(arguments: Sequence[str], columns: int, is_colored: bool, runs: Path) -> CommandAnswer:
    from assay.cli.remote_commands import answer

    try:
        return answer(arguments, columns, is_colored, runs)
    except click.UsageError as error:
        raise InputError(error.format_message()) from error
