"""A public class name of the packages means one thing: it is defined once."""

from __future__ import annotations

import ast
from collections import defaultdict

from conftest import ROOT


def is_question(node: ast.ClassDef) -> bool:
    """Whether its name is that of a command, such as `History`, which others may have for what it shows."""
    return any(isinstance(mark, ast.Name) and mark.id == "question" for mark in node.decorator_list)


def test_a_public_class_name_is_defined_once() -> None:
    places = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_question(node):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 500
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_file_of_tests_has_a_name_of_its_own() -> None:
    """pytest imports them all by their names alone."""
    places = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        places[path.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
