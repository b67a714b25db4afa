"""Run directories with a damaged file: every command says so, and no run disappears silently."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from attacks.command import Check, assay, write_suite

RUNS = 4
READERS = (
    ("show",),
    ("show", "attack"),
    ("report", "attack", "-o", "page.html"),
    ("export", "attack", "--format", "json"),
    ("index",),
    ("run", "suite.yaml", "--quiet"),
)
NOTICES = ("show", "report")  # commands whose figures would silently lack a run


def damaged_files(folder: Path, count: int, draw: random.Random) -> list[Check]:
    """Damage run directories, and read each with every command."""
    clean = Check("a damaged run directory is a clear error or a result, never a traceback")
    named = Check("reports without a damaged run name that run")
    whole = folder / "whole"
    write_suite(whole, "print('value 5')", repeats=RUNS)
    ran = assay(whole, "run", "suite.yaml", "--quiet")
    clean.expect(ran.is_clean, f"the run before any damage: {ran}")
    for number in range(count):
        damage = _DAMAGES[number % len(_DAMAGES)]
        own = folder / str(number)
        shutil.copytree(whole, own, symlinks=True)
        attempt = draw.choice(sorted((own / "runs").glob("attack/*/*/attempt-1")))
        loses_a_run = damage(attempt)
        for argv in READERS:
            ended = assay(own, *argv)
            clean.expect(ended.is_clean, f"{damage.__name__}, assay {argv[0]}: {ended}")
            if loses_a_run and argv[0] in NOTICES:
                page = own / "page.html"
                text = ended.text + (page.read_text() if argv[0] == "report" and page.exists() else "")
                named.expect(attempt.parent.name in text, f"{damage.__name__}, assay {argv[0]}: {ended}")
    return [clean, named]


def _brackets(attempt: Path) -> bool:
    (attempt / "run.json").write_text("[" * 200_000)
    return True


def _cut(attempt: Path) -> bool:
    path = attempt / "run.json"
    path.write_bytes(path.read_bytes()[:100])
    return True


def _not_json(attempt: Path) -> bool:
    (attempt / "run.json").write_bytes(os.urandom(1_000))
    return True


def _fifo(attempt: Path) -> bool:
    (attempt / "run.json").unlink()
    os.mkfifo(attempt / "run.json")
    return True


def _reading(attempt: Path) -> bool:
    """The cache, which can be rebuilt."""
    (attempt / "reading.json").write_text("[" * 200_000)
    return False


def _log(attempt: Path) -> bool:
    log = attempt / "logs" / "rank-0.log"
    log.unlink()
    log.mkdir()
    (attempt / "reading.json").unlink(missing_ok=True)
    return True


def _plan(attempt: Path) -> bool:
    (attempt.parent.parent / "plan.json").write_text("{}")
    return False


def _session(attempt: Path) -> bool:
    (attempt.parent.parent / "session.json").write_text("[" * 200_000)
    return False


def _index(attempt: Path) -> bool:
    index = attempt.parents[3] / "index.duckdb"
    index.unlink(missing_ok=True)
    index.mkdir()
    return False


def _index_bytes(attempt: Path) -> bool:
    (attempt.parents[3] / "index.duckdb").write_bytes(os.urandom(10_000))
    return False


# Each damages one attempt, and returns whether that run's figures are lost.
_DAMAGES: tuple[Callable[[Path], bool], ...] = (
    *(_brackets, _index, _cut, _not_json, _fifo, _reading, _log, _plan, _session, _index_bytes),
)
