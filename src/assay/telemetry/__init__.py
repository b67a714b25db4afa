"""Samples of the nodes that a run used: what the sampler prints, as records and as tables."""
