"""What the launchers of batch systems share: scripts that start keepers, files on a disk that nodes share.

A batch system provides a `Queue` (queue.py) of `QueuedJob`s (queued_job.py), options (options.py), and a
script (script.py); everything else is the same.
"""
