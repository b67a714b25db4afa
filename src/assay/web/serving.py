"""The command `assay serve`: the server's options, checked before it listens."""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from assay.errors import HostError, InputError
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, option, question, supplied
from assay.questions.values import File, PresentFile, PresentFolder
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from assay.view.blocks import Block
    from assay.web.access import AccessRules

DEFAULT_ADDRESS = "127.0.0.1:8080"


@question
class Serve(Question):
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

    has_json: ClassVar[bool] = False

    listen: str = option("Port 0 is a free one.", default=DEFAULT_ADDRESS, metavar="HOST:PORT")
    host: Sequence[str] = option(
        "Also answer for this host name, such as a proxy's; repeatable.", default=(), metavar="NAME"
    )
    catalog: File = option("File of the catalog.", default="catalog.duckdb", variable="ASSAY_CATALOG")
    mlperf: tuple[PresentFolder, ...] = option(
        "Show the scores of the MLPerf logs below this directory; repeatable.", default=()
    )
    tokens: PresentFile | None = option(
        "File of who may ask, mode 0600: a line NAME ROLE TOKEN each. [default: $ASSAY_TOKENS]", default=None
    )
    allow: tuple[Literal["run", "push"], ...] = option(
        "Let operators start suites, or pushers and operators send sessions; repeatable.", default=()
    )
    suites: PresentFolder | None = option(
        "For --allow run: the directory of the suites that can be started.", default=None
    )
    tls_cert: PresentFile | None = option(
        "Certificate with its chain, in PEM: listen with HTTPS.", default=None
    )
    tls_key: PresentFile | None = option("Its key, in PEM.", default=None)
    https_proxy: bool = option("A proxy in front speaks HTTPS with browsers.", default=False)
    user_header: str = option(
        "A proxy on this address names in this header whom it let in, such as X-Forwarded-User.",
        default="",
        metavar="NAME",
    )
    operator: Sequence[str] = option("Of those, an operator; repeatable.", default=(), metavar="USER")
    runs: Reference | None = option(RUNS, default=None, local=True)
    commands: Any = supplied("commands", default=None)

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key belong together")
        if self.allow and not (self.tokens or self.user_header or os.environ.get("ASSAY_TOKENS")):
            raise ValueError(
                "--allow needs to know who asks: name a file with --tokens, or set $ASSAY_TOKENS"
            )
        if ("run" in self.allow) != (self.suites is not None):
            raise ValueError("--allow run and --suites DIR belong together")
        if self.operator and not self.user_header:
            raise ValueError("--operator names users of a proxy: add --user-header")

    @contextmanager
    def answering(self) -> Iterator[Serving]:
        """After the address was shown, serves until Ctrl-C or SIGTERM."""
        if find_spec("litestar") is None or find_spec("uvicorn") is None:
            raise HostError("`assay serve` needs an extra: pip install 'cluster-assay[serve]'")
        from assay.web.access import AccessRules
        from assay.web.server import Certificate, serving
        from assay.web.site import Site
        from assay.web.tokens import read_tokens

        rules = AccessRules(
            tokens=read_tokens(None if self.tokens is None else Path(self.tokens)),
            allowed=frozenset(self.allow),
            suites=None if self.suites is None else Path(self.suites),
            is_https=self.tls_cert is not None or self.https_proxy,
            user_header=self.user_header,
            operators=frozenset(self.operator),
        )
        self._check(rules)
        pair = (self.tls_cert, self.tls_key)
        certificate = Certificate(*map(Path, pair)) if None not in pair else None  # type: ignore[arg-type]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that what it keeps in memory is removed
        site = Site(runs_directory(self.runs), catalog=Path(self.catalog), folders=[*map(Path, self.mlperf)])
        server = serving(
            self.listen,
            site,
            names=self.host,
            rules=rules,
            certificate=certificate,
            commands=self.commands,
        )
        with server as url:
            yield Serving(url)

    def _check(self, rules: AccessRules) -> None:
        """Raises InputError for what would be unsafe."""
        host = self.listen.rpartition(":")[0].strip("[]")
        is_local = host == "localhost" or _is_loopback(host)
        if rules.user_header and not is_local:
            raise InputError(
                "with --user-header, anyone who reaches the server could claim to be anybody: listen on "
                "127.0.0.1"
            )
        if rules.tokens and not (is_local or rules.is_https):
            raise InputError(
                f"tokens would be sent to {self.listen} unencrypted; add --tls-cert and --tls-key, or "
                "--https-proxy if a proxy speaks HTTPS with browsers"
            )


@dataclass(frozen=True)
class Serving(Answer):
    """Where the server answers."""

    url: str

    def view(self) -> Iterator[Block]:
        """The address."""
        yield Paragraph(f"Serving {self.url} until Ctrl-C.", wraps=False)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
