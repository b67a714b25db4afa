"""Containers on this machine as a platform, started by Docker."""

from __future__ import annotations

from assay.launch.podman import containers

PLATFORM = containers("docker")
