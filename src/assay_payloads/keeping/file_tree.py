"""Reads the kernel's files for facts: missing files are absent, refused files are named."""

from __future__ import annotations

import errno
import os
import re

# The kernel's errors for an attribute without a value here: not a fault, so not named
NO_VALUE = {errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP}
BLOCK_BYTES = 1 << 14  # read at a time: most of the kernel's files are smaller


class FileTree:
    """The file system below a root, read for facts: None if there is nothing, never an exception."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.unreadable: list[str] = []

    def path(self, name: str) -> str:
        """The path of an absolute name below the root."""
        return os.path.join(self.root, name.lstrip("/"))  # noqa: PTH118 - pathlib costs 10 ms of start-up

    def text(self, name: str, size: int = 1 << 20) -> str | None:
        """The first `size` bytes of a file as text, without surrounding whitespace."""
        try:
            return read_bytes(self.path(name), size).decode(errors="replace").strip("\0\n\t ") or None
        except OSError as error:
            self._note(name, error)
            return None

    def lines(self, name: str) -> list[str]:
        """A file's lines; [] if it does not exist."""
        return (self.text(name) or "").splitlines()

    def number(self, name: str) -> int | None:
        """The value of a file with one integer."""
        text = self.text(name)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def names(self, name: str, pattern: str = "") -> list[str]:
        """Sorted names in a directory that match the pattern from their start; [] if it does not exist."""
        try:
            return sorted(entry for entry in os.listdir(self.path(name)) if re.match(pattern, entry))  # noqa: PTH208
        except OSError as error:
            self._note(name, error)
            return []

    def has(self, name: str) -> bool:
        """Whether a file or directory with this name exists."""
        return os.path.exists(self.path(name))  # noqa: PTH110

    def _note(self, name: str, error: OSError) -> None:
        if error.errno not in NO_VALUE:
            self.unreadable.append(f"{name}: {error.strerror}")


def read_bytes(path: str, size: int) -> bytes:
    """The beginning of a file. A file object around it takes three times as long. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while len(data) < size and (more := os.read(file, min(size, BLOCK_BYTES))):
            data += more
        return data[:size]
    finally:
        os.close(file)


THIS_NODE = FileTree()
"""For what is read again and again."""


def keyed_lines(text: str | None) -> dict[str, str]:
    """`key: value` lines up to the first empty one, as in /proc/cpuinfo and /proc/meminfo."""
    table: dict[str, str] = {}
    for line in (text or "").split("\n\n", 1)[0].splitlines():
        key, colon, value = line.partition(":")
        if colon:
            table.setdefault(key.strip(), value.strip())
    return table
