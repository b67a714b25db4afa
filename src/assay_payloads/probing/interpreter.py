"""What the interpreter is that runs this: the one that a trial's programs get.

It is started before every trial, in the trial's environment, so it imports next to nothing (3.8 or newer):
`python …/probing/interpreter.py` prints its facts, then where it looks for packages, each ended by a NUL.
`asked` starts it from another one.
"""

from __future__ import annotations

import os
import sys

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 10 ms
FACTS = ("version", "implementation", "executable", "virtual_environment")


def asked(python: str) -> tuple[dict[str, str], list[str]]:
    """The facts of an interpreter, by the names of `FACTS`, and the folders that it finds packages in.

    Raises OSError where it can't be started, ValueError where it says something else.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8", errors="replace") as answer:
        try:
            argv = [python, f"{OWN_FOLDER}/interpreter.py"]
            pid = os.posix_spawnp(python, argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
        finally:
            os.close(writing)
        *said, rest = answer.read().split("\0")
    os.waitpid(pid, 0)
    if rest or len(said) < len(FACTS):
        raise ValueError(f"{python} does not say what it is")
    return dict(zip(FACTS, said)), said[len(FACTS) :]  # noqa: B905 - strict= is newer than 3.8


def main() -> None:
    """Say what this one is."""
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
