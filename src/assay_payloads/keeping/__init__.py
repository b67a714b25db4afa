"""Starts, watches, and ends a node's share of a job, using only the standard library."""
