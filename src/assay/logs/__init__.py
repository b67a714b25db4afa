"""One file a foreign format: text to measurements."""
