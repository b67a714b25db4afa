"""What the facts about a machine mean for benchmarks run on it: state, evidence, and remedy. Pure.

A check returns None if it does not apply: a machine without a GPU has no driver to check.
"""
