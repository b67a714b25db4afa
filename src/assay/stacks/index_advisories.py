"""Known vulnerabilities of packages as a package index gives them: PyPI's JSON of each version.

Source: https://docs.pypi.org/api/json/. Withdrawn ones are skipped. An index without this JSON, or whose JSON
has no `vulnerabilities`, says nothing about them: that is an error and never "none known".
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from assay.errors import HostError, InputError
from assay.stacks.advisories import Advisory, advisory_of

_TIMEOUT_S: Final = 20.0
_LARGEST_BYTES: Final = 64 << 20  # a version's JSON lists the project's releases on some indexes
_AT_ONCE: Final = 8


class IndexAdvisories:
    """The advisories that one index has."""

    def __init__(self, simple: str) -> None:
        """Name the index by the address that uv has of it, which ends with `/simple`."""
        parts = urlsplit(simple)
        path = parts.path.rstrip("/")
        if parts.scheme not in ("http", "https") or not path.endswith("simple"):
            raise InputError(
                "the package index has no known place for vulnerabilities: its address does not end with "
                "/simple; name a database with --advisories all.zip"
            )
        user, separator, host = parts.netloc.rpartition("@")
        self._base = urlunsplit((parts.scheme, host, path.removesuffix("simple") + "pypi", "", ""))
        self._headers = {"Accept": "application/json"}
        if separator:
            login = base64.b64encode(unquote(user).encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        self._listed = cache(self._fetched)

    def affecting(self, versions: Mapping[str, str]) -> list[Advisory]:
        """The advisories that affect these versions, sorted by package.

        Raises HostError if the index does not answer, or does not say anything about vulnerabilities.
        """
        pairs = sorted((canonicalize_name(name), _public(version)) for name, version in versions.items())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [
                advisory
                for advisories in pool.map(lambda pair: self._listed(*pair), pairs)
                for advisory in advisories
            ]

    def _fetched(self, name: str, version: str) -> tuple[Advisory, ...]:
        address = f"{self._base}/{quote(name)}/{quote(version)}/json"
        try:
            request = urllib.request.Request(address, headers=self._headers)  # noqa: S310 - http or https
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
                plain: Any = json.loads(reply.read(_LARGEST_BYTES))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _silent(name, version, f"{address}: {error}") from error
        listed = plain.get("vulnerabilities") if isinstance(plain, dict) else None
        if not isinstance(listed, list) or not all(
            isinstance(entry, dict) and "id" in entry for entry in listed
        ):
            raise _silent(name, version, f"{address} has no list of vulnerabilities")
        return tuple(
            advisory_of(entry, name, version, map(str, entry.get("fixed_in") or ()))
            for entry in listed
            if not entry.get("withdrawn")
        )


def _public(version: str) -> str:
    """Without its local build: an index has `2.8.0` for 2.8.0+cu128."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _silent(name: str, version: str, why: str) -> HostError:
    return HostError(
        f"{why}\nwhether {name} {version} has known vulnerabilities is unknown: the package index does not "
        "say; name a database with --advisories all.zip"
    )
