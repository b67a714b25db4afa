"""Nodes, links and rings of a sweep: which of them are slow."""
