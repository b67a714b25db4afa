"""Rankings of many systems."""
