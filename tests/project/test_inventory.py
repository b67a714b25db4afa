"""Nothing that Assay offers is lost or renamed: commands, options, functions, documents, addresses."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from conftest import ROOT


@pytest.fixture(scope="module")
def now() -> dict[str, dict[str, list[str]] | list[str]]:
    """What the code offers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        offered: dict[str, dict[str, list[str]] | list[str]] = import_module("inventory").inventory()
    return offered


RECORD = json.loads((ROOT / "tests" / "golden" / "inventory.json").read_text())


@pytest.mark.parametrize("kind", RECORD)
def test_what_is_offered_is_what_is_recorded(
    kind: str, now: dict[str, dict[str, list[str]] | list[str]]
) -> None:
    """After an addition: `python tools/inventory.py --write`. A line that goes breaks a promise.

    `assay notebook` and its function went before the first release: a notebook is a format of `report`.
    Merged before the first release: `list` is `show` without RUN, `stack list` is `stack show` without STACK,
    and `top` is `watch` without a job, since one name shows what there is and each of it; `schema` is
    `init --schema`, since both begin a suite.
    """
    assert now[kind] == RECORD[kind]
