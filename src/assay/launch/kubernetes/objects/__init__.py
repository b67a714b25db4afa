"""The objects that a job becomes on Kubernetes, and the kind of job that is chosen for it."""
