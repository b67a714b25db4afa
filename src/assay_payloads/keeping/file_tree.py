"""The kernel's files, read for facts: what is not there is absent, what was refused is named."""

from __future__ import annotations

import errno
import os
import re

# The kernel's ways to say that an attribute has no value here: no fault, so not worth naming
NO_VALUE = {errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP}


class FileTree:
    """The file system below a root, read for facts: None where there is nothing, never an exception."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.unreadable: list[str] = []

    def path(self, name: str) -> str:
        """Where an absolute name lies below the root."""
        return os.path.join(self.root, name.lstrip("/"))  # noqa: PTH118 - pathlib costs 10 ms of start-up

    def text(self, name: str, size: int = 1 << 20) -> str | None:
        """The first `size` characters of a file, without the white space around them."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                return file.read(size).strip("\0\n\t ") or None
        except OSError as error:
            self._note(name, error)
            return None

    def lines(self, name: str) -> list[str]:
        """A file's lines; [] where there is none."""
        return (self.text(name) or "").splitlines()

    def number(self, name: str) -> int | None:
        """A file that holds one integer."""
        text = self.text(name)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def names(self, name: str, pattern: str = "") -> list[str]:
        """Sorted names in a directory that match the pattern from their beginning; [] where there is none."""
        try:
            return sorted(entry for entry in os.listdir(self.path(name)) if re.match(pattern, entry))  # noqa: PTH208
        except OSError as error:
            self._note(name, error)
            return []

    def has(self, name: str) -> bool:
        """Whether a file or directory of this name exists."""
        return os.path.exists(self.path(name))  # noqa: PTH110

    def _note(self, name: str, error: OSError) -> None:
        if error.errno not in NO_VALUE:
            self.unreadable.append(f"{name}: {error.strerror}")


def keyed_lines(text: str | None) -> dict[str, str]:
    """`key: value` lines up to the first empty one, as in /proc/cpuinfo and /proc/meminfo."""
    table: dict[str, str] = {}
    for line in (text or "").split("\n\n", 1)[0].splitlines():
        key, colon, value = line.partition(":")
        if colon:
            table.setdefault(key.strip(), value.strip())
    return table
