"""The rooms: what may know what stands in one table, the document says the same, and a breach is found."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from conftest import ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
[OPTIONS] = CONFIG["contracts"]
NOUNS, MAY_KNOW = OPTIONS["nouns"], OPTIONS["may_know"]
HELD = [room for room in (*NOUNS, *MAY_KNOW) if MAY_KNOW.get(room) != ["everything"]]


@pytest.fixture(scope="module")
def whole() -> Any:
    """Every import of the package."""
    return pytest.importorskip("grimp").build_graph("assay", cache_dir=None)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the contract finds in a graph."""
    monkeypatch.syspath_prepend(ROOT / "tools")

    def checked(graph: Any) -> list[str]:
        options = {"root_packages": ["assay"]}
        contract = import_module("rooms").RoomsContract("rooms", options, OPTIONS)
        outcome = contract.check(graph, verbose=False)
        assert outcome.kept == (not outcome.metadata["found"])
        return list(outcome.metadata["found"])

    return checked


def test_every_room_keeps_to_its_line(whole: Any, found: Any) -> None:
    assert found(whole) == []


@pytest.mark.parametrize("room", HELD)
def test_a_room_that_imports_another_than_its_line_allows_is_named_with_module_and_line(
    whole: Any, found: Any, room: str
) -> None:
    graph = import_module("copy").deepcopy(whole)
    inside = max(module for module in graph.modules if module.split(".")[1:2] == [room])
    line = MAY_KNOW.get(room, [])
    allowed = {room, *line} if line == ["nothing"] else {room, *line, *NOUNS}
    for other in {*NOUNS, *MAY_KNOW} - allowed:
        planted = f"assay.{other}"
        graph.add_import(importer=inside, imported=planted, line_number=7, line_contents=f"import {planted}")
        assert found(graph) == [f"{inside} imports {planted} (l. 7)"]
        graph.remove_import(importer=inside, imported=planted)


def test_not_even_a_room_that_may_know_everything_may_know_a_face(whole: Any, found: Any) -> None:
    graph = import_module("copy").deepcopy(whole)
    assert OPTIONS["faces"] == ["cli"]
    assert MAY_KNOW["api"] == ["everything"]
    graph.add_import(importer="assay.api", imported="assay.cli", line_number=7, line_contents="import cli")
    assert found(graph) == ["assay.api imports assay.cli (l. 7)"]


def test_a_room_without_a_line_and_a_line_without_a_room_are_named(whole: Any, found: Any) -> None:
    graph = import_module("copy").deepcopy(whole)
    graph.add_module("assay.cellar")
    graph.remove_module("assay.shell")
    assert found(graph)[:2] == [
        "assay.cellar has no line in the table",
        "the table names shell, and there is no assay.shell",
    ]


def documented() -> Iterator[tuple[str, list[str]]]:
    """Each room of docs/architecture.md with what it may know."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split("\n## Rooms\n")[1].split("\n\n")[0]
    known: dict[str, list[str]] = {}
    for names, _, told in (row.strip("|").split("|") for row in section.splitlines()[2:]):
        words = [word.strip() for word in told.split(",")]
        words = {"one another": [], "the nouns": [], "nothing of ours": ["nothing"]}.get(told.strip(), words)
        if words[:1] and words[0].startswith("as "):
            words = [*known[words[0].removeprefix("as ")], *words[1:]]
        for name in re.findall(r"`(\w+)(?:\.py|/)`", names):
            known[name] = words
            yield name, sorted(words)


def test_the_document_s_table_is_the_contract_s() -> None:
    assert dict(documented()) == {name: [] for name in NOUNS} | {
        name: sorted(known) for name, known in MAY_KNOW.items()
    }
