"""Facts of a node: the probe before every trial, and the doctor's programs."""
