"""Known vulnerabilities of packages, from files in the OSV format or as a package index gives them.

Source: https://ossf.github.io/osv-schema/. The files are those of OSV's export for PyPI: `all.zip`, a folder
of `<id>.json`, or one such file. Withdrawn advisories are skipped. One that doesn't say in versions what it
affects is taken to affect every version of its package.

Source: https://docs.pypi.org/api/json/. An index without this JSON, or whose JSON has no `vulnerabilities`,
says nothing about them: that is an error and never "none known".
"""

from __future__ import annotations

import base64
import http.client
import json
import lzma
import re
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeGuard
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from assay.errors import HostError, InputError, Problem
from assay.inputs import read_whole, reading

_LARGEST_ENTRY_BYTES: Final = 16 << 20
_LARGEST_BYTES: Final = 2 << 30  # of all entries; PyPI's have 0.2 GB
_MOST_ENTRIES: Final = 200_000
_DAMAGED_ZIP: Final = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError)
_BOUNDS: Final = ("introduced", "fixed", "last_affected")
_ID: Final = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True)
class Advisory:
    """One vulnerability of a version of a package.

    fixed  versions in which it is fixed, oldest first; () if none is known
    """

    id: str
    aliases: tuple[str, ...]
    package: str
    version: str
    summary: str
    fixed: tuple[str, ...]


def advisory_of(
    entry: Mapping[str, Any], name: str, version: str, fixed: Iterable[str], note: str = ""
) -> Advisory:
    """An entry of a database or an index; its text is foreign, so it stays on one line.

    note  precedes the summary
    """
    summary = " ".join(str(entry.get("summary") or entry.get("details") or "").splitlines()[:1])[:200]
    aliases = tuple(" ".join(str(alias).split()) for alias in entry.get("aliases") or ())
    return Advisory(" ".join(str(entry["id"]).split()), aliases, name, version, note + summary, tuple(fixed))


class AdvisorySource(Protocol):
    """What knows of vulnerabilities: a database, or a package index."""

    def affecting(self, versions: Mapping[str, str]) -> list[Advisory]:
        """The advisories that affect these versions, sorted by package."""
        ...


class AdvisoryDatabase:
    """The advisories of packages on PyPI, from a zip, a folder or a file."""

    def __init__(self, path: Path) -> None:
        """Read it. Raises InputError if it can't be read or has none for PyPI."""
        entries: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
        count = 0
        for entry in _entries(path):
            if not entry.get("withdrawn"):
                count += 1
                for affected in entry.get("affected", ()):
                    about = affected.get("package") or {}  # none: it is about commits
                    if about.get("ecosystem") == "PyPI" and "name" in about:
                        entries.setdefault(canonicalize_name(about["name"]), []).append((entry, affected))
        if not entries:
            what = f"none of its {count:,} advisories is for PyPI" if count else "it has no advisory"
            raise InputError([Problem(str(path), f"{what}: such a database would find nothing")])
        self._by_package = entries

    def affecting(self, versions: Mapping[str, str]) -> list[Advisory]:
        """The advisories that affect these versions, each once, sorted by package."""
        advisories: dict[tuple[str, str], Advisory] = {}
        for name, version in sorted(versions.items()):
            for entry, affected in self._by_package.get(name, ()):
                if _affects(affected, version):
                    advisories.setdefault((name, entry["id"]), _advisory(entry, affected, name, version))
        return list(advisories.values())


def _entries(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_dir():
        for file in sorted(path.glob("*.json")):
            yield _checked(str(file), _json(str(file), read_whole(file, _LARGEST_ENTRY_BYTES)))
    elif path.suffix == ".zip":
        yield from _zipped(path)
    else:
        plain = _json(str(path), read_whole(path))
        yield from (_checked(str(path), each) for each in (plain if isinstance(plain, list) else [plain]))


def _zipped(path: Path) -> Iterator[Mapping[str, Any]]:
    with reading(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [member for member in archive.infolist() if member.filename.endswith(".json")]
                sizes = [member.file_size for member in members]
                most_bytes = max(sizes, default=0) > _LARGEST_ENTRY_BYTES or sum(sizes) > _LARGEST_BYTES
                if len(members) > _MOST_ENTRIES or most_bytes:
                    raise InputError([Problem(str(path), "it is larger than any advisory database")])
                for member in members:
                    with archive.open(member) as entry:  # the size that it states may be wrong
                        text = entry.read(_LARGEST_ENTRY_BYTES + 1)
                    where = f"{path}:{member.filename}"
                    yield _checked(where, _json(where, text))
        except _DAMAGED_ZIP as error:  # RuntimeError: an entry is encrypted
            what = f"not a zip archive that can be read ({error}); download it again"
            raise InputError([Problem(str(path), what)]) from error


def _json(where: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError([Problem(where, f"not JSON ({error})")]) from None


def _checked(where: str, plain: Any) -> Mapping[str, Any]:
    if not isinstance(plain, dict) or not _ID.fullmatch(str(plain.get("id", ""))):
        raise InputError([Problem(where, "not an advisory in the OSV format: it has no id of one word")])
    affected = plain.get("affected", [])
    if not _are_tables(affected):
        raise InputError([Problem(where, "`affected` is not a list of tables")])
    if not isinstance(plain.get("aliases") or [], list):
        raise InputError([Problem(where, "`aliases` is not a list")])
    for package in (entry.get("package") or {} for entry in affected):
        if not isinstance(package, dict) or not isinstance(package.get("name", ""), str):
            raise InputError([Problem(where, "`package` is not a table with a name")])
    return plain


def _are_tables(plain: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(plain, list) and all(isinstance(entry, dict) for entry in plain)


def _affects(affected: Mapping[str, Any], version: str) -> bool:
    """Whether a version is listed or within a range, or may be. Source: the schema's "evaluation"."""
    if not _is_readable(affected):
        return True
    try:
        own = Version(version)
    except InvalidVersion:
        return version in affected.get("versions", ())
    if any(_is(own, text) for text in affected.get("versions", ())):
        return True
    return any(_within(events, own) for events in _ranges(affected))


def _ranges(affected: Mapping[str, Any]) -> list[Any]:
    """The events of each range of versions; those of commits say nothing about versions."""
    ranges = affected.get("ranges", ())
    return [span.get("events", ()) for span in ranges if span.get("type") == "ECOSYSTEM"]


def _is_readable(affected: Mapping[str, Any]) -> bool:
    """Whether it says which versions it affects, in versions that Python packages can have."""
    if not _is_well_formed(affected):
        return False
    ranges = _ranges(affected)
    bounds = [event.get(kind) for events in ranges for event in events for kind in _BOUNDS if kind in event]
    try:
        all(Version(text) for text in bounds)
    except (InvalidVersion, TypeError):
        return False
    return bool(affected.get("versions") or bounds)


def _is_well_formed(affected: Mapping[str, Any]) -> bool:
    versions, ranges = affected.get("versions", []), affected.get("ranges", [])
    are_texts = isinstance(versions, list) and all(isinstance(version, str) for version in versions)
    are_ranges = _are_tables(ranges) and all(_are_tables(span.get("events", [])) for span in ranges)
    return are_texts and are_ranges


def _is(own: Version, text: str) -> bool:
    """Equal without its local build: `2.8.0+cu128` is the 2.8.0 that an advisory names."""
    try:
        return Version(text) == Version(own.public)
    except InvalidVersion:
        return False


def _within(events: Any, own: Version) -> bool:
    inside = False
    public = Version(own.public)
    bounds = [(Version(event[kind]), kind) for event in events for kind in _BOUNDS if kind in event]
    for version, kind in sorted(bounds, key=lambda bound: (bound[0], bound[1] != "introduced")):
        if kind == "introduced" and public >= version:
            inside = True
        elif (kind == "fixed" and public >= version) or (kind == "last_affected" and public > version):
            inside = False
    return inside


def _advisory(entry: Mapping[str, Any], affected: Mapping[str, Any], name: str, version: str) -> Advisory:
    if not _is_readable(affected):
        note = "which versions it affects can't be read, so maybe this one: "
        return advisory_of(entry, name, version, (), note)
    fixed = {event["fixed"] for events in _ranges(affected) for event in events if "fixed" in event}
    return advisory_of(entry, name, version, sorted(fixed, key=Version))


_TIMEOUT_S: Final = 20.0
_LARGEST_ANSWER_BYTES: Final = 64 << 20  # a version's JSON lists the project's releases on some indexes
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
            return [*chain.from_iterable(pool.map(lambda pair: self._listed(*pair), pairs))]

    def _fetched(self, name: str, version: str) -> tuple[Advisory, ...]:
        address = f"{self._base}/{quote(name)}/{quote(version)}/json"
        try:
            request = urllib.request.Request(address, headers=self._headers)  # noqa: S310 - http or https
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
                plain: Any = json.loads(reply.read(_LARGEST_ANSWER_BYTES))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _silent(name, version, f"{address}: {error}") from error
        listed = plain.get("vulnerabilities") if isinstance(plain, dict) else None
        if not _are_tables(listed) or not all("id" in entry for entry in listed):
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
