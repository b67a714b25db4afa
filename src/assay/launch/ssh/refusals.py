"""Why a host can't be used, and what to do, from what ssh and the host said."""

from __future__ import annotations

import re
from typing import Final

from assay.shell import CompletedCommand

# what ssh says → what to do
_REMEDIES: Final[tuple[tuple[str, str], ...]] = (
    (
        r"host key verification failed|remote host identification has changed",
        "its key is not known, or not the known one: check it and connect once by hand: ssh {host}",
    ),
    (
        r"permission denied",
        "no key of yours is let in: ssh-copy-id {host}, or name the key in `identity`; a key with a "
        "passphrase has to be in ssh-agent",
    ),
    (r"could not resolve hostname", "correct `hosts`, or give the name a HostName in ~/.ssh/config"),
    (
        r"connection refused",
        "no ssh server listens there: start it (systemctl start sshd), or correct `port`",
    ),
    (r"timed out|no route to host|network is unreachable", "see whether it is up: ping {host}"),
    (
        r"identity file .* not accessible|bad configuration option|can't open user config",
        "correct it in the system",
    ),
)


def unreachable(host: str, stderr: str) -> str:
    """Why ssh did not get there."""
    said = _last_line(stderr)
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, stderr, re.IGNORECASE):
            return f"{host} can't be reached: {said}; {remedy.format(host=host)}"
    return f"{host} can't be reached: {said}"


def no_answer(host: str, python: str, done: CompletedCommand) -> str:
    """Why a host that was reached did not answer."""
    said = _last_line(done.stderr)
    if done.exit_code in (126, 127) or "not found" in said:
        return f"{host}: {python} can't be run there ({said}); name in `python` one that is on all hosts"
    return f"{host}: no answer from {python} (exit code {done.exit_code}): {said}; it has to be 3.9 or newer"


def refused(host: str, error: str) -> str:
    """What the host's disk or an earlier job refused."""
    if "No space left" in error or "quota" in error.lower():
        return f"{host}: {error}; make room there, or name another `directory` in the system"
    if "Permission denied" in error or "Read-only" in error:
        return f"{host}: {error}; name in `directory` one that you may write there"
    return f"{host}: {error}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
