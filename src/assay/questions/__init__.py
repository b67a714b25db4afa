"""One file for each question: it decides, and returns a record; commands and pages show it."""
