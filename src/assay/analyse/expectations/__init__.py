"""What was required, what the hardware can do and what others reached, against what was measured."""
