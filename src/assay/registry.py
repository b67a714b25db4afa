"""Tables of names: Assay's own, imported on first use, and what other installed packages add to them.

A package adds an entry by the usual means, an entry point in the group of the table:

    [project.entry-points."assay.formats"]
    oven = "assay_oven.format:TOOL"

Its module, or the package above it, states the interface that it was written for: `ASSAY_INTERFACE = 1`.
Entry points are searched only for a name that Assay itself lacks, or for a list. One that can't be used is
named with its package, and changes nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

from assay.errors import AssayError, PluginError

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

INTERFACE: Final = 1  # of `assay.plugins`; increased when plug-ins have to change
STATEMENT: Final = "ASSAY_INTERFACE"
IMPORT_LIMIT_S: Final = 10.0
# group → where its table is
TABLES: Final[Mapping[str, str]] = {
    "assay.formats": "assay.formats.tools:TOOLS",
    "assay.workloads": "assay.workloads:WORKLOADS",
    "assay.launchers": "assay.launch:PLATFORMS",
    "assay.doubts": "assay.analyse.doubts:KINDS",
    "assay.charts": "assay.view.charts:CHARTS",
    "assay.expectations": "assay.analyse.expectations.references:EXPECTATIONS",
    "assay.commands": "assay.cli.commands:COMMANDS",
}
_PYTHONS_OWN: Final = os.__file__.removesuffix("os.py")
_METADATA: Final = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


class EntryPoint(NamedTuple):
    """What an installed package adds to a table. Not a dataclass, which takes `assay --help` 2 ms to make.

    value  where it is: `module:attribute`
    about  the package in one line
    place  the directory that the package was found in
    """

    group: str
    name: str
    value: str
    package: str
    version: str
    about: str
    place: str

    def __str__(self) -> str:
        return f"plug-in {self.package} {self.version} ({self.group}: {self.name} = {self.value})"

    def guarded(
        self,
        function: Callable[P, R],
        failed: Callable[[PluginError], R] | None = None,
        passes: tuple[type[BaseException], ...] = (AssayError,),
    ) -> Callable[P, R]:
        """The plug-in's function, whose unexpected exceptions become a PluginError that names the plug-in.

        failed  makes its result from that error, instead of raising it
        passes  exceptions that its callers expect
        """

        def call(*args: P.args, **named: P.kwargs) -> R:
            try:
                return function(*args, **named)
            except passes:
                raise
            except (Exception, SystemExit) as error:
                failure = PluginError(f"{self}: {described(error)}")
                if failed is None:
                    raise failure from error
                return failed(failure)

        return call


class CommandTable(NamedTuple):
    """The commands below one name, such as `assay stack`.

    about     its help
    commands  name → the location of the command or question, `module:NAME`, and one line on it
    """

    about: str
    commands: Mapping[str, tuple[str, str]]


class NamedEntries(Mapping[str, T], Generic[T]):
    """Name → entry. Names alone import nothing; what plug-ins add comes after what Assay has.

    `registry[name]` raises PluginError for a plug-in that can't be used; `items` and `values` report it once
    and go on without it.
    """

    def __init__(
        self,
        group: str,
        built_in: Mapping[str, Any],
        kind: type[Any],
        *,
        calls_itself: Callable[[Any], str] | None,
        adapt: Callable[[Any, EntryPoint], Any],
        part: Callable[[Any], T],
        loaded: dict[EntryPoint, Any],
    ) -> None:
        self.group, self.built_in, self._kind = group, built_in, kind
        self._calls_itself, self._adapt, self._part, self._loaded = calls_itself, adapt, part, loaded

    def __getitem__(self, name: str) -> T:
        if name in self.built_in:
            return self._part(self._own(name))
        return self._part(self._usable(self.plugin_entries()[name]))

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self.plugin_entries()

    def __iter__(self) -> Iterator[str]:
        return iter((*self.built_in, *self.plugin_entries()))

    def __len__(self) -> int:
        return len(self.built_in) + len(self.plugin_entries())

    def items(self) -> ItemsView[str, T]:
        """All entries that can be used."""
        return self._all().items()

    def values(self) -> ValuesView[T]:
        """All entries that can be used."""
        return self._all().values()

    def part(self, attribute: Callable[[T], R]) -> NamedEntries[R]:
        """The same table with one attribute of each entry."""
        return NamedEntries(
            self.group,
            self.built_in,
            self._kind,
            calls_itself=self._calls_itself,
            adapt=self._adapt,
            part=lambda entry: attribute(self._part(entry)),
            loaded=self._loaded,
        )

    def plugin_entries(self) -> dict[str, list[EntryPoint]]:
        """Name → the entry points that add it; an entry point with a name of Assay's own adds nothing."""
        entries: dict[str, list[EntryPoint]] = {}
        for entry in entry_points():
            if entry.group == self.group and entry.name not in self.built_in:
                entries.setdefault(entry.name, []).append(entry)
        return entries

    def plugin(self, name: str) -> EntryPoint | None:
        """The entry point that adds a name; None for Assay's own, and if there is no such name."""
        return None if name in self.built_in else next(iter(self.plugin_entries().get(name, ())), None)

    def trouble(self, entry: EntryPoint) -> str:
        """Why an entry point of this group can't be used, with its name; "" if it can. Imports it."""
        if entry.name in self.built_in:
            return f"{entry}: {entry.name!r} is one of Assay's own names; its own is used"
        try:
            self._usable(self.plugin_entries().get(entry.name, [entry]))
        except PluginError as error:
            return str(error)
        return ""

    def usable_plugins(self) -> list[EntryPoint]:
        """The entry points of this group that can be used; the others are reported once. Imports them."""
        usable = []
        for entry in entry_points():
            if entry.group == self.group:
                if why := self.trouble(entry):
                    report(why)
                else:
                    usable.append(entry)
        return usable

    def _all(self) -> dict[str, T]:
        own = {name: self._part(self._own(name)) for name in self.built_in}
        return own | self.added()

    def added(self) -> dict[str, T]:
        """What plug-ins add, as far as it can be used; the others are reported once."""
        return {entry.name: self[entry.name] for entry in self.usable_plugins()}

    def _own(self, name: str) -> Any:
        entry = self.built_in[name]
        return imported(entry) if isinstance(entry, str) else entry

    def _usable(self, entries: list[EntryPoint]) -> Any:
        entry, *others = entries
        if others:
            rivals = " and ".join(map(str, entries))
            raise PluginError(f"{rivals}: they have the same name, so none of them is used")
        if entry not in self._loaded:
            try:
                self._loaded[entry] = self._load(entry)
            except PluginError as error:
                self._loaded[entry] = error
        if isinstance(self._loaded[entry], PluginError):
            raise PluginError(str(self._loaded[entry]))
        return self._loaded[entry]

    def _load(self, entry: EntryPoint) -> Any:
        place, _, attribute = entry.value.partition(":")
        if why := _why_not_imported(place):
            raise PluginError(f"{entry}: {why}")
        _check_interface(entry, place)
        added = getattr(sys.modules[place], attribute, None)
        if not isinstance(added, self._kind):
            what = f"is a {type(added).__name__}" if added is not None else "does not exist"
            raise PluginError(f"{entry}: {entry.value} {what}; expected a {self._kind.__name__}")
        named = self._calls_itself(added) if self._calls_itself else entry.name
        if named != entry.name:
            raise PluginError(f"{entry}: calls itself {named!r}; both names must be the same")
        return entry.guarded(self._adapt)(added, entry)


def registry(
    group: str,
    built_in: Mapping[str, str] | Mapping[str, T],
    kind: type[Any],
    *,
    calls_itself: Callable[[T], str] | None = None,
    adapt: Callable[[T, EntryPoint], T] = lambda added, _entry: added,
    part: Callable[[Any], T] = lambda entry: entry,
) -> NamedEntries[T]:
    """The table of a group.

    built_in      name → Assay's own entry, or its location, `module:NAME`
    kind          type of the entries
    calls_itself  the name that an entry states, if it states one
    adapt         makes the entry from what a plug-in added, so that its failures stay its own; raises
                  if that can't be used
    part          makes the entry from what is at its location
    """
    assert group in TABLES
    return NamedEntries(
        group,
        built_in,
        kind,
        calls_itself=calls_itself,
        adapt=adapt,
        part=part,
        loaded={},
    )


def imported(place: str) -> Any:
    """What is at `module:NAME`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def trouble(entry: EntryPoint) -> str:
    """Why an entry point can't be used, with its name; "" if it can. Imports it."""
    if entry.group not in TABLES:
        return f"{entry}: Assay has no group {entry.group}; its groups are {', '.join(TABLES)}"
    table: NamedEntries[Any] = imported(TABLES[entry.group])
    return table.trouble(entry)


def described(error: BaseException) -> str:
    """An exception and where it was raised, or where Python's own library was asked for it, in one line."""
    text = f"{type(error).__name__}: {error}".strip(": ").replace("\n", " ")
    if isinstance(error, SyntaxError):  # its text has the place
        return text
    last = error.__traceback__
    place = ""
    while last is not None:
        file = last.tb_frame.f_code.co_filename
        if "site-packages" in file or not file.startswith(("<frozen ", _PYTHONS_OWN)):
            place = f" ({file}:{last.tb_lineno})"
        last = last.tb_next
    return text + place


def entry_points() -> tuple[EntryPoint, ...]:
    """What installed packages add to any of Assay's tables, by package."""
    return _entry_points(tuple(sys.path))


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Reads the files itself: `importlib.metadata` takes longer to import than `assay --help` may take."""
    packages: dict[str, list[EntryPoint]] = {}
    for directory in path:
        try:
            names = sorted(os.listdir(directory or "."))  # noqa: PTH208 - without an object for each name
        except OSError:  # a zip file, or not there
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                package = name.rpartition(".")[0].partition("-")[0].lower().replace(".", "_")
                if package not in packages:  # as in an import, the first on the path counts
                    stated = _content(f"{directory or '.'}/{name}/entry_points.txt")
                    packages[package] = [*_stated(Path(directory, name), stated)] if stated else []
    return tuple(entry for _, entries in sorted(packages.items()) for entry in entries)


def _content(path: str) -> str:
    """The text of a list of entry points; "" if Assay's are not in it, which is true of hundreds."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - without an object for each
            content = file.read()
    except OSError:
        return ""
    return content.decode(errors="replace") if b"[assay." in content else ""


def _stated(metadata: Path, entry_points: str) -> Iterator[EntryPoint]:
    """The entry points of one package for Assay, in its order."""
    headers: dict[str, str] = {}
    group = ""
    for line in map(str.strip, entry_points.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group.startswith("assay.") and "=" in line and line[0] not in "#;":
            headers = headers or _headers(metadata)
            package, version, about = (headers.get(key, "") for key in ("Name", "Version", "Summary"))
            name, _, value = (part.strip() for part in line.partition("="))
            place = value.partition("[")[0].strip()  # without the extras that it needs
            yield EntryPoint(group, name, place, package, version, about, str(metadata.parent))


def _headers(metadata: Path) -> dict[str, str]:
    """What a package states about itself before its description; its name at least."""
    stem = metadata.stem.split("-")
    headers = {"Name": stem[0], "Version": stem[1] if len(stem) > 1 else ""}
    try:
        text = (metadata / _METADATA[metadata.suffix]).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return headers
    lines = (line.partition(": ") for line in text.partition("\n\n")[0].splitlines())
    return headers | {key: value.strip() for key, _, value in lines}


@cache
def _why_not_imported(module: str) -> str:
    """Why a plug-in's module can't be imported; "" after it was.

    In a thread: a module whose import never ends keeps nothing else from its end.
    """
    if module in sys.modules:
        return ""
    from threading import Thread

    errors: list[BaseException] = []

    def work() -> None:
        try:
            import_module(module)
        except BaseException as error:  # noqa: BLE001 - whatever a plug-in raises, also SystemExit
            errors.append(error)

    thread = Thread(target=work, name=f"import of {module}", daemon=True)
    with redirect_stdout(sys.stderr):  # what it prints is no part of an answer
        thread.start()
        thread.join(IMPORT_LIMIT_S)
    if errors:
        return f"can't be imported: {described(errors[0])}"
    if not thread.is_alive():
        return ""
    _stop(thread.ident or 0)
    return (
        f"importing it takes longer than {IMPORT_LIMIT_S:g} s; import large libraries in the functions that "
        "need them"
    )


def _stop(thread: int) -> None:
    """End a thread at its next step in Python, so that a loop doesn't take the time of all others."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))


def _check_interface(entry: EntryPoint, module: str) -> None:
    """Raises PluginError unless a plug-in's module, or a package above it, states this interface."""
    place, stated = module, None
    while place and stated is None:
        stated = getattr(sys.modules[place], STATEMENT, None)
        place = place.rpartition(".")[0]
    if stated is None:
        raise PluginError(f"{entry}: {module} states no {STATEMENT}; this Assay has interface {INTERFACE}")
    if stated != INTERFACE:
        raise PluginError(f"{entry}: is written for interface {stated}; this Assay has interface {INTERFACE}")


@cache
def report(why: str) -> None:
    """Tell the user, once in a process, of a plug-in that can't be used or that failed."""
    import logging

    logging.getLogger("assay").warning("%s", why)
