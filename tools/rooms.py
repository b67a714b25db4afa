"""The import-linter contract for the rooms of a package: each may know what pyproject.toml's table allows.

    [[tool.importlinter.contracts]]
    name = "…"
    type = "rooms"
    root = "assay"                            the package, one of the root packages
    nouns = ["errors", "units", "records"]    what everybody may know; of each other they may know all
    faces = ["cli"]                           what only faces may know, if their line says so
    subjects = ["data"]                       what is not part of "everything": reached by its location
    [tool.importlinter.contracts.may_know]
    shell = []                                room → rooms that its modules may import, beside the nouns
    cli = ["everything"]
    launch = ["shell", "assay_payloads"]      another root package is a room, too

A room is a module or a package directly below it. A room that the table lacks is an error, and so is a line
about a room that does not exist. Another root package is known only by a room whose line names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

EVERYTHING = "everything"
Table = dict[str, list[str]]


class TableField(fields.Field[Table]):
    """A table of lists of words."""

    def parse(self, raw_data: Any) -> Table:
        """The table, unchanged. Raises ValidationError if it is not a table."""
        if not _is_table(raw_data):
            raise fields.ValidationError('expected a table of lists: room = ["another", "a third"]')
        return raw_data


def _is_table(given: Any) -> TypeGuard[Table]:
    return isinstance(given, dict) and all(
        isinstance(known, list) and all(isinstance(room, str) for room in known) for known in given.values()
    )


class RoomsContract(Contract):
    """Direct imports only: what a room knows through another is the other room's concern."""

    type_name = "rooms"
    root: Any = fields.StringField()
    nouns: Any = fields.SetField(subfield=fields.StringField())
    faces: Any = fields.SetField(subfield=fields.StringField(), required=False)
    subjects: Any = fields.SetField(subfield=fields.StringField(), required=False)
    may_know: Any = TableField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Whether no room knows more than it may, and the table is complete."""
        found = [*self._strangers(graph), *self._broken(graph)]
        return ContractCheck(kept=not found, metadata={"found": found})

    def _strangers(self, graph: ImportGraph) -> Iterator[str]:
        """Rooms without a line, and names in the table that are not rooms."""
        named = {*self.nouns, *self.may_know}
        there = {child.rpartition(".")[2] for child in graph.find_children(self.root)}
        for room in sorted(there - named):
            yield f"{self.root}.{room} has no line in the table"
        known = {room for rooms in self.may_know.values() for room in rooms} - {EVERYTHING, *self._packages}
        for room in sorted((named | known) - there):
            yield f"the table names {room}, but {self.root}.{room} does not exist"

    def _broken(self, graph: ImportGraph) -> Iterator[str]:
        """Every line that imports what its room may not know."""
        for importer in sorted(module for module in graph.modules if _package(module) == self.root):
            room = self._room(importer)
            if not room:
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                if _package(imported) in self._packages and not self._may(room, self._room(imported)):
                    for place in graph.get_import_details(importer=importer, imported=imported):
                        yield f"{importer} imports {imported} (l. {place['line_number']})"

    def _may(self, room: str, other: str) -> bool:
        """Whether a room may import another; each may import itself and the root package."""
        line = self.may_know.get(room, [])
        if other in (room, ""):
            return True
        if other in (self.faces or ()) and room not in self.faces:
            return False
        everything = EVERYTHING in line and other not in (self.subjects or ())
        return everything or other in line or other in self.nouns

    def _room(self, module: str) -> str:
        """A module's name below the package; "" for the package itself; another package's name in full."""
        package, _, below = module.partition(".")
        return below.partition(".")[0] if package == self.root else package

    @property
    def _packages(self) -> list[str]:
        packages: list[str] = self.session_options["root_packages"]
        return packages

    def render_broken_contract(self, check: ContractCheck) -> None:
        """A line for each forbidden import, with its module and line."""
        for line in check.metadata["found"]:
            output.print_error(f"- {line}", bold=True)
            output.new_line()


def _package(module: str) -> str:
    return module.partition(".")[0]
