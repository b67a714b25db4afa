"""The contracts that Assay's own formats and launchers pass: classes of tests, which plug-ins inherit."""

from __future__ import annotations

try:
    import hypothesis  # noqa: F401
    import pytest
except ImportError as error:
    raise ImportError(
        f"assay.testing needs pytest and hypothesis ({error}): pip install 'cluster-assay[testing]'"
    ) from error

pytest.register_assert_rewrite("assay.testing.formats", "assay.testing.launchers")
