"""Runs grouped into points: their values, which runs are replicates or pairs, means and ratios."""
