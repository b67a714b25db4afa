"""A package index on 127.0.0.1 with small wheels, made on demand: uv resolves and installs from it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from http_servers import served


@dataclass
class Release:
    """One version of a package.

    requires  its dependencies
    yanked    why it was withdrawn; None: it was not
    vulnerabilities  as PyPI's JSON has them; None: the index says nothing about them
    module    source of its only module, which has the package's name
    """

    name: str
    version: str
    requires: Sequence[str] = ()
    yanked: str | None = None
    module: str = ""
    uploaded: str = "2026-01-01T00:00:00Z"
    wrong_hash: bool = False
    vulnerabilities: Sequence[Mapping[str, object]] | None = ()

    @property
    def filename(self) -> str:
        """Of its wheel."""
        return f"{self.name}-{self.version}-py3-none-any.whl"

    @property
    def metadata(self) -> str:
        """Name, version and dependencies."""
        requires = "".join(f"Requires-Dist: {one}\n" for one in self.requires)
        return f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n{requires}"

    def wheel(self) -> bytes:
        """Its wheel, always the same bytes."""
        info = f"{self.name}-{self.version}.dist-info"
        files = {
            f"{self.name}.py": self.module or f"__version__ = {self.version!r}\n",
            f"{info}/METADATA": self.metadata,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        lines = [f"{name},sha256={_digest(text.encode())},{len(text)}" for name, text in files.items()]
        files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name, text in files.items():
                archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text)
        return made.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@dataclass
class PackageIndex:
    """What it serves, and where."""

    releases: list[Release]
    url: str = ""
    requested: list[str] = field(default_factory=list)

    def environment(self, cache: object) -> dict[str, str]:
        """Variables with which uv takes packages from here only."""
        return {"UV_DEFAULT_INDEX": f"{self.url}/simple/", "UV_CACHE_DIR": str(cache), "UV_HTTP_TIMEOUT": "5"}

    def page(self, name: str) -> Mapping[str, object]:
        """The JSON page of a package."""
        files = []
        for one in self.releases:
            if one.name == name:
                data = one.wheel()
                sha256 = "0" * 64 if one.wrong_hash else hashlib.sha256(data).hexdigest()
                files.append(
                    {
                        "filename": one.filename,
                        "url": f"{self.url}/files/{one.filename}",
                        "hashes": {"sha256": sha256},
                        "core-metadata": {"sha256": hashlib.sha256(one.metadata.encode()).hexdigest()},
                        "size": len(data),
                        "upload-time": one.uploaded,
                        "yanked": one.yanked if one.yanked is not None else False,
                    }
                )
        return {"meta": {"api-version": "1.1"}, "name": name, "files": files}


@contextmanager
def serving(releases: Sequence[Release]) -> Iterator[PackageIndex]:
    """The index, until the end of the context."""
    index = PackageIndex(list(releases))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.requested.append(self.path)
            parts = self.path.strip("/").split("/")
            if parts[0] == "simple" and any(one.name == parts[-1] for one in index.releases):
                self._answer(
                    json.dumps(index.page(parts[-1])).encode(), "application/vnd.pypi.simple.v1+json"
                )
            elif parts[0] == "pypi" and (
                found := [r for r in index.releases if [r.name, r.version] == parts[1:3]]
            ):
                listed = found[0].vulnerabilities
                self._answer(
                    json.dumps({} if listed is None else {"vulnerabilities": listed}).encode(),
                    "application/json",
                )
            elif parts[-1].endswith(".metadata"):
                (release,) = [r for r in index.releases if f"{r.filename}.metadata" == parts[-1]]
                self._answer(release.metadata.encode(), "application/octet-stream")
            elif parts[0] == "files" and (found := [r for r in index.releases if r.filename == parts[-1]]):
                self._answer(found[0].wheel(), "application/octet-stream")
            else:
                self.send_error(404)

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index.url = f"http://127.0.0.1:{server.server_address[1]}"
    with served(server):
        yield index
