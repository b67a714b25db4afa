"""Jobs on Kubernetes and OpenShift: what is sent is rendered here, how it runs is watched here."""
