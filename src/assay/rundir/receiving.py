"""Sessions that another machine sends: announced whole, received in parts, checked, merged as an import.

A session is announced by a manifest: the names, sizes and digests of its files. Its content is their bytes
one after the other, so there is no archive format that could name other files or grow when it is unpacked.

```
.push/<digest of the manifest>/manifest.json   what was announced
                               lock            held while a part is received
                               content         the bytes so far: its size is where to continue
```
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.durable import append, locked, make_directory, sync, write_atomic, writing
from assay.errors import BusyError, HostError, InputError
from assay.inputs import open_plain, read_whole
from assay.records import from_json, to_compact_json
from assay.rundir import merging
from assay.rundir.files import public_name, safe_name, set_name
from assay.rundir.merging import MergeResult
from assay.rundir.session import Session
from assay.units import human

NAME = ".push"
LARGEST_PART_BYTES = 8 << 20
LARGEST_MANIFEST_BYTES = 64 << 20
MOST_UNFINISHED = 32
KEPT_S = 7 * 24 * 3600.0  # an unfinished one, since its last part
SPACE_FACTOR = 3  # received, split into files, and copied to its place
_BLOCK = 1 << 20


@dataclass(frozen=True)
class PushedFile:
    """A file of a session: its name in it, its size and SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class PushManifest:
    """What a machine announces: `suite/session`, the digest of its content, and its files in order."""

    session: str
    content: str
    files: tuple[PushedFile, ...]

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)


class LostTrackError(InputError):
    """A part does not begin where the last one ended; `offset` is where to continue."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"continue at byte {offset}")
        self.offset = offset


def manifest_of(session: Session) -> PushManifest:
    """What to announce of a session. Raises InputError if it can't be imported elsewhere."""
    content = merging.content_of(session)
    files = []
    for name in content.files:
        with open_plain(session.path / name) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            files.append(PushedFile(name, file.tell(), digest))
    name = f"{session.header.suite}/{session.name}"  # where it is merged, whatever its directory is called
    return PushManifest(name, content.digest, tuple(files))


def parts_of(session: Session, manifest: PushManifest, offset: int) -> Iterator[bytes]:
    """The content from this byte on, in parts that a server takes."""
    waiting = bytearray()
    for file in manifest.files:
        if offset >= file.bytes:
            offset -= file.bytes
            continue
        with open_plain(session.path / file.name) as opened:
            opened.seek(offset)
            left, offset = file.bytes - offset, 0
            while left and (block := opened.read(min(_BLOCK, left))):
                left -= len(block)
                waiting += block
                while len(waiting) >= LARGEST_PART_BYTES:
                    yield bytes(waiting[:LARGEST_PART_BYTES])
                    del waiting[:LARGEST_PART_BYTES]
        if left:
            raise InputError(f"{session.path / file.name}: it became shorter meanwhile; push again")
    if waiting:
        yield bytes(waiting)


@dataclass(frozen=True)
class PushState:
    """How far a session is: its upload's id, and where to continue; `present`: it is here already."""

    id: str
    offset: int
    present: bool


def announce(text: bytes, root: Path) -> PushState:
    """Begin to receive a session, or continue.

    Raises InputError for a manifest that is no session's, or if the session is here with other content;
    BusyError if too many others are unfinished, HostError if there is no space.
    """
    if len(text) > LARGEST_MANIFEST_BYTES:
        raise InputError(f"the manifest is larger than {LARGEST_MANIFEST_BYTES} bytes")
    manifest = _checked(text)
    name, place = hashlib.sha256(text).hexdigest(), root / NAME
    if merging.is_present(manifest.session, manifest.content, root):
        return PushState(name, manifest.bytes, present=True)
    make_directory(place)
    _forget_old(place)
    upload = place / name
    if not upload.is_dir():
        if sum(1 for _ in place.iterdir()) >= MOST_UNFINISHED:
            raise BusyError(f"{MOST_UNFINISHED} sessions are being received already; push again later")
        free = shutil.disk_usage(place).free
        if free < SPACE_FACTOR * manifest.bytes:
            need = human(float(SPACE_FACTOR * manifest.bytes), "B")
            raise HostError(
                f"no space: receiving this session needs {need}, {human(float(free), 'B')} are free"
            )
        make_directory(upload)
    write_atomic(upload / "manifest.json", text)
    content = upload / "content"
    with writing(content):
        content.touch()
    return PushState(name, content.stat().st_size, present=False)


def announced_session(text: bytes) -> str:
    """The session that a manifest names; "" if this is no manifest."""
    try:
        return _checked(text).session
    except InputError:
        return ""


def received_session(name: str, root: Path) -> str:
    """The session that an upload is of; "" if it was not announced, or was completed already."""
    try:
        return _manifest(_place(name, root)).session
    except InputError:
        return ""


def receive(name: str, offset: int, part: bytes, root: Path) -> int:
    """Keep a part of the content; returns where to continue.

    Raises LostTrackError if it does not begin where the last one ended, InputError if it is too long.
    """
    upload = _place(name, root)
    content = upload / "content"
    if len(part) > LARGEST_PART_BYTES:
        raise InputError(f"a part is larger than {LARGEST_PART_BYTES} bytes")
    with locked(upload / "lock", "this upload"):
        size = content.stat().st_size
        if offset != size:
            raise LostTrackError(size)
        if size + len(part) > _manifest(upload).bytes:
            raise InputError("there is more content than was announced")
        append(content, part)
    return size + len(part)


def complete(name: str, root: Path) -> MergeResult:
    """Check the whole content, and import it as `assay import` does.

    Raises LostTrackError if some is missing. If a digest differs, what was received is removed.
    """
    upload = _place(name, root)
    manifest, apart = _manifest(upload), upload / "session"
    with locked(upload / "lock", "this upload"):
        size = (upload / "content").stat().st_size
        if size != manifest.bytes:
            raise LostTrackError(size)
        shutil.rmtree(apart, ignore_errors=True)
        try:
            _split(upload / "content", manifest, apart / manifest.session)
            _check_name(Session(apart / manifest.session), manifest)
            [merged] = merging.merge(apart / manifest.session, root)
        except InputError:
            shutil.rmtree(upload)
            raise
        shutil.rmtree(upload)
    return merged


def _checked(text: bytes) -> PushManifest:
    """The manifest of a session. Raises InputError if anything in it can't be one."""
    try:
        manifest = from_json(PushManifest, text)
    except ValueError as error:
        raise InputError("this is not the manifest of a session") from error
    suite, mark, session = manifest.session.partition("/")
    set_name(suite)
    public_name(safe_name(session))
    names = {file.name for file in manifest.files}
    wrong = [name for name in names if not merging.is_layout_name(name)]
    largest = max((file.bytes for file in manifest.files), default=0)
    if wrong:
        raise InputError(f"{wrong[0]!r} is no file of a session")
    if not mark or "session.json" not in names or len(names) != len(manifest.files):
        raise InputError("the manifest lacks session.json, or names a file twice")
    if len(names) > merging.MOST_FILES or any(
        file.bytes < 0 or not re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in manifest.files
    ):
        raise InputError("the manifest has too many files, or a size or digest that can't be one")
    if largest > merging.LARGEST_FILE_BYTES or manifest.bytes > merging.LARGEST_SESSION_BYTES:
        raise InputError("the session is larger than an imported one may be")
    return manifest


def _split(content: Path, manifest: PushManifest, place: Path) -> None:
    """Write each file, and compare it with its digest."""
    with open_plain(content) as source:
        for file in manifest.files:
            target, digest, left = place / file.name, hashlib.sha256(), file.bytes
            with writing(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as output:
                    while left:
                        block = source.read(min(_BLOCK, left))
                        digest.update(block)
                        output.write(block)
                        left -= len(block)
            if digest.hexdigest() != file.sha256:
                raise InputError(f"{file.name} arrived damaged; push again")
    sync(place)


def _check_name(session: Session, manifest: PushManifest) -> None:
    """Raises InputError if the session itself says that it is another one."""
    if (own := f"{session.header.suite}/{session.name}") != manifest.session:
        raise InputError(f"the manifest names {manifest.session}, and its content is {own}")


def _manifest(upload: Path) -> PushManifest:
    return from_json(PushManifest, read_whole(upload / "manifest.json"))


def _place(name: str, root: Path) -> Path:
    upload = root / NAME / name
    if not re.fullmatch(r"[0-9a-f]{64}", name) or not (upload / "manifest.json").is_file():
        raise InputError("this upload was not announced, or was completed already")
    return upload


def _forget_old(place: Path) -> None:
    for upload in place.iterdir():
        content = upload / "content"
        if time.time() - (content if content.exists() else upload).stat().st_mtime > KEPT_S:
            shutil.rmtree(upload, ignore_errors=True)


def text_of(manifest: PushManifest) -> bytes:
    """The manifest as it is announced."""
    return to_compact_json(manifest).encode()
