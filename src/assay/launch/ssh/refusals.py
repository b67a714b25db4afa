"""Why a host can't be used, and what to do, from the messages of ssh and the host."""

from __future__ import annotations

import re
from typing import Final

from assay.shell import CompletedCommand

# ssh's message → what to do
REMEDIES: Final[tuple[tuple[str, str], ...]] = (
    (
        r"host key verification failed|remote host identification has changed",
        "its host key is unknown or has changed: check it, and connect once manually: ssh {host}",
    ),
    (
        r"permission denied",
        "it accepts none of your keys: ssh-copy-id {host}, or name the key in `identity`; a key with a "
        "passphrase must be in ssh-agent",
    ),
    (r"could not resolve hostname", "correct `hosts`, or give the name a HostName in ~/.ssh/config"),
    (
        r"connection refused",
        "no ssh server is listening there: start it (systemctl start sshd), or correct `port`",
    ),
    (r"timed out|no route to host|network is unreachable", "check that it is up: ping {host}"),
    (
        r"identity file .* not accessible|bad configuration option|can't open user config",
        "correct it in the system",
    ),
)


def unreachable(host: str, stderr: str) -> str:
    """Why ssh could not connect."""
    message = _last_line(stderr)
    for pattern, remedy in REMEDIES:
        if re.search(pattern, stderr, re.IGNORECASE):
            return f"{host} can't be reached: {message}; {remedy.format(host=host)}"
    return f"{host} can't be reached: {message}"


def no_answer(host: str, python: str, done: CompletedCommand) -> str:
    """Why a reachable host did not answer."""
    message = _last_line(done.stderr)
    if done.exit_code in (126, 127) or "not found" in message:
        return (
            f"{host}: can't run {python} there ({message}); set `python` to an interpreter that all hosts "
            "have"
        )
    return (
        f"{host}: no answer from {python} (exit code {done.exit_code}): {message}; it must be Python 3.9 or "
        "newer"
    )


def refused(host: str, error: str) -> str:
    """Why the host's disk or an earlier job refused it."""
    if "No space left" in error or "quota" in error.lower():
        return f"{host}: {error}; free up space there, or set the system's `directory` to another one"
    if "Permission denied" in error or "Read-only" in error:
        return f"{host}: {error}; set `directory` to one that you may write to"
    return f"{host}: {error}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
