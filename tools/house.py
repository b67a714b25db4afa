"""How large the house is: `make house` prints files, lines, imports and the largest functions of each room.

    python tools/house.py            the table, next to other projects counted in the same way
    python tools/house.py --check    fails if local names that say nothing have increased, or a file's
                                     count of them has; tools/empty_names.txt is what remains. Fails if
                                     files import each other in a circle
    python tools/house.py --write    records fewer of them

A local name says what it holds. `found`, `one` or `words` do not, so their number only goes down.
Files that import each other can only be read, moved and tested together: one of them is below the other.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
REMAINING = ROOT / "tools" / "empty_names.txt"
# names of local variables and parameters that don't say what they hold
EMPTY = frozenset({"found", "one", "words", "said", "told", "made", "at", "of", "asked", "given", "wanted"})
LONG = 40  # lines: the longest function that a screen shows whole
# Counted by the same rules in November 2026, without tests and vendored code.
ANCHORS = {
    "ReFrame": (63, 30_700, 2.0, 101, 1_878, 0),
    "torchx": (103, 21_000, 5.1, 85, 742, 39),
    "datasette": (73, 28_900, 3.3, 142, 1_053, 43),
    "sqlite-utils": (10, 11_200, 1.4, 68, 317, 8),
    "asv": (53, 13_000, 2.7, 68, 529, 0),
    "pyperf": (22, 7_800, 2.7, 26, 507, 0),
    "metaflow": (302, 86_100, 3.6, 416, 3_593, 1),
    "dask.distributed": (172, 68_300, 4.1, 319, 3_007, 47),
    "dvc": (300, 44_700, 7.0, 183, 2_372, 18),
}


@dataclass
class Room:
    """What one folder of the source contains."""

    files: int = 0
    lines: int = 0
    import_lines: int = 0
    functions: list[tuple[int, str]] = field(default_factory=list)
    dataclasses: int = 0
    names: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path, text: str) -> None:
        """Count one file."""
        tree = ast.parse(text)
        self.files += 1
        self.lines += text.count("\n")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.import_lines += _length(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.append(
                    (_length(node), f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}")
                )
            elif isinstance(node, ast.ClassDef):
                self.dataclasses += any("dataclass" in ast.unparse(use) for use in node.decorator_list)
        self.names.update(empty_names(tree))

    def row(self, name: str) -> str:
        """A line of the table."""
        long = sum(length > LONG for length, _ in self.functions)
        largest = max(self.functions, default=(0, ""))
        imports = 100 * self.import_lines / max(self.lines, 1)
        figures = _row(name, self.files, self.lines, imports, long, len(self.functions), self.dataclasses)
        return f"{figures}{self.names.total():7,}  {largest[0]:3} {largest[1].split('/')[-1]}"


def empty_names(tree: ast.AST) -> Iterator[str]:
    """Each assignment to a local name, and each parameter, that is in EMPTY."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY:
            yield node.id
        elif isinstance(node, ast.arg) and node.arg in EMPTY:
            yield node.arg


def rooms() -> dict[str, Room]:
    """The rooms by name, the largest first."""
    counted: dict[str, Room] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        name = f"{parts[0]}/{parts[1]}" if len(parts) > 2 else f"{parts[0]}/*.py"
        counted.setdefault(name, Room()).add(path, path.read_text())
    return dict(sorted(counted.items(), key=lambda item: -item[1].lines))


def names_by_file() -> dict[str, int]:
    """File → how many empty names it has; files without any are left out."""
    counts = {
        str(path.relative_to(SOURCE)): sum(1 for _ in empty_names(ast.parse(path.read_text())))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    return {file: count for file, count in counts.items() if count}


def imports() -> dict[str, set[str]]:
    """Module → modules of the source that its file imports, also late or only for types."""
    files = {_module(path): path for path in sorted(SOURCE.rglob("*.py"))}
    return {
        module: {_nearest(name, files) for name in _imported_names(ast.parse(path.read_text()))}
        - {module, ""}
        for module, path in files.items()
    }


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def _imported_names(tree: ast.AST) -> Iterator[str]:
    """What each import names: a module, or something in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _nearest(name: str, modules: Collection[str]) -> str:
    """The module that this names, or that has it; empty if it is not of the source."""
    parent = name.rpartition(".")[0]
    return name if name in modules else parent if parent in modules else ""


def circle(imported: Mapping[str, Collection[str]]) -> list[str]:
    """Modules of which each imports the next, and the last is the first; empty if there are none."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules[::-1]  # the standard library names what is imported first
    return []


def check() -> list[str]:
    """What is worse than the record or no longer as it says, and a circle of imports."""
    wrong = _worse_names()
    if modules := circle(imports()):
        wrong.append(
            f"files import each other in a circle: {' imports '.join(modules)}. Move what both need into the "
            "file that is below, or into its own"
        )
    return wrong


def _worse_names() -> list[str]:
    remaining, counts = _remaining(), names_by_file()
    wrong = [
        f"src/{file}: {counts.get(file, 0)} local names that say nothing ({', '.join(sorted(EMPTY))}), "
        f"where tools/empty_names.txt allows {remaining.get(file, 0)}: name what they hold"
        for file in counts
        if counts[file] > remaining.get(file, 0)
    ]
    stale = [file for file, count in remaining.items() if counts.get(file, 0) < count]
    if stale and not wrong:
        wrong.append(
            f"{len(stale)} files have fewer empty names than tools/empty_names.txt allows, such as "
            f"{stale[0]}: python tools/house.py --write"
        )
    return wrong


def write() -> None:
    """Record what is there; a record only goes down."""
    remaining, counts = _remaining(), names_by_file()
    if remaining and sum(counts.values()) > sum(remaining.values()):
        sys.exit(f"{sum(counts.values())} empty names; the record allows {sum(remaining.values())} at most")
    REMAINING.write_text("".join(f"{count:4} {file}\n" for file, count in counts.items()))


def _remaining() -> dict[str, int]:
    lines = REMAINING.read_text().splitlines() if REMAINING.exists() else []
    return {file: int(count) for count, file in (line.split() for line in lines)}


def table() -> Iterator[str]:
    """All rooms, the whole, and the anchors."""
    counted = rooms()
    heads = f"{'files':>7}{'lines':>9}{'a file':>8}{'imports':>9}{'> 40 lines':>15}{'records':>9}{'names':>7}"
    yield f"{'room':30}{heads}  largest"
    yield from (room.row(name) for name, room in counted.items())
    yield _sum(counted.values()).row("whole")
    yield ""
    yield from (_row(name, *figures) for name, figures in ANCHORS.items())


def _sum(counted: Iterable[Room]) -> Room:
    whole = Room()
    for room in counted:
        whole.files += room.files
        whole.lines += room.lines
        whole.import_lines += room.import_lines
        whole.functions += room.functions
        whole.dataclasses += room.dataclasses
        whole.names += room.names
    return whole


def _row(
    name: str, files: int, lines: int, import_percent: float, long: int, functions: int, records: int
) -> str:
    return (
        f"{name:30}{files:7,}{lines:9,}{lines / max(files, 1):8.0f}{import_percent:8.1f}%"
        f"{f'{long} of {functions:,}':>15}{records:9}"
    )


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> None:
    """Print, check or write."""
    if "--write" in sys.argv[1:]:
        write()
    elif "--check" in sys.argv[1:]:
        if wrong := check():
            sys.exit("\n".join(wrong))
    else:
        print("\n".join(table()))


if __name__ == "__main__":
    main()
