"""Assay: is this cluster as fast as it should be, how far does it scale, and where is the time lost."""

__version__ = "0.1.0"
