"""The test that a built image runs: its arguments are a time limit in seconds, and modules.

Without modules, it takes one of each installed distribution that no other one requires, by the name that the
distribution has for it: PyPDF2, not pypdf2. Modules are imported in a child, because one may hang or end the
process. The line that it prints last says what was imported, and what failed. It travels as text
(`python3 -c`), so it needs nothing but the standard library.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import select
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

_TOOLS = {"pip", "setuptools", "wheel"}
_MOST_SHOWN = 500  # characters of an error


def main(limit_s: str, *modules: str) -> int:
    """Print what was tested and what failed; the exit code."""
    failed = []
    for check in (user, home):
        try:
            check()
        except (OSError, KeyError) as error:  # no HOME is a KeyError
            failed.append((check.__name__, f"{type(error).__name__}: {error}"))
    choices: list[tuple[str, ...]] = [(module,) for module in modules]
    choices = choices or list(required())
    results, late = imported([module for choice in choices for module in choice], float(limit_s))
    tested = []
    for choice in choices:
        known = [module for module in choice if module in results]
        worked = [module for module in known if results[module] is None]
        tested += (worked or known)[:1]
        if late in choice:
            failed.append((f"import {late}", str(results[late])))
        elif not worked:
            why = str(results[known[0]]) if known else "not tried: one before it did not finish"
            failed.append((f"import {choice[0]}", why))
    print("\nassay-image-test " + json.dumps({"modules": tested, "failed": failed}), flush=True)
    return 1 if failed else 0


def user() -> None:
    """Raise PermissionError unless it is an ordinary user of group 0."""
    if os.getuid() == 0 or os.getgid() != 0:
        raise PermissionError(f"it runs as user {os.getuid()} of group {os.getgid()}")


def home() -> None:
    """Raise an error unless HOME is writable."""
    tempfile.TemporaryFile(dir=os.environ["HOME"]).close()


def required() -> Iterator[tuple[str, ...]]:
    """For each distribution that no other one requires, the modules of which one must be importable."""
    installed = {
        _normalized_name(distribution.metadata["Name"]): distribution
        for distribution in importlib.metadata.distributions()
    }
    needed = {
        _normalized_name(re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0])
        for distribution in installed.values()
        for text in distribution.requires or ()
        if "extra" not in text.partition(";")[2]
    }
    for name in sorted(set(installed) - needed - _TOOLS):
        modules = sorted(_modules(installed[name]))
        own = [module for module in modules if module.lower() == name]
        if modules:
            yield tuple(own or modules)


def _normalized_name(name: str | None) -> str:
    """The name as PyPI compares it, with underscores."""
    return re.sub(r"[-_.]+", "_", name or "").lower()


def _modules(distribution: importlib.metadata.Distribution) -> set[str]:
    """The public modules of a distribution."""
    names = set((distribution.read_text("top_level.txt") or "").split())
    for file in () if names else distribution.files or ():
        if file.suffix in (".py", ".so"):
            names.add(file.parts[0] if len(file.parts) > 1 else file.name.partition(".")[0])
    return {module for module in names if module.isidentifier() and not module.startswith("_")}


def imported(modules: Sequence[str], limit_s: float) -> tuple[dict[str, str | None], str]:
    """Import modules; why each failed, or None, and the one that did not end in time, or "".

    Those after it are left out.

    After a module that ends the process, a new child imports the rest.
    """
    until = time.monotonic() + limit_s
    results: dict[str, str | None] = {}
    while len(results) < len(modules):
        left = modules[len(results) :]
        answers, ended = _in_child(left, until)
        results.update(zip(left, answers, strict=False))
        if len(answers) < len(left):
            at_fault = left[len(answers)]
            results[at_fault] = ended or f"not finished within {limit_s:g} s"
            if ended is None:
                return results, at_fault
    return results, ""


def _in_child(modules: Sequence[str], until: float) -> tuple[list[str | None], str | None]:
    """Why each module failed, up to one that ended the child, and how; None if it was killed at `until`."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        _import_each(modules, sink)
    os.close(sink)
    output, late = b"", False
    while output.count(b"\n") < len(modules):
        late = not select.select([source], [], [], max(0.0, until - time.monotonic()))[0]
        part = b"" if late else os.read(source, 65536)
        if not part:
            break
        output += part
    os.close(source)
    if late:
        os.kill(child, 9)
    status = os.waitpid(child, 0)[1]
    answers = [json.loads(line) for line in output.split(b"\n")[:-1]]
    how = f"signal {status & 127}" if status & 127 else f"exit code {status >> 8}"
    return answers, None if late else f"it ended the process with {how}"


def _import_each(modules: Sequence[str], sink: int) -> None:
    for module in modules:
        why = None
        try:
            importlib.import_module(module)
        except BaseException as error:  # noqa: BLE001  (a module may raise anything; all of it is reported)
            why = f"{type(error).__name__}: {error}"[:_MOST_SHOWN]
        os.write(sink, json.dumps(why).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))  # without waiting for threads
