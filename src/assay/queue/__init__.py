"""Runs that wait for their turn: requests on disk, their states, and the locks that show who works."""
