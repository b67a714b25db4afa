"""Benchmarks of one thing: arithmetic, memory, disks, a program of the site's on each node."""
