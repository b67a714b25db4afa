"""What the runs mean: arithmetic only."""
