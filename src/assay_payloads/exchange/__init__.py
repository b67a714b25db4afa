"""What ranks or nodes exchange, and how fast."""
