"""What the runs mean: computation only, no input or output."""
