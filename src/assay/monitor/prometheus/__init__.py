"""Telemetry of runs from a Prometheus that has scraped their machines."""
