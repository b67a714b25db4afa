"""Ways to make Assay fail on one machine; each returns checks that name what did not hold."""
