"""What the launchers of batch systems share: scripts that start keepers, files on a disk that nodes share.

A batch system is a `Queue` (queue.py), options (options.py) and a script (script.py); the rest is the same.
"""
