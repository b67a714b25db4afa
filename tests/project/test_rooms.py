"""The rooms: what may know what stands in one table, the document says the same, and a breach is found."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from conftest import ROOT, long_rows_but

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
TABLES = {contract["root"]: contract for contract in CONFIG["contracts"] if contract["type"] == "rooms"}
[LAYERS] = [contract["layers"] for contract in CONFIG["contracts"] if contract["type"] == "layers"]
PACKAGES = CONFIG["root_packages"]
HELD = [
    (package, room)
    for package, table in TABLES.items()
    for room in (*table["nouns"], *table["may_know"])
    if "everything" not in table["may_know"].get(room, [])
]


@pytest.fixture(scope="module")
def whole() -> Any:
    """Every import of the packages."""
    return pytest.importorskip("grimp").build_graph(*PACKAGES, cache_dir=None)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the contracts find in a graph."""
    monkeypatch.syspath_prepend(ROOT / "tools")

    def checked(graph: Any) -> list[str]:
        breaches = []
        for table in TABLES.values():
            contract = import_module("rooms").RoomsContract("rooms", {"root_packages": PACKAGES}, table)
            outcome = contract.check(graph, verbose=False)
            assert outcome.kept == (not outcome.metadata["found"])
            breaches += outcome.metadata["found"]
        return breaches

    return checked


def test_every_room_keeps_to_its_line(whole: Any, found: Any) -> None:
    assert found(whole) == []


@pytest.mark.parametrize(("package", "room"), long_rows_but(1, HELD))
def test_a_room_that_imports_another_than_its_line_allows_is_named_with_module_and_line(
    whole: Any, found: Any, package: str, room: str
) -> None:
    graph = import_module("copy").deepcopy(whole)
    inside = max(module for module in graph.modules if module.split(".")[:2] == [package, room])
    nouns, may_know = TABLES[package]["nouns"], TABLES[package]["may_know"]
    allowed = {room, *nouns, *may_know.get(room, [])}
    others = {f"{package}.{other}" for other in {*nouns, *may_know} - allowed}
    for planted in others | {*PACKAGES} - {package, *allowed}:
        graph.add_import(importer=inside, imported=planted, line_number=7, line_contents=f"import {planted}")
        assert found(graph) == [f"{inside} imports {planted} (l. 7)"]
        graph.remove_import(importer=inside, imported=planted)


def test_not_even_a_room_that_may_know_everything_may_know_a_face(whole: Any, found: Any) -> None:
    graph = import_module("copy").deepcopy(whole)
    assert TABLES["assay"]["faces"] == ["cli", "web", "__main__"]
    assert TABLES["assay"]["may_know"]["questions"] == ["everything"]
    graph.add_import(
        importer="assay.questions", imported="assay.cli", line_number=7, line_contents="import cli"
    )
    assert found(graph) == ["assay.questions imports assay.cli (l. 7)"]


def test_a_subject_is_known_only_by_rooms_whose_line_names_it(whole: Any, found: Any) -> None:
    graph = import_module("copy").deepcopy(whole)
    for subject in TABLES["assay"]["subjects"]:
        graph.add_import(
            importer="assay.questions", imported=f"assay.{subject}", line_number=7, line_contents="import"
        )
        assert found(graph) == [f"assay.questions imports assay.{subject} (l. 7)"]
        graph.remove_import(importer="assay.questions", imported=f"assay.{subject}")


def test_a_room_without_a_line_and_a_line_without_a_room_are_named(whole: Any, found: Any) -> None:
    graph = import_module("copy").deepcopy(whole)
    graph.add_module("assay.cellar")
    graph.remove_module("assay.shell")
    assert found(graph)[:2] == [
        "assay.cellar has no line in the table",
        "the table names shell, but assay.shell does not exist",
    ]


def documented(title: str) -> Iterator[tuple[str, list[str]]]:
    """Each room of docs/architecture.md below this title with what it may know."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split(f"\n## {title}\n")[1].split("|---|---|---|\n")[1].split("\n\n")[0]
    for names, _, told in (row.strip("|").split("|") for row in section.splitlines()):
        words = [word.strip() for word in told.split(",")]
        words = [] if told.strip() in ("one another", "the nouns", "nothing") else words
        for name in re.findall(r"`(\w+)(?:\.py|/)`", names):
            yield name, sorted(words)


@pytest.mark.parametrize(
    ("title", "package"), [("Rooms", "assay"), ("Rooms of what travels", "assay_payloads")]
)
def test_the_document_s_table_is_the_contract_s(title: str, package: str) -> None:
    table = TABLES[package]
    assert dict(documented(title)) == {name: [] for name in table["nouns"]} | {
        name: sorted(known) for name, known in table["may_know"].items()
    }


def test_the_document_s_layers_of_analyse_are_the_contract_s() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = text.split("\n## Layers of analyse\n")[1].split("|---|---|\n")[1].split("\n\n")[0].splitlines()
    documented = [sorted(re.findall(r"`(\w+)(?:\.py|/)`", row.split("|")[1])) for row in rows]
    assert documented == [sorted(re.findall(r"\w+", layer)) for layer in reversed(LAYERS)]
