"""Intervals, families of claims, power, tests for problems: nothing here knows what was measured."""
