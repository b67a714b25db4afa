"""Checks of what lies between a host's programs and its hardware. Pure; host_check.py collects the facts.

A check returns None if it does not apply: a machine without a GPU has no driver to check.
"""
