"""Results as sentences, independent of the output format."""
