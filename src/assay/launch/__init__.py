"""One file a way to start a job."""
