"""Sets of MLPerf result files in a tree: every folder with `result_*.txt`.

The tree may be one of MLCommons' repositories (`SUBMITTER/results/SYSTEM/BENCHMARK/result_0.txt` next to
`SUBMITTER/systems/SYSTEM.json`), a flatter copy of it, one folder, or single files. Nothing is ever written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, Problem
from assay.formats.benchmarks import benchmark_name, is_known_benchmark
from assay.formats.mllog import is_number
from assay.inputs import open_plain

LARGEST_JSON_BYTES: Final = 1 << 20
_OWN_LOGS = "**/attempt-*/logs/rank-0.log"
_RESULT_FILE = re.compile(r"result_(.*)\.txt(\.gz|\.xz)?")
_ROUND_FOLDER = re.compile(r"(?:.*_)?v(\d+\.\d+)")


@dataclass(frozen=True)
class ResultSet:
    """The runs of one benchmark on one system.

    name            the folder, relative to the given path; starts at the round's folder if the
                    path is below one: `v0.6/NVIDIA/dgx1_ngc19.05_mxnet/resnet`
    directory       where the files are
    files           in the order of their numbers
    round           as a folder above names it, `v3.1`; None if none does
    benchmark       if the folder's name is one; None otherwise
    system          the folder above the benchmark's, or its name in the system's JSON; None if unknown
    system_facts    the system's JSON, empty if there is none
    scaling_factor  from scaling.json; 1 without that file, None if it can't be parsed
    problems        what is wrong with the files around the results
    """

    name: str
    directory: Path
    files: tuple[Path, ...]
    round: str | None
    benchmark: str | None
    system: str | None
    system_facts: Mapping[str, Any]
    scaling_factor: float | None
    problems: tuple[Problem, ...]

    @property
    def accelerators(self) -> int | None:
        """All of the system's, from its JSON; None if it doesn't say."""
        stated = (self.system_facts.get(key) for key in ("number_of_nodes", "accelerators_per_node"))
        nodes, each = (int(text) if re.fullmatch(r"\d{1,9}", text := str(n).strip()) else 0 for n in stated)
        return nodes * each or None


def find_sets(paths: Sequence[Path]) -> list[ResultSet]:
    """Result sets in files and folders, in the given order, each folder once.

    Files that are named explicitly count whatever their names. Links are followed, loops are detected.
    Raises InputError, with all problems, if a path doesn't exist, can't be entered, or has no results.
    """
    folders: dict[Path, tuple[Path, set[Path]]] = {}
    problems: list[Problem] = []
    for path in paths:
        refused = len(problems)
        leaves = list(_leaves(path, problems))
        if not leaves and len(problems) == refused:
            problems.append(Problem(str(path), _no_results(path)))
        for directory, files in leaves:
            folders.setdefault(directory.resolve(), (path, set()))[1].update(files)
    if problems:
        raise InputError(problems)
    return [_set(directory, source, files) for directory, (source, files) in folders.items()]


def _no_results(path: Path) -> str:
    if not path.exists():
        return "no such file or folder"
    what = "has no result_*.txt (.gz, .xz); give a folder of MLPerf results, or log files"
    own = min(path.glob(_OWN_LOGS), default=None)
    return what if own is None else f"{what}: it belongs to an Assay run, like {own}"


def holds_results(path: Path) -> bool:
    """Whether `find_sets` finds training results below a path."""
    return any(True for _ in _leaves(path, []))


def round_of(path: Path) -> str | None:
    """The round that the nearest folder names: `v3.1` below `v3.1/` or `training_results_v3.1/`."""
    for part in reversed(path.parts):
        if match := _ROUND_FOLDER.fullmatch(part):
            return f"v{match[1]}"
    return None


def _leaves(path: Path, problems: list[Problem]) -> Iterator[tuple[Path, list[Path]]]:
    """Folders below a path that contain result files, with the files; a file represents its folder."""
    if path.is_file():
        yield path.parent, [path.resolve()]
        return

    def refused(error: OSError) -> None:
        if path.exists():
            problems.append(Problem(str(error.filename), f"can't be entered: {error.strerror}"))

    entered: set[Path] = set()
    for folder, inner, files in os.walk(path, onerror=refused, followlinks=True):
        here = Path(folder).resolve()
        if here in entered:  # a link back up, or a second path to the same folder
            inner.clear()
            continue
        entered.add(here)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        # a folder of that name is not a log, which is reported where it is read as one
        results = [here / name for name in (*files, *inner) if _RESULT_FILE.fullmatch(name)]
        if results:
            yield here, results


def _set(directory: Path, source: Path, files: set[Path]) -> ResultSet:
    problems: list[Problem] = []
    kept = _one_a_run(files, problems)
    factor = _scaling_factor(directory / "scaling.json", problems)
    benchmark = benchmark_name(directory.name)
    known = is_known_benchmark(benchmark)
    facts, file = system_facts(directory, problems)
    called = facts.get("system_name")
    folder = directory.parent.name if known or file else None
    return ResultSet(
        name=_name(directory, source),
        directory=directory,
        files=kept,
        round=round_of(directory),
        benchmark=benchmark if known else None,
        system=folder or (called if isinstance(called, str) else None),
        system_facts=facts,
        scaling_factor=factor,
        problems=tuple(problems),
    )


def _one_a_run(files: set[Path], problems: list[Problem]) -> tuple[Path, ...]:
    """The files in the order of their numbers; only one if a run exists raw and compressed."""
    runs: dict[str, Path] = {}
    for file in sorted(files, key=lambda file: (_by_number(file.name), len(file.name))):
        run = re.sub(r"\.(gz|xz)$", "", str(file))
        if run in runs:
            problems.append(Problem(str(file), f"skipped: the same run as {runs[run].name}"))
        else:
            runs[run] = file
    return tuple(runs.values())


def _by_number(name: str) -> list[tuple[int, int | str]]:
    return [
        (0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d{1,9})", name) if part
    ]


def _name(directory: Path, source: Path) -> str:
    parts = directory.parts
    versions = [index for index, part in enumerate(parts) if _ROUND_FOLDER.fullmatch(part)]
    root = source.resolve()
    base = root if root.is_dir() else root.parent
    if directory != base and directory.is_relative_to(base):
        relative = directory.relative_to(base).parts
        if not versions or versions[-1] >= len(parts) - len(relative):
            return "/".join(relative)
    return "/".join(parts[versions[-1] :] if versions else parts[-2:]).lstrip("/")


def _scaling_factor(path: Path, problems: list[Problem]) -> float | None:
    if not path.is_file():
        return 1.0
    factor = _json_object(path, problems).get("scaling_factor")
    if is_number(factor) and factor > 0:
        return float(factor)
    problems.append(Problem(str(path), f"scaling_factor is {factor!r}; expected a positive number"))
    return None


def system_facts(directory: Path, problems: list[Problem]) -> tuple[Mapping[str, Any], Path | None]:
    """The contents of the system's JSON, from the places where submissions keep it, and its file."""
    system = directory.parent
    candidates = [directory / "system.json", system / "system.json", system / f"{system.name}.json"]
    submitters = list(system.parents)[:2]  # with and without a `results` folder between
    for path in [*candidates, *(above / "systems" / f"{system.name}.json" for above in submitters)]:
        if path.is_file():
            return _json_object(path, problems), path
    return {}, None


def _json_object(path: Path, problems: list[Problem]) -> Mapping[str, Any]:
    """A small file's JSON object; {} and a problem if it has none."""
    try:
        with open_plain(path) as file:
            data = file.read(LARGEST_JSON_BYTES + 1)
        value = json.loads(data) if len(data) <= LARGEST_JSON_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        problems.append(Problem(str(path), f"can't be read as JSON: {error}"))
        return {}
    if isinstance(value, dict):
        return value
    problems.append(Problem(str(path), "is not a JSON object of at most 1 MiB"))
    return {}
