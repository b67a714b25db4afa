"""Benchmarks of one thing: arithmetic, memory, disks, a program of the site on each node."""
