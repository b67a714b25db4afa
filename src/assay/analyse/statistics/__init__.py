"""Intervals, families of claims, power, tests for trouble: nothing here knows what was measured."""
