"""Starts programs of assay_payloads from one process that has imported their libraries.

    python fork_server.py MODULE

A program's start costs seconds of CPU time, nearly all of them to import torch and what lies on top of it.
This process imports once what the program and what travels with it import of others, then forks for each run.
What runs is the program's own file from its own directory, under the name `__main__`, with the arguments,
directory, environment and streams that it was asked to have; it ends as an interpreter ends.

Asked on standard input and answered on standard output by a line of JSON each:

    {"run": 1, "argv": [...], "directory": "...", "env": {...}, "out": "...", "errors": "..."}
    {"run": 1, "pid": 4711}    when it was started
    {"run": 1, "code": 0}      when it has ended; -9 where signal 9 ended it

It ends when its input does, and its runs with it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import runpy
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay import payload_files

LOOK_EVERY_S = 0.02  # for runs that have ended


def imports(program: str) -> Iterator[ast.stmt]:
    """The import statements at the head of the program and of what travels with it, but for those files."""
    for source in payload_files.files(program).values():
        for node in ast.parse(source).body:
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if named and named[0].partition(".")[0] not in ("assay_payloads", "__future__"):
                yield node


def load(program: str) -> None:
    """Import what it will import, and what torch's optimisers import at their first step."""
    head = ast.Module([*imports(program)], type_ignores=[])
    exec(compile(head, "imports", "exec"), {})
    if "torch" in sys.modules:
        pass
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"{threads} threads: a fork would lack all but one of them"


def serve() -> dict[str, Any] | None:
    """Start what is asked for; gives, in the process of a run, what it is to do, and in this one nothing."""
    running: dict[int, int] = {}
    asked_for = io.FileIO(0)  # unbuffered, so that select sees every line
    while True:
        ready, _, _ = select.select([0], [], [], LOOK_EVERY_S if running else None)
        if ready:
            line = asked_for.readline()
            if not line:
                break
            asked = json.loads(line)
            pid = os.fork()
            if pid == 0:
                return dict(asked)
            running[pid] = asked["run"]
            answer(run=asked["run"], pid=pid)
        for pid in [*running]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                answer(run=running.pop(pid), code=os.waitstatus_to_exitcode(status))
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return None


def answer(**told: int) -> None:
    """One line to who asked."""
    os.write(1, f"{json.dumps(told)}\n".encode())


def become(asked: dict[str, Any]) -> None:
    """Run the program, whose end is this process's."""
    for place, path in ((0, os.devnull), (1, asked["out"]), (2, asked["errors"])):
        flags = os.O_RDONLY if place == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags), place)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["directory"])
    option, program, *arguments = asked["argv"]
    assert option == "-m"
    sys.argv, sys.path[0] = [program, *arguments], asked["directory"]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    load(sys.argv[1])
    if (run := serve()) is not None:
        become(run)
