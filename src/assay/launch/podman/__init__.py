"""Containers on this machine, by podman or docker."""
