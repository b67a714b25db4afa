"""`assay.testing`: the contracts that plug-ins inherit need pytest, and nothing else of Assay does."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT_ALL_WITHOUT = """
import pkgutil, sys
from contextlib import suppress
from importlib import import_module
sys.modules["pytest"] = sys.modules["hypothesis"] = None
import assay
for module in pkgutil.walk_packages(assay.__path__, "assay.", onerror=lambda name: None):
    if not module.name.startswith("assay.testing") and not module.name.endswith("__main__"):
        try:
            import_module(module.name)
        except ImportError as error:
            assert error.name not in ("pytest", "hypothesis"), (module.name, error)
"""


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_without_pytest_the_contracts_say_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import assay.testing.formats"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "assay.testing needs pytest and hypothesis" in done.stderr
    assert "pip install 'cluster-assay[testing]'" in done.stderr


def test_nothing_else_of_assay_imports_pytest() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORT_ALL_WITHOUT], check=True)
