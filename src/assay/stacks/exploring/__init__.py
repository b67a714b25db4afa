"""Explorations: which stacks to build, how to build them, and what their measurements say so far."""
