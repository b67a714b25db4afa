"""Cookies whose holders signed out before they ended: a file, so that every server of the directory knows."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from assay.durable import locked, make_directory, write_atomic
from assay.errors import BusyError, HostError

NAME = "signed-out.json"
_WAIT_S = 10.0  # for another server that writes the file
_log = logging.getLogger("assay")


class SignOuts:
    """The cookies that somebody signed out, as digests, until they would have ended anyway."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._here: dict[str, float] = {}  # digest → when the cookie ends
        self._in_file: Mapping[str, float] = {}
        self._stamp: tuple[int, int] | None = None

    def __contains__(self, cookie: str) -> bool:
        digest = _digest(cookie)
        return digest in self._here or digest in self._read()

    def add(self, cookie: str, until: float) -> None:
        """Remember a cookie; where the file can't be written, until this server ends, which is logged."""
        now = time.time()
        self._here = {digest: end for digest, end in self._here.items() if end > now} | {
            _digest(cookie): until
        }
        try:
            make_directory(self._path.parent)
            with locked(self._path.with_suffix(".lock"), "the list of who signed out", wait_s=_WAIT_S):
                kept = {digest: end for digest, end in self._read().items() if end > now} | self._here
                write_atomic(self._path, json.dumps(kept).encode())
        except (HostError, BusyError) as error:
            _log.warning("%s; once this server is restarted, the cookie is taken again", error)

    def _read(self) -> Mapping[str, float]:
        try:
            status = self._path.stat()
            if (stamp := (status.st_ino, status.st_mtime_ns)) != self._stamp:
                self._stamp = stamp
                self._in_file = dict(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            self._in_file = {}
        except (OSError, ValueError, TypeError) as error:
            _log.warning(
                "%s: can't be read (%s); cookies that were signed out are taken again", self._path, error
            )
            self._in_file = {}
        return self._in_file


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
