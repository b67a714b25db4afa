"""Where a data set lies: a directory, or a bucket of an S3-compatible store, behind one protocol.

    place("/data/a2d2")          a local directory, NFS, or any mounted file system
    place("s3://bucket/prefix")  endpoint, region and credentials from the usual AWS_* variables and ~/.aws

Names are relative to the place, with `/`. No address that is kept or printed holds a credential.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

SCHEME = "s3://"
ATTEMPTS = 8  # of a request: of ten that fail at one in ten, none is left
CONNECT_S, READ_S = 10, 60
AT_ONCE = 16  # requests of one process; a request waits most of its time


class PlaceError(Exception):
    """What keeps a place from being read or written: where, what, and what to do."""


class AbsentError(PlaceError):
    """There is no such directory, bucket or file."""


class RefusedError(PlaceError):
    """The store refuses the credentials, or there are none."""


class StoredFile(NamedTuple):
    """A file's bytes, and the time of its last change in nanoseconds since 1970.

    S3 states whole seconds; the digits below are of the content's ETag, so that two changes within a second
    differ.
    """

    size: int
    changed_ns: int


class DataPlace(Protocol):
    """A tree of files, read and written by relative names. Every method raises PlaceError.

    address  as a manifest keeps it; without credentials
    at_once  files to read at the same time in one process
    """

    address: str
    at_once: int

    def files(self) -> Iterator[tuple[str, StoredFile]]:
        """Every plain file; links are not followed."""

    def status(self, name: str) -> StoredFile:
        """Of one file. Raises AbsentError if there is none."""

    def read(self, name: str, begin: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file from an offset on; fewer at its end. Raises AbsentError if there is none."""

    def opened(self, name: str) -> IO[bytes]:
        """A file to be read in blocks and by offset."""

    def put(self, name: str, source: Path) -> None:
        """Copy a local file here, whole or not at all."""

    def remove(self, name: str) -> None:
        """Remove a file. Raises AbsentError if there is none."""


def is_remote(address: str) -> bool:
    """Whether an address is of a store rather than a mounted file system."""
    return "://" in address


@lru_cache(maxsize=16)
def place(address: str) -> DataPlace:
    """The place of an address. Raises PlaceError for an address that is none; connects to nothing yet."""
    if not is_remote(address):
        return Directory(Path(address))
    if not address.startswith(SCHEME):
        scheme = address.partition("://")[0]
        raise PlaceError(f"{scheme}://: is not supported; expected a directory or {SCHEME}BUCKET/PREFIX")
    bucket, _, prefix = address[len(SCHEME) :].partition("/")
    if "@" in bucket or ":" in bucket:
        raise PlaceError(
            f"{SCHEME}…: the address holds credentials or a port; give those in AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL"
        )
    if not bucket:
        raise PlaceError(f"{address}: has no bucket; expected {SCHEME}BUCKET/PREFIX")
    return Bucket(bucket, prefix.strip("/"))


class Directory:
    """A directory of a mounted file system."""

    at_once = 1

    def __init__(self, root: Path) -> None:
        self.root, self.address = root, str(root)

    def files(self) -> Iterator[tuple[str, StoredFile]]:
        """See DataPlace."""
        folders = [""]
        with self._errors(""):
            while folders:
                folder = folders.pop()
                with os.scandir(self.root / folder) as entries:
                    for entry in entries:
                        name = f"{folder}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(f"{name}/")
                        elif entry.is_file(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            yield name, StoredFile(status.st_size, status.st_mtime_ns)

    def status(self, name: str) -> StoredFile:
        """See DataPlace."""
        with self._errors(name):
            status = (self.root / name).stat()
            return StoredFile(status.st_size, status.st_mtime_ns)

    def read(self, name: str, begin: int = 0, size: int | None = None) -> bytes:
        """See DataPlace."""
        with self._errors(name), (self.root / name).open("rb") as file:
            file.seek(begin)
            return file.read(-1 if size is None else size)

    def opened(self, name: str) -> IO[bytes]:
        """See DataPlace."""
        with self._errors(name):
            return (self.root / name).open("rb")

    def put(self, name: str, source: Path) -> None:
        """See DataPlace."""
        import shutil

        target = self.root / name
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
        with self._errors(name):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, unfinished)
                unfinished.replace(target)
            finally:
                unfinished.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """See DataPlace."""
        with self._errors(name):
            (self.root / name).unlink()

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = AbsentError if error.errno in (errno.ENOENT, errno.ENOTDIR) else PlaceError
            where = error.filename or self.root / name
            raise kind(f"{where}: can't be read: {error.strerror or error}") from None


class Bucket:
    """A bucket of an S3-compatible store, below a prefix. A request that fails is repeated."""

    at_once = AT_ONCE

    def __init__(self, bucket: str, prefix: str) -> None:
        self._root = f"{bucket}/{prefix}" if prefix else bucket
        self.address = SCHEME + self._root

    def files(self) -> Iterator[tuple[str, StoredFile]]:
        """See DataPlace."""
        with self._errors(""):
            listed = _s3().find(self._root, detail=True)
            if not listed:  # s3fs takes a refusal or a missing bucket for an empty one
                _s3().call_s3("list_objects_v2", Bucket=self._root.partition("/")[0], MaxKeys=1)
        for name, about in listed.items():
            if not name.endswith("/"):
                yield name[len(self._root) + 1 :], _stored(about)

    def status(self, name: str) -> StoredFile:
        """See DataPlace."""
        with self._errors(name):
            return _stored(_s3().info(self._path(name)))

    def read(self, name: str, begin: int = 0, size: int | None = None) -> bytes:
        """See DataPlace."""
        if size == 0:
            return b""
        end = None if size is None else begin + size
        with self._errors(name):
            return _s3().cat_file(self._path(name), start=begin or None, end=end)

    def opened(self, name: str) -> IO[bytes]:
        """See DataPlace."""
        with self._errors(name):
            return _s3().open(self._path(name), "rb", block_size=8 << 20, cache_type="readahead")

    def put(self, name: str, source: Path) -> None:
        """See DataPlace."""
        with self._errors(name):
            _s3().put_file(str(source), self._path(name))

    def remove(self, name: str) -> None:
        """See DataPlace."""
        with self._errors(name):
            _s3().rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        where = f"{self.address}/{name}" if name else self.address
        with s3_errors(where):
            yield


@contextmanager
def s3_errors(where: str) -> Iterator[None]:
    """Whatever s3fs and botocore raise, as a PlaceError of the user's words, without credentials."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        PartialCredentialsError,
    )

    try:
        yield
    except FileNotFoundError:
        raise AbsentError(f"{where}: there is no such object or bucket") from None
    except (PermissionError, NoCredentialsError, PartialCredentialsError) as error:
        none = isinstance(error, (NoCredentialsError, PartialCredentialsError))
        what = "there are no credentials for it" if none else f"the store refuses it ({_code(error)})"
        raise RefusedError(
            f"{where}: {what}; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and what "
            f"they may do{_endpoint()}"
        ) from None
    except (OSError, BotoCoreError, ClientError) as error:
        raise PlaceError(f"{where}: the store can't be used: {_code(error)}{_endpoint()}") from None


def _code(error: BaseException) -> str:
    """The store's code of an error, which holds no credential; else what kind it is."""
    for cause in (error, error.__cause__, error.__context__):
        response = getattr(cause, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
        if code:
            return str(code)
    return type(error.__cause__ or error).__name__


def _endpoint() -> str:
    """The store's host, without a user in its URL."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    host = url.rpartition("://")[2].partition("/")[0].rpartition("@")[2]
    return f" (at {host})" if host else ""


def _stored(about: Any) -> StoredFile:
    modified = about["LastModified"]
    tag = "".join(filter(str.isalnum, str(about.get("ETag", ""))))
    below = int.from_bytes(tag.encode()[:16], "big") % 10**9 if tag else 0
    return StoredFile(int(about["size"]), int(modified.timestamp()) * 10**9 + below)


@dataclass
class _Connection:
    """A process's own, by the AWS_* variables that it was made with: it does not survive a fork."""

    made_with: tuple[int, frozenset[tuple[str, str]]] | None = None
    filesystem: Any = None


_CONNECTION = _Connection()
_LOCK = threading.Lock()


def _s3() -> Any:
    made_with = (
        os.getpid(),
        frozenset(variable for variable in os.environ.items() if variable[0].startswith("AWS_")),
    )
    with _LOCK:
        if _CONNECTION.made_with != made_with:
            try:
                import s3fs
            except ImportError:
                raise PlaceError("s3://: needs the extra `s3`: pip install 'cluster-assay[s3]'") from None

            own = os.environ.keys() & {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"}
            retries = {} if own else {"retries": {"mode": "standard", "max_attempts": ATTEMPTS}}
            _CONNECTION.filesystem = s3fs.S3FileSystem(
                anon=False,
                config_kwargs={"connect_timeout": CONNECT_S, "read_timeout": READ_S, **retries},
                use_listings_cache=False,
                skip_instance_cache=True,
            )
            _CONNECTION.made_with = made_with
        return _CONNECTION.filesystem
