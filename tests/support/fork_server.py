"""Starts programs of assay_payloads from one process that has imported their libraries.

    python fork_server.py

A program's start costs seconds of CPU time, nearly all of them to import torch and what lies on top of it.
This process imports torch at once, and what else a program and what travels with it import of others when the
program is asked for the first time, then forks for each run. What runs is the program's own file from its own
directory, under the name `__main__`, with the arguments, directory, environment and streams that it was asked
to have. It ends as an interpreter ends, but leaves its memory to the kernel: to take down what was imported
costs a second. Scripts and `-c` are run in the same way.

Asked on standard input and answered on standard output by a line of JSON each:

    {"run": 1, "argv": [...], "directory": "...", "env": {...}, "out": "...", "errors": "..."}
    {"run": 1, "pid": 4711}    when it was started
    {"run": 1, "code": 0}      when it has ended; -9 where signal 9 ended it

It ends when its input does, and its runs with it.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import io
import json
import os
import runpy
import select
import signal
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

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


@cache
def load(program: str) -> None:
    """Import what it will import."""
    for statement in imports(program):
        # RuntimeError: mpi4py without a library, which few runs of a program need
        with contextlib.suppress(ImportError, RuntimeError):
            exec(compile(ast.Module([statement], type_ignores=[]), "imports", "exec"), {})
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
            if asked["argv"][0] == "-m":
                load(asked["argv"][1])
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
    for name in [name for name in sys.modules if name.partition(".")[0] == "assay_payloads"]:
        del sys.modules[name]  # the run takes its own
    match asked["argv"]:
        case ["-m", program, *arguments]:
            sys.argv, sys.path[0] = [program, *arguments], asked["directory"]
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        case ["-c", code, *arguments]:
            sys.argv, sys.path[0] = ["-c", *arguments], asked["directory"]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [script, *arguments]:
            sys.argv, sys.path[0] = [script, *arguments], str(Path(script).parent)
            runpy.run_path(script, run_name="__main__")


def end(code: object) -> NoReturn:
    """End this process with the code of a SystemExit."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    load("assay_payloads.training.resnet50")
    try:
        if (run := serve()) is not None:
            become(run)
    except SystemExit as ended:
        end(ended.code)
    except BaseException:  # noqa: BLE001  (what an interpreter does with it)
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        end(1)
    end(0)
