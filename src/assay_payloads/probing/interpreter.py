"""Facts of the interpreter that runs this, which is the one that a trial's programs get.

It is started before every trial, in the trial's environment, so it imports next to nothing (3.8 or newer):
`python …/probing/interpreter.py` prints its facts, then its package search path, each ended by a NUL.
`ask` starts it from another interpreter.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing costs 5 ms per start
if TYPE_CHECKING:
    from collections.abc import Callable

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 10 ms
FACTS = ("version", "implementation", "executable", "virtual_environment")


def ask(python: str) -> Callable[[], tuple[dict[str, str], list[str]]]:
    """Start an interpreter that reports its facts, so that the caller can go on until it needs them.

    The returned function waits for the facts, by the names of `FACTS`, and for the folders that it finds
    packages in. It raises OSError if the interpreter can't be started, ValueError on any other answer.
    """
    reading, writing = os.pipe()
    argv, output = [python, f"{OWN_FOLDER}/interpreter.py"], (os.POSIX_SPAWN_DUP2, writing, 1)
    try:
        pid: int | OSError = os.posix_spawnp(python, argv, os.environ, file_actions=[output])
    except OSError as error:
        pid = error
    finally:
        os.close(writing)

    def answer() -> tuple[dict[str, str], list[str]]:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as printed:
            if isinstance(pid, OSError):
                raise pid
            *values, rest = printed.read().split("\0")
        os.waitpid(pid, 0)
        if rest or len(values) < len(FACTS):
            raise ValueError(f"{python} does not report its version")
        return dict(zip(FACTS, values)), values[len(FACTS) :]  # noqa: B905 - strict= is newer than 3.8

    return answer


def main() -> None:
    """Print the facts of this interpreter."""
    own = (
        sys.version.split()[0],
        sys.implementation.name,
        sys.executable,
        "yes" if sys.prefix != sys.base_prefix else "",
    )
    folders = [folder for folder in sys.path if folder not in ("", OWN_FOLDER)]
    sys.stdout.write("".join(f"{fact}\0" for fact in (*own, *folders)))


if __name__ == "__main__":
    main()
