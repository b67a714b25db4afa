"""B against A: sides, groups, pairs, the verdict and what can explain it."""
