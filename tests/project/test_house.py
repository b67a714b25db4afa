"""`tools/house.py`: names that say nothing only decrease, and no files import each other in a circle."""

from __future__ import annotations

import ast
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return import_module("house")


@pytest.fixture
def source(house: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty source that the tool looks at instead, with a record next to it."""
    monkeypatch.setattr(house, "SOURCE", tmp_path / "src")
    monkeypatch.setattr(house, "REMAINING", tmp_path / "empty_names.txt")
    (tmp_path / "src" / "shop" / "till").mkdir(parents=True)
    return tmp_path / "src" / "shop"


@pytest.mark.parametrize(
    "back",
    [
        "from shop.stock import shelf",
        "def price():\n    import shop.stock",
        "if TYPE_CHECKING:\n    from shop.stock import Shelf",
    ],
    ids=["at the top", "late", "only for types"],
)
def test_a_circle_of_imports_is_named_file_by_file(house: Any, source: Path, back: str) -> None:
    (source / "__init__.py").write_text("")
    (source / "stock.py").write_text("import json\nfrom shop import till\n")
    (source / "till" / "__init__.py").write_text("from shop.till.receipt import Receipt\n")
    (source / "till" / "receipt.py").write_text("")
    assert house.check() == []
    (source / "till" / "receipt.py").write_text(back)
    [problem] = house.check()
    circle = house.circle(house.imports())
    assert {*pairwise(circle)} == {
        ("shop.stock", "shop.till"),
        ("shop.till", "shop.till.receipt"),
        ("shop.till.receipt", "shop.stock"),
    }
    assert f"files import each other in a circle: {' imports '.join(circle)}. " in problem


def test_no_files_of_the_source_import_each_other(house: Any) -> None:
    imported = house.imports()
    assert "assay_payloads.training.step" in imported["assay_payloads.training.loops"]
    assert house.circle(imported) == []


def test_assignments_and_parameters_that_say_nothing_are_counted(house: Any) -> None:
    code = """
def price(asked: int, *, at: float, **words: str) -> int:
    found = asked + runs.found
    for one in range(found):
        found += one
    if (told := found) and [made for made in ()]:
        return told
    return lambda given: given
"""
    counted = [*house.empty_names(ast.parse(code))]
    assert sorted(counted) == ["asked", "at", "found", "found", "given", "made", "one", "told", "words"]


def test_the_record_of_empty_names_only_goes_down(house: Any, source: Path) -> None:
    record, file = house.REMAINING, source / "stock.py"
    file.write_text("found = 1\nwords = 2\n")
    house.write()
    assert record.read_text() == "   2 shop/stock.py\n"
    assert house.check() == []
    file.write_text("found = 1\nwords = 2\ntold = 3\n")
    assert "src/shop/stock.py: 3 local names that say nothing" in house.check()[0]
    with pytest.raises(SystemExit, match="3 empty names; the record allows 2 at most"):
        house.write()
    file.write_text("found = 1\ntexts = 2\n")
    assert "--write" in house.check()[0]
    house.write()
    assert record.read_text() == "   1 shop/stock.py\n"
    assert house.check() == []
