"""Many systems at once, in order."""
