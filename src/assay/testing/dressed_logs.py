"""What others put around the log of a program: launchers, container engines, compressors, editors."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable, Mapping
from itertools import cycle

TIME = "2026-01-02T03:04:05.123456789Z"


def behind(*prefixes: str) -> Callable[[str], bytes]:
    """Each line behind one of the prefixes in turn."""

    def dressed(text: str) -> bytes:
        lines = text.removesuffix("\n").split("\n")
        joined = "\n".join(prefix + line for prefix, line in zip(cycle(prefixes), lines, strict=False))
        return (joined + "\n" * text.endswith("\n")).encode()

    return dressed


def in_dockers_json(text: str) -> bytes:
    """Each line as a record of Docker's json-file driver."""
    records = [
        json.dumps({"log": line, "stream": "stdout", "time": TIME}) for line in text.splitlines(keepends=True)
    ]
    return "\n".join(records).encode() + b"\n"


def _numbered(text: str, number: str) -> bytes:
    return "\n".join(
        number.format(place) + line if line or place < text.count("\n") else line
        for place, line in enumerate(text.split("\n"), 1)
    ).encode()


SURE: Mapping[str, Callable[[str], bytes]] = {
    "mpirun": behind("[1,0]<stdout>:", "[1,0]<stderr>:"),
    "mpirun-timestamps": behind("Fri Jan  2 03:04:05 2026[1,3]<stdout>:"),
    "prterun": behind("[prterun-node-a-71@1,0]<stdout>: "),
    "torchrun": behind("[default0]:"),
    "kubectl-timestamps": behind(TIME + " ", TIME.replace("Z", "+02:00") + " "),
    "gitlab": behind(TIME[:-4] + "Z 01O ", TIME[:-4] + "Z 01E "),
    "ts": behind("Jan  2 03:04:05 ", "Jan  3 03:04:06 "),
    "kubectl-prefix": behind("[pod/bench-0/main] "),
    "kubectl-both": behind(f"[pod/bench-0/main] {TIME} "),
    "containerd": behind(TIME + " stdout F ", TIME + " stderr F "),
    "journald": behind("Jan  2 03:04:05 node-a bench[4711]: "),
    "journald-iso": behind("2026-01-02T03:04:05+0000 node-a bench[4711]: "),
    "ray": behind("(main, pid=4112) "),
    "kubectl-mpirun": behind(TIME + " [1,0]<stdout>:"),
    "docker-json": in_dockers_json,
    "gzip": lambda text: gzip.compress(text.encode()),
    "xz": lambda text: lzma.compress(text.encode()),
    "bzip2": lambda text: bz2.compress(text.encode()),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be": lambda text: ("\ufeff" + text).encode("utf-16-be"),
    "utf-8-mark": lambda text: text.encode("utf-8-sig"),
    "gzip-utf-16": lambda text: gzip.compress(text.encode("utf-16")),
    "colors": lambda text: text.replace("\n", "\x1b[0m\n\x1b[1;32m").encode(),
    "no-break-spaces": lambda text: text.replace(" ", "\u00a0").encode(),
}
UNKNOWN: Mapping[str, Callable[[str], bytes]] = {  # by which no launcher is recognized
    "python-logging": behind("2026-01-02 03:04:05,123 INFO bench - run: "),
    "a-launcher": behind("INFO|2026-01-02T03:04:05|/opt/launcher.py|27| "),
    "grep-n": lambda text: _numbered(text, "{}:"),
    "cat-n": lambda text: _numbered(text, "{:6}\t"),
    "grep": behind("out.log:"),
    "a-quote": behind("> "),
    "pytest": behind("E   "),
    "ts-seconds": behind("00:00:01 ", "00:00:02 "),
    "ts-epoch": behind("1700000000.123456 "),
}
OF_SEVERAL_LINES: Mapping[str, Callable[[str], bytes]] = {  # recognized by labels that repeat
    "srun": behind("12: "),
    "pdsh": behind("node02: "),
    "mpiexec": behind("[0] "),
    "compose": behind("bench-1  | "),
}
