"""B compared with A: sides, groups, pairs, the verdict and possible explanations."""
