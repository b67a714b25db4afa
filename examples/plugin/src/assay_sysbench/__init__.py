"""Adds to Assay: logs of sysbench, a workload that counts primes, a command that shows the spread of runs."""

ASSAY_INTERFACE = 1
