"""What `assay doctor` finds out about a Kubernetes or OpenShift cluster."""
