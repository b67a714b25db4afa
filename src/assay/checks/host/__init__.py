"""Checks of what lies between a host's programs and its hardware. Pure; the facts: host_check.py.

A check gives None where its question does not arise: a machine without a GPU has no driver to mend.
"""
