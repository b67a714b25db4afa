"""Starts, watches and ends a node's share of a job, with the standard library alone."""
