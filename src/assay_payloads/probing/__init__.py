"""What a node is: the probe before every trial, and what the doctor asks."""
