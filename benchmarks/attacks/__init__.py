"""Ways to make Assay fail on one machine; each returns checks, which name what did not hold."""
