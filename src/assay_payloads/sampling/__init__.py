"""Telemetry: what a node and its GPUs did while a job's ranks ran on it."""
