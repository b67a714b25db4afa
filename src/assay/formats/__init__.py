"""One file per foreign format: text to measurements."""
