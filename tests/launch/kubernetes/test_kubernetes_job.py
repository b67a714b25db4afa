"""The launcher contract with plain Jobs; its own file, so that it runs next to the others of the cluster."""

from __future__ import annotations

import pytest
from test_kubernetes_launcher import OnCluster, namespace

from assay.testing.launchers import LauncherContract

__all__ = ["namespace"]  # a fixture
pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


class TestJob(OnCluster, LauncherContract):
    brief = True

    kind = "job"
