"""The launcher contract with plain Jobs; its own file, so that it runs next to the others of the cluster."""

from __future__ import annotations

import pytest

from launcher_contract import LauncherContract
from test_kubernetes_launcher import OnCluster, namespace

__all__ = ["namespace"]  # a fixture
pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


class TestJob(OnCluster, LauncherContract):
    brief = True

    kind = "job"
