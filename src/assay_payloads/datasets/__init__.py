"""Data sets for training and inference, read in their usual layouts and fed to ranks."""
