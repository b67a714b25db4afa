"""What is known of interpreters and their packages, remembered by the process that forks many probes.

An interpreter's start and the files of its packages are half of what a short trial costs. Nothing is
remembered longer than it is known to hold: the facts are used again only if the command, the environment, the
interpreter's files and the folders that it searches are what they were; installing a package changes its
folder. An interpreter that another program starts (a shim) is always asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from assay_payloads.probing import interpreter
from assay_payloads.probing.node_software import software

OF_ONE_TRIAL = ("ASSAY_SEED", "ASSAY_TOKEN", "MASTER_PORT")  # variables that no interpreter depends on
SEARCHED = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
LONGEST_BYTES = 1 << 16
STEERS_SEARCH = (".pth", "customize.py", "pyvenv.cfg")  # ends of the names of files that add folders

Facts = Iterable[tuple[str, Any]]


class RememberedAnswers:
    """A forked process reads what this process knew when it was forked, and reports what it has learned.

    A process that never takes in anything, and forks no probes, asks each time.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._ends: tuple[socket.socket, ...] = ()  # where reports arrive, and where they are sent

    def take_in(self) -> None:
        """Learn what forked processes have reported."""
        if not self._ends:
            self._ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            for end in self._ends:
                end.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                question, answer = json.loads(self._ends[0].recv(LONGEST_BYTES))
                self._known[question] = answer

    def close(self) -> None:
        """Take in nothing more."""
        for end in self._ends:
            end.close()

    def ask(self, python: str) -> Callable[[], Facts]:
        """The facts of `software`, from memory if nothing has changed since.

        The interpreter starts at once; the returned function waits for its facts, and raises what
        `interpreter.ask` raises.
        """
        question = _question(python, os.environ) if self._ends else ""
        known = self._known.get(question)
        if known is not None and known["stamps"] == _stamps(python, known["folders"]):
            return known["facts"].items
        answer = interpreter.ask(python)

        def facts() -> Iterator[tuple[str, Any]]:
            about, folders = answer()
            stamps = _stamps(python, folders)  # before the packages are read: a later one changes them
            learned = {}
            for name, value in software(about, folders):
                learned[name] = value
                yield name, value
            if self._ends and os.path.realpath(about["executable"]) == os.path.realpath(python):
                report = json.dumps((question, {"facts": learned, "folders": folders, "stamps": stamps}))
                with contextlib.suppress(OSError):  # too long, or nobody takes it in: ask again next time
                    self._ends[1].send(report.encode())

        return facts


def _question(python: str, environment: Mapping[str, str]) -> str:
    """What the answer depends on: the working directory, new for each job, only if a path is relative."""
    lasting = {name: value for name, value in environment.items() if name not in OF_ONE_TRIAL}
    paths = [python] if os.sep in python else []
    for name in SEARCHED:
        paths += lasting[name].split(os.pathsep) if name in lasting else []
    relative = not all(map(os.path.isabs, paths))
    directory = os.getcwd() if relative else None  # noqa: PTH109 - pathlib costs 10 ms
    return json.dumps([python, directory, lasting], sort_keys=True)


def _stamps(python: str, folders: list[str]) -> list[list[Any]]:
    """What changes when the interpreter does, a package is installed, or a file that steers its search is."""
    real = os.path.realpath(python)
    stamps = [[real, *_stamp(real)]]
    environment = os.path.dirname(os.path.dirname(python))  # noqa: PTH120
    for folder in (*folders, os.path.dirname(python), environment, f"{environment}/conda-meta"):  # noqa: PTH120
        stamps.append([folder, *_stamp(folder)])
        with contextlib.suppress(OSError):
            names = sorted(name for name in os.listdir(folder) if name.endswith(STEERS_SEARCH))  # noqa: PTH208
            stamps += [[name, *_stamp(f"{folder}/{name}")] for name in names]
    return stamps


def _stamp(path: str) -> list[int]:
    """Identity, size and time of change; empty if there is no such file."""
    try:
        stat = os.stat(path)  # noqa: PTH116
    except OSError:
        return []
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


ANSWERS = RememberedAnswers()
